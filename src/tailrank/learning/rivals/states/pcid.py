"""Decoding the latents of a block MDP from where they come from: PCID (Du, Krishnamurthy, Jiang, Agarwal, Dudik and
Langford 2019), and then planning for the tail in the decoded MDP.

Forwards, step by step: every latent z of step h is reached by the policy that reaches it most surely in the model so
far, every action a is tried there, and the pair (z, a) is regressed on the state s' that follows. With all pairs
equally likely the answer is the backward probability

    f(s') = P((z, a) | s'),     f(s')[z, a] proportional to N(z, a, s') / N(z, a)

which is the same for all states of a latent. States are joined greedily to the latents of step h + 1 by the distance
of their f. When all steps are decoded, the exact planner is asked for the best plan of the latent MDP.

Latents with the same backward probabilities are joined, whatever they do later: no amount of data tells them apart.
In the risky lock both good latents come from the same pairs in the same proportion (split = 1/2), so it is not solved.

Departures: regression on tables (states can be counted); states that were met often found latents first, the centre
of a latent is the mean of its states, and the radius grows by 1 / sqrt(visits of s'), the noise of f(s'); an
iteration is a whole pass that adds `samples` episodes for every pair to those of the passes before, which are decoded
again; the known reward laws serve the plan, not the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank._system.settings import setting
from tailrank.envs.protocols import CountableEnv
from tailrank.episodes.rollout import walk
from tailrank.episodes.streams import Streams
from tailrank.learning.protocol import CountableLearner, Info, promised, single_states
from tailrank.models.counts import SparseCounts, TransitionCounts
from tailrank.models.lowrank import LowRankModel, StepModel
from tailrank.models.rewards import RewardLaw
from tailrank.planning.latent.planner import LatentPlan, plan_latent
from tailrank.policies.tables import Memoryless


@dataclass(frozen=True)
class PCIDState:
    """Counts of single states, and the latent of every state at each step, labels [H] of [S]."""

    k: int
    episodes: int
    steps: int
    seen: TransitionCounts
    group: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...] = ()
    plan: LatentPlan | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = {"counters": np.array([self.k, self.episodes, self.steps])} | self.seen.to_arrays()
        arrays |= {f"labels.{h}": label for h, label in enumerate(self.labels)}
        return arrays | (self.plan.to_arrays("plan") if self.plan is not None else {})

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> PCIDState:
        """The state in a checkpoint, given a fresh state of the same learner and environment."""
        k, episodes, steps = (int(x) for x in arrays["counters"])
        labels = tuple(arrays[f"labels.{h}"] for h in range(len(self.group))) if k else ()
        plan = LatentPlan.from_arrays(arrays, "plan") if k else None
        return PCIDState(k, episodes, steps, self.seen.from_arrays(arrays), self.group, labels, plan)


@dataclass(frozen=True)
class Reaching(Memoryless):
    """Actions of a step by (latent to reach, latent here), ways [j] of [Z, Z_j], then the last action of each episode.

    target, last [n]: the latent that each episode is to reach, and what it plays there.
    """

    ways: list[np.ndarray]
    labels: list[np.ndarray]
    target: np.ndarray
    last: np.ndarray

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions [n] at step h."""
        return self.last if h == len(self.ways) else self.ways[h][self.target, self.labels[h][states]]


