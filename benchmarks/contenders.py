"""All contenders by name, tailrank among them.

`build` (problem -> model) is what comes before the induction and `solve` (model -> curve over budgets
[C]) is the induction, with the policies of all steps wherever the contender offers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import by_hand
import numpy as np
import peers
from problem import Problem, best_cvar


@dataclass(frozen=True)
class Contender:
    """kind: "peer" (a package on the augmented MDP), "by hand" (NumPy and SciPy) or "tailrank"."""

    label: str
    kind: str
    build: Callable[[Problem], Any]
    solve: Callable[[Any], np.ndarray]
    note: str = ""
    own_clock: Callable[[Any], float] | None = None


def tailrank_build(problem: Problem) -> Any:
    from tailrank import FiniteMDP

    return FiniteMDP.from_rows(**problem.rows(), horizon=problem.horizon), problem


def tailrank_solve(model: Any, law: bool = False, **options: Any) -> np.ndarray:
    """With law, also the law of the returns, whose CVaR is what the curve says."""
    import tailrank

    mdp, problem = model
    plan = tailrank.solve(mdp, problem.tau, **options)
    if plan.status != "exact":
        raise SystemExit(f"tailrank.solve: status is {plan.status}, expected exact")
    curve = on_budgets(plan.curve.budget, plan.curve.shortfall, problem.n_budgets)
    if law and not abs(plan.law.cvar(problem.tau) - best_cvar(curve, problem.tau)) <= 1e-9:
        raise SystemExit(f"tailrank.solve: the law says {plan.law.cvar(problem.tau)}, the curve {plan.cvar}")
    return curve


def kernel_build(problem: Problem) -> Any:
    from tailrank.models import grid
    from tailrank.models.mdp import FiniteMDP
    from tailrank.planning.exact import induction

    mdp = FiniteMDP.from_rows(**problem.rows(), horizon=problem.horizon)
    units = grid.exact_grid([np.unique(mdp.reward)], mdp.horizon, mdp.discount)
    plan = induction.layout(mdp, units, induction.reachable(mdp), np.zeros(mdp.n_states, dtype=np.int64))
    return mdp, units, plan, problem


def kernel_solve(model: Any) -> np.ndarray:
    from tailrank.planning.exact import induction

    mdp, units, plan, problem = model
    result = induction.induct(mdp, units, plan, keep_actions=True)
    return on_budgets(*result.curve(mdp.start), problem.n_budgets)


def on_budgets(budgets: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """A curve given on some consecutive budgets, on the budgets 0..n-1: flat below, slope one above."""
    wanted = np.arange(n)
    inside = np.interp(wanted, budgets, values)
    return inside + np.maximum(wanted - budgets[-1], 0)


CONTENDERS = {
    "tailrank": Contender("tailrank.solve, end to end", "tailrank", tailrank_build, tailrank_solve),
    "tailrank_law": Contender(
        "tailrank.solve, and the law of the returns", "tailrank", tailrank_build, partial(tailrank_solve, law=True)
    ),
    "tailrank_any": Contender(
        "tailrank.solve, any of the best plans", "tailrank", tailrank_build, partial(tailrank_solve, undominated=False)
    ),
    "tailrank_kernel": Contender(
        "tailrank.planning.exact.induction, the induction alone", "tailrank", kernel_build, kernel_solve
    ),
    "quantecon": Contender(
        "QuantEcon, backward_induction",
        "peer",
        peers.quantecon_build,
        peers.quantecon_solve,
        "sparse state-action pairs",
    ),
    "mdpsolver": Contender(
        "mdpsolver, value iteration",
        "peer",
        peers.mdpsolver_build,
        peers.mdpsolver_solve,
        "has no finite horizon: one call for each sweep from the values of the last; counted is the time its "
        "own clock reports, which leaves out handing lists over but pays its set-up "
        "at every sweep; the policies are not read",
        lambda model: model["seconds"],
    ),
    "mdptoolbox": Contender(
        "pymdptoolbox, FiniteHorizon",
        "peer",
        peers.mdptoolbox_build,
        peers.mdptoolbox_solve,
        "its input check makes sparse kernels dense and does not fit in memory: left out",
    ),
    "matvec": Contender(
        "SciPy, product with the augmented kernel", "by hand", by_hand.matvec_build, by_hand.matvec_solve
    ),
    "numpy": Contender("NumPy, gather of shifted rows", "by hand", lambda problem: problem, by_hand.numpy_solve),
    "sparse": Contender("SciPy, product with all shifted rows", "by hand", by_hand.sparse_build, by_hand.sparse_solve),
}
