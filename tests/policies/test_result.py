"""Every answer can do the same things: act, be evaluated, saved, shown, printed in a few lines."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import tailrank as tr
from tailrank.checks import InputError
from tailrank.policies import result as results

ROWS = [
    ("on", "keep", "on", 0.9, 1.0),
    ("on", "keep", "off", 0.1, -2.0),
    ("on", "mend", "on", 1.0, 0.5),
    ("off", "mend", "on", 1.0, -1.0),
]


@pytest.fixture(scope="module")
def plan():
    return tr.solve(ROWS, tau=0.2, horizon=4)


def test_a_plan_prints_a_few_lines(plan):
    text = repr(plan)
    assert len(text.splitlines()) < 15
    assert "Fraction" not in text
    assert f"{plan.cvar:.6g}" in text
    assert text.startswith("Plan for the best CVaR at tau = 0.2 in rows (exact)")


def test_html_has_the_table_and_a_picture_of_the_law(plan):
    page = plan._repr_html_()
    assert "<svg" in page
    assert f"<td>{plan.cvar:.6g}</td>" in page
    named = tr.solve([("<b>", "a", "<b>", 1, 1)], tau=0.5, horizon=1)
    assert "<b>, the first" not in named._repr_html_()


def test_who_asks_by_name_is_answered_by_name(plan):
    action, state = plan.predict("on")
    number, _ = plan.predict(0)
    assert action == ("keep", "mend")[int(number)]
    batch, _ = plan.predict(["on", "off"])
    assert batch[1] == "mend"
    later, _ = plan.predict("off", plan.reward(state, [-2.0]))
    assert later == "mend"
    with pytest.raises(InputError, match=r"state = 'of': must be one of the states on, off \(did you mean 'off'"):
        plan.predict("of")


def test_names_that_are_numbers_are_asked_for_as_text(tmp_path):
    """A file counts states and actions from 1, Python from 0: a text means the file's own, in question and answer."""
    plan = tr.solve([(1, 1, 2, 1, 0), (1, 2, 1, 1, 5), (2, 1, 2, 1, 5), (2, 2, 1, 1, 0)], horizon=1, index_base=1)
    plan.save(tmp_path / "two.policy")
    for one in (plan, tr.load(tmp_path / "two.policy")):
        assert one.predict(0)[0] == 1
        assert one.predict("1")[0] == 2
        assert one.predict(["1", "2"])[0] == [2, 1]
        with pytest.raises(InputError, match="state = '0': must be one of the states 1, 2"):
            one.predict("0")


def test_evaluate_needs_no_environment(plan):
    assert plan.evaluate().cvar == pytest.approx(plan.cvar, abs=1e-12)
    assert plan.evaluate(tau=1.0).cvar == pytest.approx(plan.mean, abs=1e-12)
    played = plan.evaluate(episodes=2000, seed=3)
    assert played.episodes == 2000
    assert played.lower <= plan.cvar <= played.upper
    assert plan.evaluate(episodes=50, seed=1).mean == plan.evaluate(episodes=50, seed=1).mean


def test_saved_and_loaded_it_can_do_the_same(plan, tmp_path):
    plan.save(tmp_path / "shop.policy")
    stored = tr.load(tmp_path / "shop.policy")
    assert stored.tau == 0.2
    assert stored.predict("on")[0] == plan.predict("on")[0]
    assert stored.evaluate(ROWS).cvar == pytest.approx(plan.cvar, abs=1e-12)
    with pytest.raises(InputError, match="env: must be given"):
        stored.evaluate()
    stored.save(tmp_path / "again.policy")
    again = tr.load(tmp_path / "again.policy")
    assert again.info == stored.info
    assert "made for rows" in repr(again)
    assert len(repr(again).splitlines()) < 20


def test_the_frame_is_the_policy(plan):
    """Every row is played: at its step, in its state, with any budget of its range."""
    pandas = pytest.importorskip("pandas")
    frame = plan.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    policy, grid = plan.policy, plan.policy.grid
    states, actions = plan.labels
    for row in frame.itertuples():
        to_come = float(sum(grid.origin[row.step :]))
        for budget in (row.budget_from, row.budget_to):
            memory = np.array([round((budget - to_come) / float(grid.unit))])
            played = policy.act(row.step, np.array([states.index(row.state)]), memory)
            assert actions[int(played[0])] == row.action
    assert len(frame) == len(frame.drop_duplicates(["step", "state", "budget_from"]))


def test_a_markov_policy_has_a_frame_too():
    mean = tr.solve(ROWS, tau=0.2, horizon=4, criterion="mean")
    frame = mean.to_frame()
    assert list(frame.columns)[:2] == ["step", "state"]


def test_without_pandas_there_is_polars_and_without_both_a_line(plan, monkeypatch):
    real = importlib.import_module
    missing: set[str] = {"pandas"}

    def find(name, *rest):
        if name in missing:
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(results.importlib, "import_module", find)
    polars = pytest.importorskip("polars")
    assert isinstance(plan.to_frame(), polars.DataFrame)
    missing.add("polars")
    with pytest.raises(InputError, match="to_frame: needs pandas or polars"):
        plan.to_frame()


def test_play_takes_what_solve_takes(plan):
    played = tr.play(plan, ROWS, 200, seed=0)
    assert played.returns.shape == (200,)
    assert set(np.round(played.returns, 9)) <= set(np.round(plan.law.values, 9))
    with pytest.raises(InputError, match="seed, rng: give one of them"):
        tr.play(plan, ROWS, 2, seed=0, rng=np.random.default_rng(0))
