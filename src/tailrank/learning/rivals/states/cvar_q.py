"""CVaR Q-learning (Stanko and Macek 2019): Chow's decomposition over confidence levels, learned from samples.

Every pair keeps, at levels y_1 < ... < y_K = 1, an estimate V of the y-quantile and C of the CVaR_y of the return from
there on. For a transition (s, a, r, s') the law of what follows is read off the levels of s', each with its own best
action, as Chow et al. (2015) let a level choose:

    y_j C(s', y_j) = max_a y_j C(s', a, y_j),   v_j = its slope from y_{j-1} to y_j, of weight p_j = y_j - y_{j-1}
    V(s, a, y_i) += step (1 - P(r + v <= V) / y_i)
    C(s, a, y_i) += rate (V + E min(r + v - V, 0) / y_i - C)

The policy is their VaR-based one: the first action has the largest C at tau, s is its V, and from then on actions
minimise E(s - Z)^+ over the laws of the levels, with s less every reward: a plan on remaining budgets.

What it claims has the flaw of the decomposition: max and min do not change places. On Hau's counter-example it learns
to claim 100 as value iteration does, where no policy has more than 50. There the VaR-based policy finds the 50: keeping
to one s repairs what moving the level breaks (the action that is best at the level earns 0). Elsewhere it does not.

Departures: a table for each step, nothing discounted; all weighted v_j at once where the paper takes one after the
other; the levels of `criteria/chow.py`, with log-spaced ones as in the paper; transitions of an episode last first;
rates by visits n, (H + 1) / (H + n) for C and n^-0.8 sqrt(y_i) ranges of the return for V, kept in the range; ties go
to the larger mean. Exploration: epsilon-greedy; with `optimistic` tables begin at the most there is, else at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank import checks
from tailrank._system.jit import compiled
from tailrank._system.settings import setting
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.playing import PlayedPlan
from tailrank.learning.protocol import CountableLearner, Info, promised, single_states
from tailrank.planning.criteria.chow import default_levels
from tailrank.planning.exact.induction import action_type
from tailrank.planning.latent.planner import LatentPlan

LARGEST = 50_000_000
"""Entries of each of the two tables: 400 MB."""


@dataclass(frozen=True)
class CVaRQState:
    """var, cvar [H, S, A, K] in units, visits [H, S, A], and the plan that they make."""

    k: int
    episodes: int
    steps: int
    group: tuple[np.ndarray, ...]
    var: np.ndarray
    cvar: np.ndarray
    visits: np.ndarray
    plan: LatentPlan

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {"counters": np.array([self.k, self.episodes, self.steps])} | self.plan.to_arrays("plan")
        return arrays | {"var": self.var, "cvar": self.cvar, "visits": self.visits}

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> CVaRQState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, episodes, steps = (int(x) for x in arrays["counters"])
        plan = LatentPlan.from_arrays(arrays, "plan")
        return CVaRQState(k, episodes, steps, self.group, arrays["var"], arrays["cvar"], arrays["visits"], plan)


@dataclass(frozen=True)
class Exploring(PlayedPlan):
    """A plan that plays a uniform action with probability epsilon."""

    epsilon: float
    n_actions: int
    rng: np.random.Generator

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        chosen, free = super().act(h, states, memory), self.rng.random(states.size) < self.epsilon
        return np.where(free, self.rng.integers(0, self.n_actions, size=states.size), chosen)


@dataclass(frozen=True)
class CvarQ(CountableLearner):
    """CVaR Q-learning (Stanko and Macek 2019)."""

    epsilon: float = setting(
        0.1, kind=float, check=lambda x, name: checks.inside(x, name, "[0, 1]"), help="Share of random actions."
    )
    optimistic: bool = setting(True, kind=bool, help="Whether tables begin at the most there is, or at 0.")
    batch: int = setting(1, kind=int, help="Episodes between two plans.")

    @property
    def levels(self) -> np.ndarray:
        """y_1 .. y_K."""
        return default_levels(self.tau)[1:]

    def init(self, env: CountableEnv, streams: Streams) -> CVaRQState:
        """Tables at the most there is, or at zero."""
        shape = (env.horizon, env.n_states, env.n_actions, self.levels.size)
        if int(np.prod(shape)) > LARGEST:
            raise checks.InputError(f"states = {env.n_states}: H S A K = {np.prod(shape)} must be at most {LARGEST}")
        table = np.zeros(shape)
        if self.optimistic:
            table += (np.arange(env.horizon, 0, -1) * env.rewards.top)[:, None, None, None]
        C, kind = env.rewards.n_budgets, action_type(env.n_actions)
        actions = tuple(np.zeros((env.n_states, C), dtype=kind) for _ in range(env.horizon))
        plan = LatentPlan(actions, C - 1, float(table[0, 0, 0, 0]), np.zeros(C))
        return CVaRQState(0, 0, 0, single_states(env), table, table.copy(), np.zeros(shape[:3], dtype=np.int64), plan)

    def step(self, state: CVaRQState, env: CountableEnv, streams: Streams) -> tuple[CVaRQState, Info]:
        """`batch` episodes, each learned from, and the plan."""
        rng, n, H = streams.environment(state.k + 1, 0), self.batch, env.horizon
        states, actions, units = (np.zeros((H + 1, n), dtype=np.int64) for _ in range(3))
        everything = np.full(n, env.rewards.n_budgets - 1)
        policy = Exploring(state.plan, env.rewards, state.group, self.epsilon, env.n_actions, rng)
        for move in walk(policy, env, n, rng):
            h = move.h
            states[h], states[h + 1], actions[h] = move.states, move.after, move.actions
            units[h] = everything - env.rewards.charge(h, move.rewards, everything)
        var, cvar, visits = state.var.copy(), state.cvar.copy(), state.visits.copy()
        learn(var, cvar, visits, states, actions, units, self.levels, float(env.rewards.top))
        plan = self._plan(var, cvar, states, state.plan, env.start)
        new = CVaRQState(state.k + 1, state.episodes + n, state.steps + n * H, state.group, var, cvar, visits, plan)
        return new, Info(objective=promised(plan, env))

    def _plan(self, var: np.ndarray, cvar: np.ndarray, met: np.ndarray, plan: LatentPlan, start: int) -> LatentPlan:
        """The plan with new actions in the states met, [H + 1, n]."""
        at = int(np.searchsorted(self.levels, self.tau))
        first = int(cvar[0, start, :, at].argmax())
        C = plan.curve.size
        tables = []
        for h, table in enumerate(plan.actions):
            table = table.copy()
            for s in np.unique(met[h]):
                table[s] = least_shortfall(cvar[h, s], self.levels, C)
            tables.append(table)
        tables[0][start] = first
        budget = int(np.clip(round(float(var[0, start, first, at])), 0, C - 1))
        return replace(plan, actions=tuple(tables), budget=budget, objective=float(cvar[0, start, first, at]))


def least_shortfall(cvar: np.ndarray, levels: np.ndarray, n_budgets: int) -> np.ndarray:
    """The action with the least E(c - Z)^+ for every budget c, [C], where cvar [A, K] says what the laws Z are."""
    values, weights = slopes(cvar, levels)
    budgets = np.arange(n_budgets, dtype=np.float64)
    short = np.maximum(budgets[:, None, None] - values, 0.0) @ weights
    tie = short <= short.min(axis=1, keepdims=True) + 1e-9 * n_budgets
    return np.asarray(np.where(tie, cvar[:, -1], -np.inf).argmax(axis=1))


def slopes(cvar: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values [..., K] and weights [K] of the law whose CVaR at the levels is cvar [..., K]."""
    weights = np.diff(levels, prepend=0.0)
    return np.diff(cvar * levels, prepend=0.0, axis=-1) / weights, weights


