"""The one rollout: play a policy in a finite MDP or an environment for learners (all episodes at once), in a
Gymnasium environment (one by one), or in a simulator that is only known by its observations (in batches).

Episodes end after H steps or when the environment ends them; what is not played stays -1 or zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from tailrank import checks
from tailrank._system.blas import on_one_blas_thread
from tailrank._system.telling import tell
from tailrank.checks import InputError
from tailrank.envs import sources
from tailrank.envs.protocols import LARGEST, CountableEnv, Simulator
from tailrank.episodes._gymnasium import play_in_gymnasium
from tailrank.episodes.masks import among, joined
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.moved import Moved
from tailrank.policies.shapes import check_fits, horizon_of, on_states
from tailrank.policies.tables import Policy, PolicyHolder, policy_of


@dataclass(frozen=True)
class Episodes:
    """n played episodes: states [n, H + 1], actions [n, H], rewards [n, H] (undiscounted), returns [n]."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    returns: np.ndarray


@dataclass(frozen=True)
class Observed:
    """n episodes in a simulator: actions [n, H] (-1 where none was played), rewards [n, H] (undiscounted),
    returns [n] (discounted), lengths [n], seeds [n]; if they were kept, features [n, H + 1, m] (the last ones stay) and
    the actions that were allowed, [n, H + 1, A] (None: all of them, always).
    """

    actions: np.ndarray
    rewards: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    seeds: np.ndarray
    features: np.ndarray | None = None
    allowed: np.ndarray | None = None


