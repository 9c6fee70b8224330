"""A finite class of models, searched by enumeration: the product over steps of the candidates of an environment.

Member i is one candidate for each of the H - 1 steps, numbered with the last step fastest. Its values in the
budget-augmented MDP at step h,

    Q_h(g, c, a) = sum_x r_h(x | g, a) E_{g'} V_{h+1}(g', max(c - x, 0)),   V_h = min_a Q_h,   V_H(g, c) = c   (units)

depend on its candidates from step h on alone, its tail, which is member i modulo the number of tails: values are
kept once for each tail. With m candidates a step there are m^(H - 1) members: this is for tiny classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.models.rewards import RewardLaw
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.optimistic import after_reward
from tailrank.planning.latent.planner import LatentPlan

MOST_MEMBERS = 5000
MOST_VALUES = 100_000_000
"""Numbers kept for the members of a class."""


@dataclass(frozen=True)
class Members:
    """All members: q [H] of [tails, G, A, C], where at step 0 G is the start alone; kernels [H - 1] of [m, G, A, G'].

    The members are the tails of step 0.
    """

    q: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]
    actions: tuple[np.ndarray, ...]
    kernels: tuple[np.ndarray, ...]
    start: int

    @property
    def number(self) -> int:
        """How many members."""
        return int(self.q[0].shape[0])

    def tails(self, h: int) -> int:
        """How many tails from step h on."""
        return int(self.q[h].shape[0])

    def row(self, h: int, groups: np.ndarray) -> np.ndarray:
        """Where groups [n] stand in the tables of step h: step 0 has one row, that of the start."""
        return np.zeros_like(groups) if h == 0 else groups

    def best(self, alive: np.ndarray, tau: float) -> tuple[int, int]:
        """The survivor (alive [N]) and its budget with the largest c - V_0(c) / tau; of equal ones the first."""
        curve = self.values[0][:, 0]
        objective = np.where(alive[:, None], np.arange(curve.shape[1]) - curve / tau, -np.inf)
        found = int(np.argmax(objective >= objective.max() - 1e-11 * curve.shape[1]))
        return found // curve.shape[1], found % curve.shape[1]

    def plan(self, member: int, tau: float) -> LatentPlan:
        """What a member holds to be best."""
        tables = [self.actions[h][member % self.tails(h)] for h in range(len(self.q))]
        first = np.zeros((self.kernels[0].shape[1], tables[0].shape[1]), dtype=tables[0].dtype)
        first[self.start] = tables[0][0]
        return LatentPlan((first, *tables[1:]), 0, 0.0, self.values[0][member, 0]).at(tau)


def members_of(env: CountableEnv, algorithm: str) -> Members:
    """The class of an environment; raises where it has none or one too large for the algorithm that asks."""
    sizes = [len(models) for models in env.candidates]
    if not sizes:
        raise InputError(f"{algorithm}: needs a finite class of models, {env.name} has none")
    number = math.prod(sizes)
    if number > MOST_MEMBERS:
        raise InputError(
            f"{algorithm}: the class has {number:.4g} members, at most {MOST_MEMBERS} can be searched: "
            "computationally inefficient by nature"
        )
    G, A = env.reward_of[-1].shape
    stored = (number // sizes[0] + 1) * G * A * env.rewards.n_budgets
    if stored > MOST_VALUES:
        raise InputError(
            f"{algorithm}: the values of the class are {stored:.3g} numbers, at most {MOST_VALUES:.3g} can be kept"
        )
    start = int(env.group[0][env.start])
    budgets = np.arange(env.rewards.n_budgets, dtype=np.float64)
    shape = (1, *env.reward_of[-1].shape, budgets.size)
    q = [after_laws(np.broadcast_to(budgets, shape), env.rewards, env.reward_of[-1])]
    kernels: list[np.ndarray] = []
    for h in reversed(range(env.horizon - 1)):
        kernels.insert(0, np.stack([model.kernel for model in env.candidates[h]]))
        law_of, kernel = env.reward_of[h], kernels[0]
        if h == 0:
            law_of, kernel = law_of[start : start + 1], kernel[:, start : start + 1]
        after = q[0].min(axis=2)
        mean = np.einsum("jgan,tnc->jtgac", kernel, after, optimize=True)
        q.insert(0, after_laws(mean.reshape(-1, *mean.shape[2:]), env.rewards, law_of))
    kind = action_type(A)
    return Members(
        tuple(q),
        tuple(table.min(axis=2) for table in q),
        tuple(table.argmin(axis=2).astype(kind) for table in q),
        tuple(kernels),
        start,
    )


def after_laws(table: np.ndarray, rewards: RewardLaw, law_of: np.ndarray) -> np.ndarray:
    """sum_x r(x | g, a) table[., g, a, max(c - x, 0)] of a table [T, G, A, C]."""
    flat = table.reshape(table.shape[0], -1, table.shape[-1])
    result = np.empty(flat.shape)
    for law in np.unique(law_of):
        pairs = law_of.ravel() == law
        part = flat[:, pairs]
        result[:, pairs] = after_reward(part.reshape(-1, part.shape[-1]), rewards.laws[law]).reshape(part.shape)
    return result.reshape(table.shape)