@compiled
def learn(
    var: np.ndarray,
    cvar: np.ndarray,
    visits: np.ndarray,
    states: np.ndarray,
    actions: np.ndarray,
    units: np.ndarray,
    levels: np.ndarray,
    top: float,
) -> None:
    """All transitions of episodes [H + 1, n], last steps first; the tables are changed in place."""
    H, K, A = states.shape[0] - 1, levels.size, var.shape[2]
    value = np.zeros(K)
    for i in range(states.shape[1]):
        for h in range(H - 1, -1, -1):
            s, a, reward, most = states[h, i], actions[h, i], float(units[h, i]), top * (H - h)
            value[:] = reward
            if h + 1 < H:
                t, before = states[h + 1, i], 0.0
                for j in range(K):
                    best = cvar[h + 1, t, 0, j]
                    for b in range(1, A):
                        best = max(best, cvar[h + 1, t, b, j])
                    value[j] += (best * levels[j] - before) / (levels[j] - (levels[j - 1] if j else 0.0))
                    before = best * levels[j]
            visits[h, s, a] += 1
            n = visits[h, s, a]
            rate, step = (H + 1.0) / (H + n), most * n**-0.8
            for k in range(K):
                y, quantile = levels[k], var[h, s, a, k]
                below, short = 0.0, 0.0
                for j in range(K):
                    weight = levels[j] - (levels[j - 1] if j else 0.0)
                    if value[j] <= quantile:
                        below += weight
                        short += weight * (value[j] - quantile)
                cvar[h, s, a, k] += rate * (quantile + short / y - cvar[h, s, a, k])
                var[h, s, a, k] = min(max(quantile + step * (y - below) / np.sqrt(y), 0.0), most)
