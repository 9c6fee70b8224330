"""The data of a report: exact where the slider can stand, the policy as it acts, episodes as they were played."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from report_cases import MODELS, bare_run, simulator_run

from tailrank import FiniteMDP, InputError, ReturnLaw, read_mdp, report, solve
from tailrank.episodes.rollout import play
from tailrank.episodes.streams import Streams
from tailrank.policies.tables import BudgetPolicy, MarkovPolicy
from tailrank.report import _learning, policy_table, sources
from tailrank.report._domain import grid_width, picture
from tailrank.report._episodes import Played
from tailrank.report._levels import pack, pack_curve, shorten_law, slider
from tailrank.report.problem import Offered, spread
from tailrank.risk.over_runs.intervals import RESAMPLES, widen_confidence
from tailrank.runs.folder import lock_folder
from tailrank.runs.read import Run

LEVELS = slider([0.123])


def unpacked(packed):
    if isinstance(packed, list):
        return np.array(packed, dtype=float)
    return np.frombuffer(base64.b64decode(packed["f8"]), dtype="<f8")


def test_levels():
    assert len(LEVELS) == 129
    assert LEVELS[0] == 0.001
    assert LEVELS[-1] == 1.0
    assert 0.123 in LEVELS
    assert list(LEVELS) == sorted(set(LEVELS))
    with pytest.raises(InputError, match="tau = 0"):
        slider([0])


def test_packed_floats_come_back_to_the_last_bit():
    for size in (0, 3, 200):
        values = np.random.default_rng(size).normal(size=size) * 10.0 ** np.arange(size)
        assert np.array_equal(unpacked(pack(values)), values)
    assert pack(np.array([1.0, np.nan])) == [1.0, None]


@pytest.mark.parametrize("offset", [0.0, -1e6])
@pytest.mark.parametrize("seed", range(4))
def test_short_laws_have_the_same_tails(seed, offset):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2000, 30_000))
    law = ReturnLaw.of(offset + np.sort(rng.normal(size=n) ** 3), rng.dirichlet(np.full(n, 0.2)))
    short = shorten_law(law, LEVELS, 500)
    assert short.values.size <= 500 + 2 * len(LEVELS) < law.values.size
    assert (np.diff(short.values) > 0).all()
    assert (short.values[0], short.values[-1]) == (law.values[0], law.values[-1])
    assert short.mean == pytest.approx(law.mean, abs=1e-9)
    for tau in LEVELS:
        assert short.var(tau) == law.var(tau)
        assert short.cvar(tau) == pytest.approx(law.cvar(tau), abs=1e-9)


def test_short_curves_have_the_same_best():
    mdp = read_mdp(MODELS / "betting.json").mdp
    plan = solve(mdp, tau=0.1)
    data = pack_curve(plan.curve, LEVELS, most=5)
    budget, shortfall = unpacked(data["budget"]), unpacked(data["shortfall"])
    assert budget.size < plan.curve.budget.size
    for tau in LEVELS:
        assert (budget - shortfall / tau).max() == pytest.approx(plan.frontier().cvar(tau), abs=1e-12)


def test_best_policies_are_best_where_they_say():
    problem = Offered.solve("betting", read_mdp(MODELS / "betting.json").mdp, 0.1)
    entries = problem.data(LEVELS)["best"]
    assert len(entries) > 20
    seen = [k for entry in entries for k in entry["at"]]
    assert len(seen) == len(set(seen))
    for entry in entries:
        law = ReturnLaw(unpacked(entry["law"]["values"]), unpacked(entry["law"]["probs"]))
        assert law.mean == pytest.approx(entry["mean"], abs=1e-9)
        for k in entry["at"]:
            assert law.cvar(LEVELS[k]) == pytest.approx(problem.plan.frontier().cvar(LEVELS[k]), abs=1e-8)
    assert spread(6) == [0, 5, 3, 2, 4, 1]


def test_the_table_plays_what_the_policy_plays(subjects):
    for name in ("betting", "cliff", "runs", "policy", "markov"):
        shown = subjects[name].policies[0]
        policy = shown.policy
        table = policy_table.policy_table(policy, None if shown.mdp is None else Played.of(policy, shown.mdp, 0).visits)
        rng = np.random.default_rng(0)
        for h in rng.integers(table["horizon"], size=20):
            for row in table["steps"][0 if table["axis"] == "step" else h]["rows"]:
                lengths, actions = row["runs"][::2], row["runs"][1::2]
                flat = np.repeat(actions, lengths)
                k = int(rng.integers(flat.size)) if table["axis"] == "budget" else h
                memory = 0
                if isinstance(policy, BudgetPolicy):
                    worth = row["first"] + k * table["unit"] - float(sum(policy.grid.origin[h:]))
                    memory = round(worth / float(policy.grid.unit))
                assert policy.act(int(h), np.array([row["state"]]), np.array([memory]))[0] == flat[k]


def test_tables_that_are_too_large_say_so(monkeypatch):
    policy = MarkovPolicy(np.zeros((2, 50), dtype=np.int64))
    assert "50 states" in policy_table.policy_table(policy, None)
    visits = np.zeros((2, 50), dtype=np.int64)
    visits[:, [7, 3]] = 5
    assert policy_table.policy_table(policy, visits)["states"] == [3, 7]
    monkeypatch.setattr(policy_table, "MOST_RUNS", 1)
    assert "too many different pieces" in policy_table.policy_table(policy, visits)
    assert "plays on observations" in policy_table.policy_table(3, None)


def test_episodes_are_those_of_the_seed_with_the_budget_that_was_left():
    mdp = read_mdp(MODELS / "betting.json").mdp
    plan = solve(mdp, tau=0.1)
    data = Played.of(plan.policy, mdp, 5).data()
    assert data == Played.of(plan.policy, mdp, 5).data()
    assert data != Played.of(plan.policy, mdp, 6).data()
    returns = np.sort(play(plan.policy, mdp, data["played"], rng=Streams(5).evaluation(0)).returns)
    for episode in data["kept"]:
        assert episode["return"] == returns[round(episode["place"] * (returns.size - 1))]
        assert sum(episode["rewards"]) == episode["return"]
        left = plan.budget - np.concatenate([[0], np.cumsum(episode["rewards"])])
        assert np.allclose(episode["memory"], left)
        for t, (state, action) in enumerate(zip(episode["states"], episode["actions"])):
            index = round(episode["memory"][t] - float(sum(plan.policy.grid.origin[t:])))
            assert plan.policy.act(t, np.array([state]), np.array([index]))[0] == action


def test_the_quiet_end_of_an_episode_is_left_out():
    mdp = FiniteMDP.from_rows([0, 0], [0, 0], [1, 0], [0.5, 0.5], [1, 0], horizon=6)
    played = Played.of(MarkovPolicy(np.zeros((6, 2), dtype=np.int64)), mdp, 0)
    for episode in played.data()["kept"]:
        assert episode["states"][-1] == (1 if episode["return"] else 0)
        assert episode["states"].count(1) == bool(episode["return"])
        assert len(episode["states"]) == 7 or episode["return"]
        assert len(episode["actions"]) == len(episode["states"]) - 1
        assert episode["memory"] is None


@pytest.mark.parametrize(
    ("source", "options", "width", "arrows"),
    [
        ("FrozenLake-v1", {"horizon": 9}, 4, "ldru"),
        ("CliffWalking-v1", {"horizon": 9}, 12, "urdl"),
        (MODELS / "cliff.json", {}, 8, "urdl"),
        (MODELS / "betting.json", {}, 0, ""),
        (MODELS / "machine.csv", {"horizon": 9}, 0, ""),
        (MODELS / "counter_example.json", {}, 0, ""),
    ],
)
def test_grids_are_seen(source, options, width, arrows):
    mdp = read_mdp(source, **options).mdp
    assert grid_width(mdp) == width
    found = picture(mdp)
    if width:
        assert found["arrows"] == list(arrows)
        assert len(found["cells"]) == mdp.n_states // width * width


def test_the_lake_and_the_lock_look_right(subjects):
    cells = picture(read_mdp("FrozenLake-v1", horizon=3).mdp)["cells"]
    assert [i for i, kind in enumerate(cells) if kind == "trap"] == [5, 7, 11, 12]
    assert (cells[0], cells[15], cells[1]) == ("start", "goal", "cell")
    shown = subjects["lock"].data()["policies"][0]
    assert shown["domain"]["kind"] == "chain"
    assert shown["labels"] == {"0": "good, upper", "1": "good, lower", "2": "bad"}
    assert all(sum(n for _, _, n in step) == shown["episodes"]["played"] for step in shown["domain"]["flows"])
    for step, possible in zip(shown["domain"]["flows"], shown["domain"]["possible"]):
        assert all([s, t] in possible for s, t, _ in step)


def test_several_seeds_have_an_interval(runs):
    """Against a bootstrap written out: the mean of every resample of the three runs, and its widened quantiles."""
    found = _learning.curves([Run.read(folder) for folder in runs])
    (group,) = found["groups"]
    assert group["seeds"] == [0, 1, 2]
    rows = [[json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()] for folder in runs]
    chosen = np.random.default_rng(0).integers(0, 3, size=(RESAMPLES, 3))
    tail = 0.5 - widen_confidence(0.95, [3]) / 2
    for name in ("cvar", "regret", "bonus", "log_likelihood"):
        table = np.array([[row[name] for row in run] for run in rows])
        assert np.allclose(unpacked(group["mean"][name]["mean"]), table.mean(axis=0))
        low, high = np.quantile(table[chosen].mean(axis=1), [tail, 1 - tail], axis=0)
        assert np.allclose(unpacked(group["mean"][name]["low"]), low)
        assert np.allclose(unpacked(group["mean"][name]["high"]), high)
    assert _learning.curves([Run.read(runs[0])])["groups"][0]["mean"] is None


def test_groups_are_named_by_what_differs(runs):
    first = Run.read(runs[0])
    other = replace(first, config=first.config | {"batch": 3}, rows=first.rows[:5])
    groups = _learning.curves([first, Run.read(runs[1]), other])["groups"]
    assert [group["name"] for group in groups] == ["batch default", "batch 3"]
    assert groups[0]["common"] == 12
    long = replace(first, rows=[first.rows[0] | {"k": k} for k in range(1000)])
    drawn = unpacked(_learning.curves([long])["groups"][0]["runs"][0]["k"])
    assert (drawn[0], drawn[-1], drawn.size) == (0, 999, _learning.MOST_POINTS)
    rare = replace(long, rows=[row | {"cvar": 1.0 if row["k"] in (7, 501) else None} for row in long.rows])
    found = _learning.curves([rare])["groups"][0]["runs"][0]
    assert {7, 501} <= set(unpacked(found["k"]))
    assert np.isfinite(unpacked(found["cvar"])).sum() == 2


def test_warnings_name_what_is_wrong(runs, tmp_path):
    first = Run.read(runs[0])
    assert sources.warnings_of([first]) == ()
    worse = replace(
        first,
        config=first.config | {"model": "em", "rank": 1},
        manifest=first.manifest | {"status": "failed", "error": "out of luck", "notes": ["misspecified: rewards lie"]},
        rows=[row | {"converged": False, "saturated": 0.9} for row in first.rows],
    )
    text = "\n".join(sources.warnings_of([worse]))
    for words in (
        "not finished (failed): out of luck",
        "did not converge in 12 of 12",
        "Misspecified: rewards lie.",
        "the model has rank 1, the environment has rank 2",
        "bonuses are still at their cap",
    ):
        assert words in text
    poor = replace(first, manifest=first.manifest | {"result": first.result | {"cvar": 0.1}})
    assert "has CVaR 0.1, the best possible is 0.8" in sources.warnings_of([poor])[0]
    both = sources.warnings_of([first, replace(first, manifest=first.manifest | {"versions": {}})])
    assert both == ("The runs were made with different versions of packages.",)
    bare = bare_run(tmp_path / "b")
    with lock_folder(bare):
        assert sources.warnings_of([Run.read(bare)]) == ("The run is not finished (running).",)
    assert sources.warnings_of([Run.read(bare)]) == ("The run is not finished (stopped).",)


def test_damaged_runs_are_refused(runs, tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        report.write(tmp_path, tmp_path / "r.html")
    folder = simulator_run(tmp_path / "s")
    (folder / "rows.jsonl").write_text("{}\n{\n")
    with pytest.raises(InputError, match="line 2 is damaged"):
        report.write(folder, tmp_path / "r.html")
    (folder / "rows.jsonl").write_text("{}\n")
    (folder / "evaluation.safetensors").write_text("no")
    with pytest.raises(InputError, match=r"evaluation\.safetensors: is damaged"):
        report.write(folder, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_policy_of_an_unknown_kind_is_no_reason_to_fail(tmp_path):
    folder = simulator_run(tmp_path / "s")
    (folder / "plan.safetensors").write_text("not a policy of this version")
    policy, why = Run.read(folder).policy
    assert policy is None
    assert "cannot be shown" in why
    assert report.write(folder, tmp_path / "r.html") > 10_000


def test_an_unfinished_run_shows_its_last_checkpoint(runs, tmp_path):
    folder = tmp_path / "r"
    shutil.copytree(runs[0], folder)
    (folder / "plan.safetensors").unlink()
    run = Run.read(folder)
    assert run.policy[1] == "the plan of iteration 12"
    shown = sources.of_runs([folder]).policies[0]
    assert shown.evaluation.cvar(0.1) == pytest.approx(run.rows[-1]["cvar"], abs=1e-12)


def test_a_plan_without_its_mdp(tmp_path):
    mdp = read_mdp(MODELS / "counter_example.json").mdp
    plan = solve(mdp, tau=0.5)
    assert report.write(plan, tmp_path / "r.html") < 200_000
    data = sources.of_plan(plan, None, "plan").data()
    assert data["problems"][0]["neutral"] == {"mean": 250.0, "law": None}
    assert "without its MDP" in data["policies"][0]["absent"]["episodes"]
    assert data["policies"][0]["table"] is not None


def test_solving_again_puts_the_new_policy_first(subjects):
    again = sources.with_solution(subjects["betting"], 0.5)
    assert [shown.name for shown in again.policies] == ["best at tau = 0.5"]
    assert again.policies[0].evaluation.cvar(0.5) == pytest.approx(solve(again.policies[0].mdp, 0.5).cvar)
    added = sources.with_solution(subjects["runs"], 0.5)
    assert [shown.problem for shown in added.policies] == [0, 1, 1, 1]
    assert added.runs == subjects["runs"].runs
    with pytest.raises(InputError, match="no finite MDP"):
        sources.with_solution(subjects["simulator"], 0.5)
