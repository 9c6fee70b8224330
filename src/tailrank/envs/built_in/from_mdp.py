"""Any finite MDP as an episodic environment: every state is its own group.

The paper's learners want one start state, all actions everywhere and rewards that are independent of the next state.
`equivalent` arranges all three, and `notes` says so.
"""

from __future__ import annotations

import numpy as np

from tailrank.envs.built_in.episodic import Episodic
from tailrank.envs.built_in.equivalent import check_size, equivalent
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import owners
from tailrank.models.rewards import RewardLaw


def from_mdp(mdp: FiniteMDP, upsilon: float | None = None, *, name: str = "mdp") -> Episodic:
    """The environment that plays `mdp`; upsilon: spacing of the grid that rewards are rounded up to.

    What is played is the MDP of `equivalent`, which has the same returns.
    """
    check_size(mdp, name)
    mdp, notes = equivalent(mdp)
    check_size(mdp, name)
    models: list[StepModel] = []
    rank, last = 0, np.empty(0)
    for b in range(max(min(mdp.n_blocks, mdp.horizon - 1), 1)):
        kernel = _kernel(mdp, b)
        # Steps that are alike share one model, which costs seconds to find when there are many states.
        if np.array_equal(kernel, last):
            models.append(models[-1])
            continue
        models.append(_step_model(kernel))
        rank, last = max(rank, _rank(kernel)), kernel
    steps = tuple(models[h if mdp.n_blocks > 1 else 0] for h in range(mdp.horizon - 1))
    return Episodic(
        name=name,
        truth=mdp,
        rewards=RewardLaw.from_mdp(mdp, upsilon),
        model=LowRankModel(steps, (np.arange(mdp.n_states),) * mdp.horizon),
        start=int(mdp.start.argmax()),
        notes=(*notes, f"numerical rank of the kernels: {rank} with {mdp.n_states} states"),
        labels=tuple(str(label) for label in mdp.labels),
    )


def _kernel(mdp: FiniteMDP, b: int) -> np.ndarray:
    ptr, next_state, prob, _ = mdp.rows(b)
    kernel = np.zeros((ptr.size - 1, mdp.n_states))
    np.add.at(kernel, (owners(ptr), next_state), prob)
    return kernel.reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def _rank(kernel: np.ndarray) -> int:
    flat = kernel.reshape(-1, kernel.shape[-1])
    values = np.linalg.eigvalsh(flat.T @ flat)
    return int((values > 1e-12 * values[-1]).sum())


def _step_model(kernel: np.ndarray) -> StepModel:
    """Exact factors: one latent for each state that is entered, or for each distinct row if these are fewer."""
    S, A, _ = kernel.shape
    entered = np.flatnonzero(kernel.sum(axis=(0, 1)) > 0)
    flat = kernel.reshape(S * A, S)
    places: dict[bytes, int] = {}
    which = np.array([places.setdefault(row.tobytes(), len(places)) for row in flat])
    if len(places) < entered.size:
        first = np.unique(which, return_index=True)[1]
        return StepModel(np.eye(len(places))[which].reshape(S, A, len(places)), flat[first])
    return StepModel(kernel[:, :, entered], np.eye(S)[entered])
