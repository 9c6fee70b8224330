"""Learning by elimination in a finite class, the loop that OLIVE and the witness-rank algorithm share.

Every iteration
- takes the most optimistic of the members that are left: the largest c - V_0(c) / tau, with its starting budget c;
- plays its plan for n episodes and estimates its average Bellman error at every step,

      E[V_{h+1}(g', c') - Q_h(g, c, a)],     whose sum is what the plan falls short by beyond its promise;

- returns it if the sum is surely at most tau epsilon: then its CVaR is within epsilon of the best, as the member was
  optimistic;
- else plays n episodes that follow the plan to the step with the largest error and take a uniform action there, and
  eliminates the members that these transitions refute. What counts as refuted is up to the algorithm.

Confidence: all estimates are compared with empirical Bernstein bounds (Maurer and Pontil 2009) that hold for all
iterations together with probability 1 - delta, so that the truth stays, whatever n is. Departures from both papers:
their n and thresholds come from epsilon and a rank that is to be known; here n is a setting that is doubled when the
optimistic member stays (up to a million). The start is fixed, so that V_0 needs no samples, and the last step has no
error, as rewards are known.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tailrank import checks
from tailrank._system.settings import setting
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.protocol import CountableLearner, Info, promised
from tailrank.learning.rivals.states.model_class import Members, members_of
from tailrank.planning.latent.planner import LatentPlan

MOST_EPISODES = 1 << 20
"""Of one estimate."""
BLOCK = 1 << 22
"""Numbers held at a time while members are tested."""


@dataclass(frozen=True)
class TestedCells:
    """Transitions of step h after a uniform action, each kind once: columns [m] and how often, count [m].

    budget: the starting budget of their episodes; no later one is larger. n_actions: A.
    """

    h: int
    budget: int
    n_actions: int
    group: np.ndarray
    left: np.ndarray
    action: np.ndarray
    next_group: np.ndarray
    next_left: np.ndarray
    count: np.ndarray

    @property
    def n(self) -> float:
        """Number of transitions."""
        return float(self.count.sum())


@dataclass(frozen=True)
class EliminationState:
    """alive [N]: the members that are left. size: episodes of the next estimate. done: the plan is the answer."""

    k: int
    episodes: int
    steps: int
    group: tuple[np.ndarray, ...]
    members: Members
    alive: np.ndarray
    size: int
    done: bool = False
    plan: LatentPlan | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        counters = np.array([self.k, self.episodes, self.steps, self.size, self.done])
        plan = {} if self.plan is None else self.plan.to_arrays("plan")
        return {"counters": counters, "alive": self.alive} | plan

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> EliminationState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, episodes, steps, size, done = (int(x) for x in arrays["counters"])
        plan = LatentPlan.from_arrays(arrays, "plan") if k else None
        alive = arrays["alive"].astype(bool)
        return EliminationState(k, episodes, steps, self.group, self.members, alive, size, bool(done), plan)


@dataclass(frozen=True)
class Elimination(CountableLearner):
    """The base of learners for finite classes."""

    name: ClassVar[str] = ""
    epsilon: float = setting(0.1, kind=float, check=checks.positive, help="How far from the best CVaR, in rewards.")
    episodes: int = setting(200, kind=int, least=2, help="n of the first estimates.")
    delta: float = setting(
        0.1, kind=float, check=lambda x, name: checks.inside(x, name, "(0, 1)"), help="Probability of failure."
    )

    @abstractmethod
    def refuted(self, members: Members, cells: TestedCells, delta: float) -> np.ndarray:
        """Which tails of step h the transitions refute, [tails] of bool, at the confidence 1 - delta."""

    def sees_groups(self, env: CountableEnv) -> bool:
        """Members are models of groups."""
        return True

    def episodes_each(self, horizon: int) -> int:
        """Of an estimate and a test."""
        return 2 * self.episodes

    def init(self, env: CountableEnv, streams: Streams) -> EliminationState:
        """All members; raises where the class is too large."""
        members = members_of(env, self.name)
        return EliminationState(0, 0, 0, env.group, members, np.ones(members.number, dtype=bool), self.episodes)

    def step(self, state: EliminationState, env: CountableEnv, streams: Streams) -> tuple[EliminationState, Info]:
        """One iteration; nothing is played once the answer is found."""
        members, k, unit = state.members, state.k + 1, float(env.rewards.grid.unit)
        if state.done and state.plan is not None:
            return replace(state, k=k), Info(objective=promised(state.plan, env))
        best, _ = members.best(state.alive, self.tau)
        plan, n, rng = members.plan(best, self.tau), state.size, streams.environment(k, 0)
        delta = self.delta / (2 * k * (k + 1))  # half for the answer, half for the truth; sums to delta over all k
        last = env.horizon - 1
        errors = bellman_errors(members, best, *play(env, plan, n, last, rng))
        gap = errors.sum(axis=1)
        reach = bernstein_reach(gap.mean(), (gap**2).mean(), n, plan.budget, delta)
        played = replace(state, k=k, episodes=state.episodes + n, steps=state.steps + n * last, plan=plan)
        info = Info(objective=promised(plan, env))
        if gap.mean() + reach <= self.tau * self.epsilon / unit:
            return replace(played, done=True), info
        h = int(errors.mean(axis=0).argmax())
        refuted = self.refuted(members, cells_of(env, plan, n, h, rng), delta)
        alive = state.alive & ~refuted[np.arange(members.number) % members.tails(h)]
        if not alive.any():
            raise InputError(f"{self.name}: every member of the class is refuted, {env.name} is not in it")
        return replace(
            played,
            alive=alive,
            size=min(2 * n, MOST_EPISODES) if alive[best] else n,
            episodes=played.episodes + n,
            steps=played.steps + n * (h + 1),
        ), info

    def greedy(self, state: EliminationState, env: CountableEnv, streams: Streams) -> LatentPlan:
        """The plan of the most optimistic member that is left: there is no bonus."""
        return state.members.plan(state.members.best(state.alive, self.tau)[0], self.tau)


@dataclass(frozen=True)
class UniformAt(PlayedPlan):
    """A plan that plays a uniform action at one step, if at any."""

    step: int | None
    n_actions: int
    rng: np.random.Generator

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        if h == self.step:
            return self.rng.integers(self.n_actions, size=states.size)
        return super().act(h, states, memory)


def play(
    env: CountableEnv, plan: LatentPlan, n: int, steps: int, rng: np.random.Generator, uniform_at: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups and budgets [n, steps + 1] and actions [n, steps] of a plan that is uniform at one step, if at any."""
    groups, budgets = np.empty((n, steps + 1), dtype=np.int64), np.full((n, steps + 1), plan.budget, dtype=np.int64)
    actions = np.empty((n, steps), dtype=np.int64)
    groups[:, 0] = env.group[0][env.start]
    policy = UniformAt(plan, env.rewards, env.group, uniform_at, env.n_actions, rng)
    for move in walk(policy, env, n, rng, steps=steps):
        actions[:, move.h] = move.actions
        groups[:, move.h + 1], budgets[:, move.h + 1] = env.group[move.h + 1][move.after], move.then
    return groups, budgets, actions


