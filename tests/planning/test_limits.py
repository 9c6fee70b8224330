"""The time limit of `solve`: passes are chosen to end in time, and broken off where they do not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import brute_force
import tailrank
from brute_force import Tiny, random_rows
from tailrank.checks import NotConverged
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact import limits
from tailrank.planning.exact.limits import OutOfTime
from tailrank.planning.exact.return_law import return_law

TAU = 0.2


class Clock:
    """Time that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def perf_counter(self) -> float:
        self.reads += 1
        return float(self.reads)


def reals() -> Tiny:
    rng = np.random.default_rng(4)
    while (m := random_rows(rng, "reals")).horizon < 4 or m.n_actions < 2:
        pass
    return m


def test_a_pass_is_broken_off_at_the_time_limit_and_its_bracket_holds(monkeypatch):
    m = reals()
    best = brute_force.best_cvar_by_brute_force(m, [TAU])[0]
    monkeypatch.setattr("tailrank.planning.solve.time", SimpleNamespace(perf_counter=lambda: 0.0))
    broken_off = 0
    for seconds in range(4, 24):
        clock = Clock()
        monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=clock.perf_counter))
        with pytest.warns(NotConverged, match=f"time limit of {seconds} s"):
            plan = tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=TAU, tolerance=1e-12, seconds=seconds)
        broken_off += "broken off" in plan.notes[0]
        assert clock.reads <= seconds + 10  # a finer grid is looked for at most so often
        assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9
    assert broken_off >= 10


def test_an_exact_induction_that_takes_too_long_becomes_a_bracket(monkeypatch):
    m = random_rows(np.random.default_rng(5), "thirds")
    mdp = FiniteMDP.from_rows(**m.columns())
    assert tailrank.solve(mdp, tau=TAU).status == "exact"
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=lambda: 100.0))
    monkeypatch.setattr("tailrank.planning.solve.time", SimpleNamespace(perf_counter=lambda: 0.0))
    with pytest.warns(NotConverged, match="time limit"):
        plan = tailrank.solve(mdp, tau=TAU, seconds=10.0, tolerance=1e-9)
    best = brute_force.best_cvar_by_brute_force(m, [TAU])[0]
    assert plan.status == "bracketed"
    assert plan.lower - 1e-9 <= best <= plan.upper + 1e-9


def test_a_law_on_a_grid_is_broken_off_between_steps():
    mdp = FiniteMDP.from_rows(**reals().columns())
    plan = tailrank.solve(mdp, tau=TAU)
    steps = []

    def check() -> None:
        steps.append(len(steps))
        if len(steps) == 2:
            raise OutOfTime

    with pytest.raises(OutOfTime):
        return_law(plan.policy, mdp, listed_limit=0, check=check)
    assert steps == [0, 1]


def test_no_time_at_all_still_gives_a_bracket():
    m = reals()
    with pytest.warns(NotConverged, match="time limit of 0 s"):
        plan = tailrank.solve(FiniteMDP.from_rows(**m.columns()), tau=TAU, tolerance=1e-9, seconds=0.0)
    assert plan.lower - 1e-9 <= brute_force.best_cvar_by_brute_force(m, [TAU])[0] <= plan.upper + 1e-9
