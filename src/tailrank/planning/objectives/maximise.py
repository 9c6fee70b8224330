"""The best mean subject to a bound on the tail: exact where rewards lie on a grid, bracketed elsewhere."""

from __future__ import annotations

import time

from tailrank.checks import InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.limits import Limits
from tailrank.planning.objectives.constrained import Cap, ConstrainedPlan, Floor, exact_engine, on_grid
from tailrank.planning.objectives.off_grid import bracketed


def maximise_mean(
    mdp: FiniteMDP, subject_to: Floor | Cap, *, seconds: float = 60.0, tolerance: float = 0.01
) -> ConstrainedPlan:
    """The best mean subject to a bound. tolerance: of the gap, relative, where rewards lie on no common grid.

    >>> rows = [(0, 0, 0, 1, 1), (0, 1, 0, 0.9, 2), (0, 1, 0, 0.1, -5)]  # s, a, s', p, r
    >>> plan = maximise_mean(FiniteMDP.from_rows(*zip(*rows), horizon=1), Cap(target=0, most=0.05))
    >>> round(plan.mean, 9), round(plan.bounded, 9), round(plan.share, 9)
    (1.15, 0.05, 0.5)
    """
    if not isinstance(subject_to, Floor | Cap):
        raise InputError(f"subject_to = {subject_to!r:.60}: must be a bound, such as Floor(0.1, least=1)")
    problem = SolveContext.of(mdp)
    if problem.lattice() is None:
        return bracketed(problem, subject_to, Limits((0.0, tolerance), 4 * 2**30, seconds, time.perf_counter()))
    return on_grid(exact_engine(mdp, seconds=seconds), subject_to)