def bellman_errors(
    members: Members, member: int, groups: np.ndarray, budgets: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """V_{h+1}(g', c') - Q_h(g, c, a) of a member in episodes of its plan, [n, H - 1]."""
    result = np.empty(actions.shape)
    for h in range(actions.shape[1]):
        q = members.q[h][member % members.tails(h)]
        v = members.values[h + 1][member % members.tails(h + 1)]
        here = q[members.row(h, groups[:, h]), actions[:, h], budgets[:, h]]
        result[:, h] = v[groups[:, h + 1], budgets[:, h + 1]] - here
    return result


def cells_of(env: CountableEnv, plan: LatentPlan, n: int, h: int, rng: np.random.Generator) -> TestedCells:
    """The transitions of step h in n episodes of the plan with a uniform action there."""
    groups, budgets, actions = play(env, plan, n, h + 1, rng, uniform_at=h)
    rows = np.stack([groups[:, h], budgets[:, h], actions[:, h], groups[:, h + 1], budgets[:, h + 1]], axis=1)
    kinds, count = np.unique(rows, axis=0, return_counts=True)
    group, left, action, next_group, next_left = kinds.T
    n_times = count.astype(np.float64)
    return TestedCells(h, plan.budget, env.n_actions, group, left, action, next_group, next_left, n_times)


def bernstein_reach(
    mean: np.ndarray | float, square: np.ndarray | float, n: float, width: np.ndarray | float, delta: float
) -> np.ndarray:
    """How far a mean of n numbers in a range of this width is above its expectation, but for probability delta.

    mean, square: the means of the numbers and of their squares. Maurer and Pontil (2009), Theorem 4.
    """
    log = math.log(2.0 / delta)
    variance = np.maximum(np.asarray(square) - np.asarray(mean) ** 2, 0.0) * n / (n - 1)
    return np.asarray(np.sqrt(2.0 * variance * log / n) + 7.0 * np.asarray(width) * log / (3.0 * (n - 1)))


def blocks(number: int, width: int) -> Iterator[slice]:
    """Parts of 0..number-1, rows of this width, that fit into `BLOCK` numbers."""
    size = max(BLOCK // max(width, 1), 1)
    for begin in range(0, number, size):
        yield slice(begin, min(begin + size, number))