@dataclass(frozen=True)
class Decoded:
    """A policy on groups as a policy on states; group [H] of [S] says which group a state belongs to."""

    policy: Policy
    group: tuple[np.ndarray, ...]

    def start(self, n: int) -> np.ndarray:
        """Memory of n fresh episodes."""
        return self.policy.start(n)

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Actions at step h."""
        return self.policy.act(h, self.group[h][states], memory)

    def update(self, h: int, moved: Moved, memory: np.ndarray) -> np.ndarray:
        """Memory after the rewards of step h."""
        after = self.group[min(h + 1, len(self.group) - 1)]
        grouped = moved._replace(states=self.group[h][moved.states], next_states=after[moved.next_states])
        return self.policy.update(h, grouped, memory)


@overload
def play(
    policy: Policy | PolicyHolder,
    env: FiniteMDP | CountableEnv,
    episodes: int,
    *,
    seed: int | None = ...,
    rng: np.random.Generator | None = ...,
    horizon: int | None = ...,
    discount: float | None = ...,
) -> Episodes: ...
@overload
def play(
    policy: Policy | PolicyHolder,
    env: Any,
    episodes: int,
    *,
    seed: int | None = ...,
    rng: np.random.Generator | None = ...,
    horizon: int | None = ...,
    discount: float | None = ...,
) -> Any: ...
def play(
    policy: Policy | PolicyHolder,
    env: Any,
    episodes: int,
    *,
    seed: int | None = None,
    rng: np.random.Generator | None = None,
    horizon: int | None = None,
    discount: float | None = None,
) -> Episodes | Observed:
    """`episodes` episodes of `policy` (a policy, or what `solve`, `learn` or `load` returned) in `env`.

    env: a `FiniteMDP`, an environment, or anything that `tailrank.make` takes. seed: of what is random (0 if nobody
    says), or a generator `rng`. horizon, discount: for an environment (default: its step limit, and 1); an MDP has its
    own. Returned are `Episodes` where states are numbers, else `Observed`; both have actions, rewards and returns.

    >>> from tailrank import FiniteMDP, solve
    >>> mdp = FiniteMDP.from_rows([0, 0], [0, 1], [0, 0], [1, 1], [1, 2], horizon=3)
    >>> play(solve(mdp, tau=0.1).policy, mdp, 2, seed=0).returns.tolist()
    [6.0, 6.0]
    """
    n, policy = checks.whole(episodes, "episodes"), policy_of(policy)
    if seed is not None and rng is not None:
        raise InputError("seed, rng: give one of them")
    rng = np.random.default_rng(checks.whole(seed or 0, "seed", least=0)) if rng is None else rng
    env, horizon = environment_of(policy, env, horizon)
    if hasattr(env, "n_features"):
        return play_simulator(policy, env, odd_seeds(n, rng), discount=1.0 if discount is None else discount)
    if isinstance(env, FiniteMDP):
        return _in_mdp(policy, env, n, rng)
    if hasattr(env, "truth"):
        return _in_episodic(policy, env, n, rng)
    spec = getattr(env, "spec", None)
    steps = horizon if horizon is not None else getattr(spec, "max_episode_steps", None)
    if steps is None:
        raise InputError("horizon: the environment states no step limit; give one")
    gamma = checks.discount_factor(1.0 if discount is None else discount)
    H = checks.whole(steps, "horizon")
    states, actions, rewards = play_in_gymnasium(policy, env, n, H, rng)
    return Episodes(states, actions, rewards, rewards @ gamma ** np.arange(H))


def environment_of(policy: Policy, env: Any, horizon: int | None) -> tuple[Any, int | None]:
    """The environment that is meant for this policy, and the horizon if it still has to be said."""
    if isinstance(env, FiniteMDP) or hasattr(env, "truth") or hasattr(env, "n_features"):
        return env, horizon
    if hasattr(env, "reset") and on_states(policy):
        return env, horizon
    if on_states(policy):
        steps = horizon if horizon is not None or isinstance(env, str | Path) else horizon_of(policy)
        return sources.read(env, horizon=steps).mdp, None
    return sources.make(env, kind="observations", horizon=horizon), None


def odd_seeds(n: int, rng: np.random.Generator) -> np.ndarray:
    """Seeds [n] of episodes that judge a policy: odd numbers, while episodes to learn from have even ones."""
    return 2 * rng.integers(2**30, size=n) + 1


def _in_mdp(policy: Policy, mdp: FiniteMDP, n: int, rng: np.random.Generator) -> Episodes:
    H = mdp.horizon
    check_fits(policy, H, mdp.n_states, mdp.n_actions)
    states = np.empty((H + 1, n), dtype=np.int64)  # a step is a row here: it is written as a whole
    actions, rewards = np.empty((H, n), dtype=np.int64), np.empty((H, n))
    states[0] = rng.choice(mdp.n_states, size=n, p=mdp.start)
    memory = policy.start(n)
    for h in range(H):
        ptr, next_state, _, reward = mdp.rows(h)
        actions[h] = policy.act(h, states[h], memory)
        if not 0 <= int(actions[h].min()) <= int(actions[h].max()) < mdp.n_actions:
            raise InputError(f"step {h}: the policy plays an action that is not in 0..{mdp.n_actions - 1}")
        pair = states[h] * mdp.n_actions + actions[h]
        bad = np.flatnonzero(ptr[pair] == ptr[pair + 1])
        if bad.size:
            raise InputError(
                f"step {h}: the policy plays action {actions[h, bad[0]]} in state "
                f"{mdp.labels[states[h, bad[0]]]}, where it is not available"
            )
        row = mdp.draw_rows(h, pair, rng)
        rewards[h], states[h + 1] = reward[row], next_state[row]
        memory = policy.update(h, Moved(states[h], actions[h], rewards[h], states[h + 1]), memory)
    returns = mdp.discount ** np.arange(H) @ rewards
    return Episodes(states.T, actions.T, rewards.T, returns)


def _in_episodic(policy: Policy, env: CountableEnv, n: int, rng: np.random.Generator) -> Episodes:
    H = env.horizon
    if isinstance(policy, Decoded):
        check_fits(policy.policy, H, max(int(group.max()) for group in policy.group) + 1, env.n_actions)
    else:
        check_fits(policy, H, env.n_states, env.n_actions)
    states = np.empty((n, H + 1), dtype=np.int64)
    actions, rewards = np.empty((n, H), dtype=np.int64), np.empty((n, H))
    for move in walk(policy, env, n, rng):
        states[:, move.h], states[:, move.h + 1] = move.states, move.after
        actions[:, move.h], rewards[:, move.h] = move.actions, move.rewards
    return Episodes(states, actions, rewards, rewards @ env.truth.discount ** np.arange(H))


@dataclass(frozen=True)
class Transitions:
    """Step h of the episodes [n] that are still played: states, actions, rewards (undiscounted) and next states [n].

    memory, then: the memory of the policy before and after the step, [n] or [n, ...].
    """

    h: int
    states: np.ndarray
    memory: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    after: np.ndarray
    then: np.ndarray


def walk(
    policy: Policy,
    env: CountableEnv,
    n: int,
    rng: np.random.Generator,
    *,
    steps: int | None = None,
    lasting: np.ndarray | None = None,
) -> Iterator[Transitions]:
    """The transitions of n episodes of `policy`, step by step: what every learner where states are counted plays by.

    steps: how many are played at most (default: H). lasting [n]: how many are played of each episode.
    """
    states, memory = env.reset(n, rng), policy.start(n)
    for h in range(env.horizon if steps is None else steps):
        live: Any = slice(None) if lasting is None else np.flatnonzero(lasting > h)
        here, kept = states[live], memory[live]
        if here.size == 0:
            return
        actions = policy.act(h, here, kept)
        rewards, after = env.step(h, here, actions, rng)
        then = policy.update(h, Moved(here, actions, rewards, after), kept)
        yield Transitions(h, here, kept, actions, rewards, after, then)
        if lasting is None:
            states, memory = after, then
        else:
            states[live], memory[live] = after, then


def play_simulator(
    policy: Policy | PolicyHolder,
    simulator: Simulator,
    seeds: np.ndarray,
    *,
    discount: float = 1.0,
    keep_features: bool = False,
    may_be_none: bool = False,
) -> Observed:
    """One episode of `policy` for each seed [n], in batches of the simulator's width.

    The policy sees features [k, m] where it would see states. It is asked and told about all episodes of a batch as
    long as one of them goes on, so that its arrays keep their shape; what it answers for one that is over is ignored.
    Episodes that a simulator with `skip_bad` says went wrong are left out: there may be fewer than seeds, and none at
    all where `may_be_none`. An action that the simulator does not allow (`episodes/masks.py`) is replaced by one that
    it does.

    >>> from tailrank import make_simulator
    >>> from tailrank.policies.tables import UniformPolicy
    >>> lock = make_simulator("rich-lock", horizon=3, n_actions=4)
    >>> play_simulator(UniformPolicy(4, 3, np.random.default_rng(0)), lock, np.arange(1, 9, 2)).returns.shape
    (4,)
    """
    seeds = np.asarray(seeds)
    if seeds.ndim != 1 or seeds.size == 0 or seeds.dtype.kind not in "iu":
        raise InputError(f"seeds: must be a non-empty list of whole numbers, found {seeds!r:.60}")
    gamma, policy = checks.discount_factor(discount), policy_of(policy)
    steps, features = horizon_of(policy), getattr(policy, "n_features", None)
    if features not in (None, simulator.n_features) or (steps is not None and steps < simulator.horizon):
        raise InputError(
            f"policy: is for {features} features and {steps} steps, {simulator.name} has {simulator.n_features} and "
            f"{simulator.horizon}"
        )
    width = checks.whole(simulator.width, f"width of {simulator.name}")
    batches: list[tuple[Any, ...]] = []
    earned = 0.0
    each = gamma ** np.arange(simulator.horizon)
    with on_one_blas_thread():
        for i in range(0, seeds.size, width):
            tell(i, seeds.size, f"episodes, mean {earned / i:.4g}" if i else "episodes")
            batches.append(_batch(policy, simulator, seeds[i : i + width], keep_features))
            earned += float((batches[-1][1] @ each).sum())
    actions, rewards, lengths = (np.concatenate([b[k] for b in batches]) for k in range(3))
    bad = np.concatenate([b[4] for b in batches])
    if bad.all() and not may_be_none:
        raise InputError(f"{simulator.name}: no episode of {seeds.size} went well; first {simulator.first_bad}")  # type: ignore[attr-defined]
    features = np.concatenate([b[3] for b in batches]) if keep_features else None
    allowed = joined([b[5] for b in batches], [len(b[0]) for b in batches])
    if bad.any():
        actions, rewards, lengths, seeds = (part[~bad] for part in (actions, rewards, lengths, seeds))
        features, allowed = (None if part is None else part[~bad] for part in (features, allowed))
    return Observed(actions, rewards, rewards @ each, lengths, seeds, features, allowed)


def _batch(
    policy: Policy, simulator: Simulator, seeds: np.ndarray, keep: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Actions, rewards, lengths, features (empty unless kept), which went wrong, and what was allowed (None unless
    kept), of at most `width` episodes."""
    n, H = seeds.size, simulator.horizon
    actions, rewards = np.full((n, H), -1, dtype=np.int64), np.zeros((n, H))
    lengths, over = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    seen = _features(simulator, simulator.reset(seeds), seeds, "reset")
    kept = np.empty((n, H + 1, seen.shape[1]) if keep else (n, 0, 0), dtype=seen.dtype)
    if keep:
        kept[:, 0] = seen
    memory, allowed = policy.start(n), getattr(simulator, "allowed", None)
    masks = [allowed]
    for h in range(H):
        chosen = among(np.asarray(policy.act(h, seen, memory), dtype=np.int64), allowed, seeds, h)
        reward, after, ended = simulator.step(chosen)
        reward = np.where(over, 0.0, reward)
        after = np.where(over[:, None], seen, _features(simulator, after, seeds, f"step {h}"))
        bad = np.flatnonzero(~(np.abs(reward) <= LARGEST))
        if bad.size:
            where = f"{simulator.name}, seed {seeds[bad[0]]}, step {h}"
            raise InputError(f"{where}: reward = {reward[bad[0]]:g}, must be finite and at most {LARGEST:g}")
        actions[:, h], rewards[:, h] = np.where(over, -1, chosen), reward
        lengths += ~over
        over, allowed = over | ended, getattr(simulator, "allowed", None)
        if keep:
            masks.append(allowed)
            kept[:, h + 1 : None if over.all() else h + 2] = after[:, None]
        if over.all():
            break
        memory = policy.update(h, Moved(seen, chosen, reward, after), memory)
        seen = after
    wrong = np.isin(np.arange(n), list(getattr(simulator, "bad", ())))
    masks = [None if one is None else one[:, None] for one in masks] + [None] * (H + 1 - len(masks))
    return actions, rewards, lengths, kept, wrong, joined(masks, [1] * (H + 1), 1) if keep else None


def _features(simulator: Simulator, found: np.ndarray, seeds: np.ndarray, step: str) -> np.ndarray:
    if np.shape(found) != (seeds.size, simulator.n_features):
        wanted = [seeds.size, simulator.n_features]
        raise InputError(f"{simulator.name}: features must have shape {wanted}, found {list(np.shape(found))}")
    # A copy: a simulator may write its next observations into the same array.
    features = np.array(found)
    fits = np.abs(features) <= LARGEST
    if not fits.all():
        i, j = np.argwhere(~fits)[0]
        where = f"{simulator.name}, seed {seeds[i]}, {step}"
        raise InputError(f"{where}: feature {j} = {features[i, j]:g}, must be finite and at most {LARGEST:g}")
    return features