@dataclass(frozen=True)
class PCID(CountableLearner):
    """PCID (Du et al. 2019): block MDPs decoded step by step."""

    samples: int = setting(100, kind=int, help="Episodes for every (latent, action) a pass.")
    radius: float = setting(
        0.3,
        kind=float,
        check=lambda x, name: checks.inside(x, name, "(0, 2)"),
        help="Of a latent, as a Euclidean distance between backward probabilities.",
    )
    latents: int = setting(10, kind=int, help="The most that a step can have; further states join the nearest.")

    def episodes_each(self, horizon: int) -> int:
        """At least."""
        return horizon * self.samples

    def init(self, env: CountableEnv, streams: Streams) -> PCIDState:
        """No data."""
        seen = TransitionCounts.empty([env.n_states] * env.horizon, env.n_actions, sparse=True)
        return PCIDState(0, 0, 0, seen, single_states(env))

    def step(self, state: PCIDState, env: CountableEnv, streams: Streams) -> tuple[PCIDState, Info]:
        """A pass over all steps."""
        k, seen, rng = state.k + 1, state.seen.copy(), streams.environment(state.k + 1, 0)
        labels, moves = [np.zeros(env.n_states, dtype=np.int64)], list[np.ndarray]()
        played = walked = 0
        for h in range(env.horizon - 1):
            n = self._explore(h, labels, moves, seen, env, rng)
            played, walked = played + n, walked + n * (h + 1)
            counts = seen.counts[h]
            if not isinstance(counts, SparseCounts):
                raise TypeError("counts: must be sparse")
            before = forward(counts, labels[h])
            visits = np.bincount(counts.after, weights=counts.count, minlength=env.n_states)
            labels.append(self.clusters(before, visits))
            moves.append(latent_moves(before, labels[h + 1]))
        plan = self._plan(labels, moves, seen, env)
        new = PCIDState(k, state.episodes + played, state.steps + walked, seen, state.group, tuple(labels), plan)
        return new, Info(objective=promised(plan, env))

    def _explore(
        self,
        h: int,
        labels: list[np.ndarray],
        moves: list[np.ndarray],
        seen: TransitionCounts,
        env: CountableEnv,
        rng: np.random.Generator,
    ) -> int:
        """Reach every latent of step h, try every action there `samples` times; how many episodes were played."""
        A, Z = env.n_actions, int(labels[h].max()) + 1
        target, last = (x.ravel() for x in np.meshgrid(np.arange(Z), np.arange(A), indexing="ij"))
        target, last = np.repeat(target, self.samples), np.repeat(last, self.samples)
        policy = Reaching(reaching(moves, Z), labels, target, last)
        for move in walk(policy, env, target.size, rng, steps=h + 1):
            if move.h == h:
                seen.add(h, move.states, move.actions, move.after, covariance=True)
        return int(target.size)

    def clusters(self, before: np.ndarray, visits: np.ndarray) -> np.ndarray:
        """The latent of every next state, [S'], from before [Z, A, S'] = P(s' | z, a) and visits [S'] of s'."""
        S = before.shape[2]
        total = before.sum(axis=(0, 1))
        f = (before.reshape(-1, S) / np.where(total > 0, total, 1.0)).T
        centres, weight = np.zeros((self.latents, f.shape[1])), np.zeros(self.latents)
        label, used = np.zeros(S, dtype=np.int64), 0
        order = np.argsort(-visits, kind="stable")
        for s in order[visits[order] > 0]:
            away = np.sqrt(((centres[:used] - f[s]) ** 2).sum(axis=1))
            near = int(away.argmin()) if used else 0
            if used == 0 or (away[near] > self.radius + visits[s] ** -0.5 and used < self.latents):
                near, used = used, used + 1
            weight[near] += visits[s]
            centres[near] += (f[s] - centres[near]) * visits[s] / weight[near]
        for s in np.flatnonzero(visits):  # the first states were joined before all centres were there
            label[s] = ((centres[:used] - f[s]) ** 2).sum(axis=1).argmin()
        label[visits == 0] = int(weight.argmax())  # never met: what is met most
        return label

    def _plan(
        self, labels: list[np.ndarray], moves: list[np.ndarray], seen: TransitionCounts, env: CountableEnv
    ) -> LatentPlan:
        """The exact plan of the latent MDP, for single states."""
        laws, which, first = [], [], 0
        for h, label in enumerate(labels):
            # A latent pays what its states pay, in the proportion in which they were met.
            met = np.zeros(env.n_states)
            if h == 0:
                met[env.start] = 1.0
            else:
                counts: SparseCounts = seen.counts[h - 1]  # type: ignore[assignment]
                met += np.bincount(counts.after, weights=counts.count, minlength=met.size)
            Z = int(label.max()) + 1
            share = np.zeros((Z, env.n_states))
            share[label, np.arange(env.n_states)] = np.maximum(met, 1e-9)
            share /= share.sum(axis=1, keepdims=True)
            of_state = env.reward_of[h][env.group[h]]
            for a in range(env.n_actions):
                laws.append(share @ env.rewards.laws[of_state[:, a]])
            which.append(first + np.arange(env.n_actions) * Z + np.arange(Z)[:, None])
            first += Z * env.n_actions
        table = np.concatenate(laws)
        known = RewardLaw(env.rewards.grid, table / table.sum(axis=1, keepdims=True), env.rewards.which * 0)
        steps = tuple(StepModel(move, np.eye(move.shape[2])) for move in moves)
        none = [np.zeros(w.shape) for w in which]
        plan = plan_latent(LowRankModel(steps, tuple(labels)), known, tuple(which), none, self.aim or self.tau, 0)
        actions = tuple(table[label] for table, label in zip(plan.actions, labels, strict=True))
        return LatentPlan(actions, plan.budget, plan.objective, plan.curve)


def forward(counts: SparseCounts, label: np.ndarray) -> np.ndarray:
    """P(s' | z, a) as counted, [Z, A, S'], from counts of single states and their latents [S]; zeros if never tried."""
    _, A, after = counts.shape
    state, action = np.divmod(counts.pair, A)
    Z = int(label.max()) + 1
    cells = (label[state] * A + action) * after + counts.after
    table = np.bincount(cells, weights=counts.count, minlength=Z * A * after).reshape(Z, A, after)
    return np.asarray(table / np.maximum(table.sum(axis=2, keepdims=True), 1.0))


def latent_moves(before: np.ndarray, label: np.ndarray) -> np.ndarray:
    """P(z' | z, a), [Z, A, Z'], from P(s' | z, a) and the latents of next states [S']; never tried: leads anywhere."""
    moves = before @ np.eye(int(label.max()) + 1)[label]
    total = moves.sum(axis=2, keepdims=True)
    return np.where(total > 0, moves / np.where(total > 0, total, 1.0), 1.0 / moves.shape[2])


def reaching(moves: list[np.ndarray], n_latents: int) -> list[np.ndarray]:
    """For each of the steps so far the actions [Z, Z_j] that make it likeliest to be in latent z in the end."""
    value, actions = np.eye(n_latents), list[np.ndarray]()
    for move in reversed(moves):
        q = np.einsum("jan,tn->tja", move, value)
        actions.append(q.argmax(axis=2))
        value = q.max(axis=2)
    return actions[::-1]
