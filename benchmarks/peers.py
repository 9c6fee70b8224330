"""Other packages, each on the budget-augmented MDP that its user would hand it.

`*_build` turns the problem into the form the package wants, `*_solve` runs its finite-horizon induction
and returns the curve over budgets [C].
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any
from unittest import mock

import numpy as np
from problem import Problem, augmented, terminal_cost


def quantecon_build(problem: Problem) -> Any:
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix

    columns, probs = augmented(problem)
    states, A, K = columns.shape
    ptr = np.arange(0, states * A * K + 1, K, dtype=np.int32)
    kernel = csr_matrix((probs.ravel(), columns.ravel(), ptr), shape=(states * A, states))
    s, a = np.repeat(np.arange(states), A), np.tile(np.arange(A), states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that beta = 1 rules out its infinite-horizon methods
        ddp = DiscreteDP(np.zeros(states * A), kernel, 1.0, s, a)
    return ddp, problem


def quantecon_solve(model: Any) -> np.ndarray:
    from quantecon.markov import backward_induction

    ddp, problem = model
    values, _ = backward_induction(ddp, problem.horizon, -terminal_cost(problem))
    return -values[0, : problem.n_budgets]


def mdpsolver_build(problem: Problem) -> Any:
    import mdpsolver

    columns, probs = augmented(problem)
    solver = mdpsolver.model()
    solver.mdp(
        discount=float(np.nextafter(1.0, 0.0)),
        rewards=np.zeros(columns.shape[:2]).tolist(),
        tranMatProbs=probs.tolist(),
        tranMatColumns=columns.tolist(),
    )
    return {"solver": solver, "problem": problem, "seconds": 0.0}


def mdpsolver_solve(model: Any) -> np.ndarray:
    """H calls of one sweep each: it has no finite horizon, but a huge tolerance stops it after one."""
    solver, problem = model["solver"], model["problem"]
    values, model["seconds"] = (-terminal_cost(problem)).tolist(), 0.0
    for _ in range(problem.horizon):
        solver.solve(
            algorithm="vi",
            tolerance=1e300,
            update="standard",
            initValueVector=values,
            postProcessing=False,
            makeFinalCheck=False,
            parallel=True,
        )
        values = solver.getValueVector()
        model["seconds"] += solver.getRuntime() / 1000
    return -np.array(values[: problem.n_budgets])


def mdptoolbox_build(problem: Problem) -> Any:
    """Its input check compares sparse matrices with 0 entry by entry, which makes them dense: left out.

    It also prints a warning that the discount is 1.
    """
    from mdptoolbox.mdp import FiniteHorizon
    from scipy.sparse import csr_array

    columns, probs = augmented(problem)
    states, A, K = columns.shape
    ptr = np.arange(0, states * K + 1, K, dtype=np.int32)
    kernels = [csr_array((probs[:, a].ravel(), columns[:, a].ravel(), ptr), shape=(states, states)) for a in range(A)]
    with contextlib.redirect_stdout(io.StringIO()), mock.patch("mdptoolbox.util.check"):
        model = FiniteHorizon(kernels, np.zeros((states, A)), 1.0, problem.horizon, -terminal_cost(problem))
    return model, problem


def mdptoolbox_solve(model: Any) -> np.ndarray:
    induction, problem = model
    induction.run()
    return -induction.V[: problem.n_budgets, 0]
