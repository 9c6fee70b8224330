"""CVaR policy gradients on tables: GCVaR (Tamar, Glassner and Mannor 2015), and the actor-critic on the
budget-augmented state (Chow and Ghavamzadeh 2014).

Both climb CVaR_tau = max_c { c - E(c - R)^+ / tau } with softmax policies pi(a | s, b) of every step; b is the budget
that is left. Nothing is known but what episodes show.

    policy-gradient   -(1 / tau) E[ (v - R)^+ sum_h grad log pi ],  v the quantile of the batch, or tracked
    actor-critic      -(1 / tau) E[ sum_h d_h grad log pi ],  d_h = V_{h+1}(s', b - r) - V_h(s, b),  V_H(s, b) = b

with the critic V_h(s, b) = E[what is missing in the end] by TD(0), and c by stochastic approximation.

**Blind to success.** Where more than tau of the episodes earn the least, v (or c) is that least, all weights are zero
and nothing is learned, however often an episode succeeds by chance. `soft` begins with the mean, which is not blind.

Departures: Adam in place of falling steps, so the time scales are apart only in the beginning; no constraint, hence
no multiplier; a baseline (`variance_reduction`) in the gradient; the plan that is judged plays the likeliest action;
by default the policy does not look at the budget (`budgets` as in the second paper: a table must then learn every
budget by itself, and what c moves to is new to it).
Of CeSoR (Greenberg et al. 2022) there are the soft level (`soft`: updates until tau is reached) and, for
`policy-gradient`, cross-entropy sampling of the start (`sampling`), where there is a random one and the learner may
choose it: first states are drawn from a law q that drifts to where the worst returns come from, and episodes are
weighed by p / q. Other chances of an environment that can only be reset cannot be drawn from another law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tailrank import checks
from tailrank._system.settings import fixed, setting
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import CountableLearner, Info, single_states
from tailrank.learning.rivals.ascent import Adam, Tracker, soft_level, tail_weights
from tailrank.learning.rivals.states.gradient_episodes import GradientBatch, play, start_law
from tailrank.planning.latent.planner import LatentPlan
from tailrank.policies.softmax import softmax
from tailrank.risk.law import cvar, var

STAY = 0.1
"""Share of the true start law that the sampled one always keeps (CeSoR)."""
ELITE = 0.2
"""Share of the episodes played that the start law learns from, at least."""


@dataclass(frozen=True)
class GradientState:
    """Tables of logits [H] of [S, B, A] (B is 1 where the budget is not looked at) and all that moves them.

    critic [H] of [S, C], or nothing; start [S]: the law of first states in use, or nothing.
    """

    k: int
    episodes: int
    steps: int
    group: tuple[np.ndarray, ...]
    logits: tuple[np.ndarray, ...]
    adam: Adam
    tracked: Tracker
    critic: tuple[np.ndarray, ...] = ()
    start: np.ndarray | None = None
    plan: LatentPlan | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {"counters": np.array([self.k, self.episodes, self.steps])}
        arrays |= {f"logits.{h}": table for h, table in enumerate(self.logits)}
        arrays |= {f"critic.{h}": table for h, table in enumerate(self.critic)}
        arrays |= self.adam.to_arrays() | self.tracked.to_arrays()
        arrays |= {} if self.start is None else {"start": self.start}
        return arrays | (self.plan.to_arrays("plan") if self.plan is not None else {})

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> GradientState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, episodes, steps = (int(x) for x in arrays["counters"])
        return GradientState(
            k,
            episodes,
            steps,
            self.group,
            tuple(arrays[f"logits.{h}"] for h in range(len(self.logits))),
            self.adam.from_arrays(arrays),
            self.tracked.from_arrays(arrays),
            tuple(arrays[f"critic.{h}"] for h in range(len(self.critic))),
            arrays.get("start"),
            LatentPlan.from_arrays(arrays, "plan") if k else None,
        )


@dataclass(frozen=True)
class CvarGradient(CountableLearner):
    """CVaR policy gradient (Tamar et al. 2015) on tables.

    With a critic (`critic_rate`) c is tracked, and the policy looks at the budget that is left from c; without one,
    at that from the most there is.
    """

    per_update: int = setting(200, kind=int, least=2, help="Episodes an update.")
    rate: float = setting(0.05, kind=float, check=checks.positive, help="Adam's rate.")
    critic_rate: float | None = fixed(None)
    track: Literal["batch", "lagrangian"] = setting(
        "batch", words=("batch", "lagrangian"), kw_only=True, help="The quantile: of each batch, or tracked."
    )
    track_rate: float = setting(
        1.0, kind=float, check=checks.positive, kw_only=True, help="First step of the tracked quantile."
    )
    budgets: bool = setting(False, kind=bool, kw_only=True, help="Whether the policy looks at the budget that is left.")
    soft: int = setting(0, kind=int, least=0, kw_only=True, help="Updates over which tau falls from 1 (0: none).")
    sampling: bool = setting(False, kind=bool, kw_only=True, help="Cross-entropy sampling of the start.")
    variance_reduction: bool = setting(True, kind=bool, kw_only=True, help="Take a baseline off the weights.")

    def episodes_each(self, horizon: int) -> int:
        """Of an update."""
        return self.per_update

    def init(self, env: CountableEnv, streams: Streams) -> GradientState:
        """Uniform actions; the critic says that nothing more is earned."""
        S, A, C, H = env.n_states, env.n_actions, env.rewards.n_budgets, env.horizon
        seen = C if self.budgets else 1
        critic = (np.broadcast_to(np.arange(C, dtype=np.float64), (S, C)).copy() for _ in range(H))
        return GradientState(
            0,
            0,
            0,
            single_states(env),
            tuple(np.zeros((S, seen, A)) for _ in range(H)),
            Adam(self.rate),
            Tracker(self.track_rate),
            tuple(critic) if self.critic_rate is not None else (),
            start_law(env) if self.sampling else None,
        )

    def step(self, state: GradientState, env: CountableEnv, streams: Streams) -> tuple[GradientState, Info]:
        """A batch of episodes and an update."""
        k, n = state.k + 1, self.per_update
        adam, tracked = state.adam.copy(), replace(state.tracked)
        logits, critic = tuple(x.copy() for x in state.logits), tuple(x.copy() for x in state.critic)
        level = soft_level(self.tau, state.k / self.soft) if self.soft else self.tau
        top, c = env.rewards.n_budgets - 1, state.tracked.value if critic else None
        batch = play(env, logits, top if c is None else round(c), n, streams.environment(k, 0), state.start)
        if critic:
            before = tracked.move(batch.returns, level)
            if c is None:  # the first batch says where c begins
                batch = replace(batch, places=np.maximum(round(before) - (top - batch.places), 0))
            weights = -temporal_differences(critic, batch, self.critic_rate or 1.0) / level
        else:
            quantile = tracked.move(batch.returns, level) if self.track == "lagrangian" else None
            tail = episode_weights(batch, level, quantile, self.variance_reduction)
            weights = np.broadcast_to(tail, batch.actions.shape)
        adam.climb(list(logits), score(logits, batch, weights / n))
        start = None if state.start is None else drifted(state.start, start_law(env), batch, level)
        plan = likeliest(logits, round(tracked.value or 0.0) if critic else top, env.rewards.n_budgets)
        value = cvar(np.asarray(env.rewards.grid.value(batch.returns)), self.tau, batch.weights / batch.weights.sum())
        new = GradientState(
            k,
            state.episodes + n,
            state.steps + n * env.horizon,
            state.group,
            logits,
            adam,
            tracked,
            critic,
            start,
            plan,
        )
        return new, Info(objective=value)


@dataclass(frozen=True)
class ActorCritic(CvarGradient):
    """CVaR actor-critic (Chow and Ghavamzadeh 2014) on tables."""

    critic_rate: float | None = setting(
        0.1, kind=float, check=checks.tail_level, kw_only=True, help="Rate of TD(0), in (0, 1]."
    )
    track: Literal["batch", "lagrangian"] = fixed("batch")
    sampling: bool = fixed(False)
    variance_reduction: bool = fixed(True)


def episode_weights(batch: GradientBatch, level: float, quantile: float | None, variance_reduction: bool) -> np.ndarray:
    """The tail weights [n] of episodes whose start was drawn from another law, each times its p / q."""
    v = var(batch.returns, level, batch.weights / batch.weights.sum()) if quantile is None else quantile
    return tail_weights(batch.returns, level, v, variance_reduction) * batch.weights


def score(logits: tuple[np.ndarray, ...], batch: GradientBatch, weights: np.ndarray) -> list[np.ndarray]:
    """Sum of weights [H, n] times the gradient of log pi of what was played, a table for each step."""
    found = []
    for h, table in enumerate(logits):
        live = np.flatnonzero(weights[h])
        s, a, w = batch.states[h, live], batch.actions[h, live], weights[h, live]
        b = batch.places[h, live] if table.shape[1] > 1 else np.zeros(live.size, dtype=np.int64)
        gradient = np.zeros_like(table)
        np.add.at(gradient, (s, b), -w[:, None] * softmax(table[s, b]))
        np.add.at(gradient, (s, b, a), w)
        found.append(gradient)
    return found


def temporal_differences(critic: tuple[np.ndarray, ...], batch: GradientBatch, rate: float) -> np.ndarray:
    """TD errors [H, n] of the critic, which is moved (in place) towards what followed, last steps first.

    A cell that was met m times moves by 1 - (1 - rate)^m of the way to the mean of what followed.
    """
    H, n = batch.actions.shape
    errors, after = np.zeros((H, n)), batch.places[H].astype(np.float64)
    for h in reversed(range(H)):
        cell = batch.states[h] * critic[h].shape[1] + batch.places[h]
        met, where, count = np.unique(cell, return_inverse=True, return_counts=True)
        mean = np.bincount(where, weights=after) / count
        table = critic[h].reshape(-1)
        table[met] += (1.0 - (1.0 - rate) ** count) * (mean - table[met])
        errors[h] = after - table[cell]
        after = critic[h].reshape(-1)[cell]
    return errors


def likeliest(logits: tuple[np.ndarray, ...], budget: int, n_budgets: int) -> LatentPlan:
    """The plan of the likeliest actions, from this budget (units)."""
    tables = (table.argmax(axis=2) for table in logits)
    actions = tuple(np.broadcast_to(t, (t.shape[0], n_budgets)).copy() for t in tables)
    return LatentPlan(actions, int(budget), float(budget), np.zeros(n_budgets))


def drifted(now: np.ndarray, law: np.ndarray, batch: GradientBatch, level: float) -> np.ndarray:
    """The start law moved to where the worst returns came from (cross-entropy), with a share of the true law."""
    total = batch.weights.sum()
    worst = batch.returns <= max(var(batch.returns, level, batch.weights / total), var(batch.returns, ELITE))
    elite = np.bincount(batch.states[1, worst], weights=batch.weights[worst], minlength=law.size)
    aim = elite / elite.sum() if elite.sum() > 0 else law
    return np.asarray(STAY * law + (1.0 - STAY) * (0.5 * now + 0.5 * aim))
