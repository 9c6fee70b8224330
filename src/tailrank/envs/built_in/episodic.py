"""Episodic environments for learners: n parallel episodes at once, resets only, the truth at hand.

States are numbers 0..S-1 at every step. The decoder `group[h]` [S] says which group (latent state) emits a
state; a state is drawn uniformly among those of its group. `truth` is the same MDP over groups, which is
small however many states there are, and is what policies that see groups are evaluated on exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import offsets
from tailrank.models.rewards import RewardLaw

RewardSampler = Callable[[int, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True, eq=False)
class Episodic:
    """An environment with its truth.

    rewards: laws over groups, which [H, G, A]; `reward_of[h]` [G, A] is the law of each pair. truth: the MDP
    over groups 0..G-1 (the same G at every step). model: the true phi and psi. candidates: a realizable class
    F for each of the H - 1 steps (arrays are shared), or empty. sampler: draws rewards that are not on the
    grid; real: what they are then (`continuous_rewards.py:RealRewards`). optimum: the closed form of CVaR* as a
    function of tau, if one is known.
    """

    name: str
    truth: FiniteMDP
    rewards: RewardLaw
    model: LowRankModel
    start: int = 0
    candidates: tuple[tuple[StepModel, ...], ...] = ()
    sampler: RewardSampler | None = None
    real: Any = None
    optimum: Callable[[float], float] | None = None
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        H, G, A = self.truth.horizon, self.truth.n_states, self.truth.n_actions
        if self.model.horizon != H or self.rewards.which.shape != (H, G, A):
            raise InputError(
                f"{self.name}: truth has H, G, A = {H}, {G}, {A}, but the model has {self.model.horizon} steps "
                f"and the rewards have shape {list(self.rewards.which.shape)}"
            )
        if self.candidates and len(self.candidates) != H - 1:
            raise InputError(f"{self.name}: has candidates for {len(self.candidates)} steps, expected {H - 1}")
        here = int(self.group[0][self.start])
        if self.truth.start[here] != 1.0:
            raise InputError(f"{self.name}: the truth must start in group {here}, the group of state {self.start}")

    @property
    def horizon(self) -> int:
        """H."""
        return self.truth.horizon

    @property
    def n_states(self) -> int:
        """S, the number of states that can be observed at a step."""
        return int(self.group[0].size)

    @property
    def n_actions(self) -> int:
        """A."""
        return self.truth.n_actions

    @property
    def n_groups(self) -> int:
        """G."""
        return self.truth.n_states

    @property
    def group(self) -> tuple[np.ndarray, ...]:
        """The decoder: for each of the H steps the group of every state, [S]."""
        return self.model.group

    @property
    def reward_of(self) -> tuple[np.ndarray, ...]:
        """For each of the H steps the index of the reward law of every pair, [G, A]."""
        return tuple(self.rewards.which)

    def reset(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """First states of n episodes, [n]: all the same."""
        return np.full(n, self.start, dtype=np.int64)

    def step(
        self, h: int, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rewards [n] and next states [n] of step h.

        Rewards are real numbers, undiscounted; `rewards.grid.units(h, discount**h * reward)` is what they take
        off a budget. After the last step states stay.
        """
        checks.indices(actions, "actions", self.n_actions, f"at step {h}")
        groups = self.group[h][states]
        _, next_group, _, rewards = self.truth.rows(h)
        row = self.truth.draw_rows(h, groups * self.n_actions + actions, rng)
        reward = rewards[row]
        if self.sampler is not None:
            reward = self.sampler(h, groups, actions, rng)
        if h == self.horizon - 1:
            return reward, states
        return reward, self._emit(h + 1, next_group[row].astype(np.int64), rng)

    def _emit(self, h: int, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        members = self._members[h]
        if members is None:
            return groups
        order, first = members
        count = first[groups + 1] - first[groups]
        return order[first[groups] + (rng.random(groups.size) * count).astype(np.int64)]

    @cached_property
    def _members(self) -> tuple[tuple[np.ndarray, np.ndarray] | None, ...]:
        """States sorted by group and the place of each group's first, or None where states are groups."""
        result: list[tuple[np.ndarray, np.ndarray] | None] = []
        for group in self.group:
            if np.array_equal(group, np.arange(self.n_groups)):
                result.append(None)
                continue
            counts = np.bincount(group, minlength=self.n_groups)
            result.append((np.argsort(group, kind="stable"), offsets(counts)))
        return tuple(result)


def product_mdp(steps: tuple[StepModel, ...], rewards: RewardLaw, start: int) -> FiniteMDP:
    """The MDP over groups with these kernels [H - 1] and, independent of them, these rewards.

    After the last step the group stays.
    """
    units = np.arange(rewards.laws.shape[1])
    values = np.broadcast_to(rewards.grid.value(units) - float(rewards.grid.offset), rewards.laws.shape)
    origin = [float(x) for x in rewards.grid.origin]
    return product_of_laws(steps, rewards.which, values, rewards.laws, start, origin)


def product_of_laws(
    steps: tuple[StepModel, ...],
    which: np.ndarray,
    values: np.ndarray,
    probs: np.ndarray,
    start: int,
    origin: Sequence[float] = (),
) -> FiniteMDP:
    """The same for laws with values [L, n] and probabilities [L, n]; which [H, G, A]; origin [H] is added to them."""
    H, G, A = which.shape
    stay = np.broadcast_to(np.eye(G)[:, None, :], (G, A, G))
    columns: list[tuple[np.ndarray, ...]] = []
    for h in range(H):
        kernel = steps[h].kernel if h < H - 1 else stay
        g, a, after = np.nonzero(kernel)
        law = which[h, g, a]
        joint = kernel[g, a, after][:, None] * probs[law]
        row, i = np.nonzero(joint)
        paid = values[law[row], i] + (origin[h] if origin else 0.0)
        columns.append((np.full(row.size, h), g[row], a[row], after[row], joint[row, i], paid))
    step, *rest = (np.concatenate(column) for column in zip(*columns, strict=True))
    return FiniteMDP.from_rows(*rest, step=step, start=start, n_states=G, n_actions=A)
