"""The processes and behaviours of studies/logs.py, and logs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from tailrank import FiniteMDP, make_episodic, play, read_mdp, solve
from tailrank.envs.logs.log import EpisodeLog
from tailrank.envs.logs.read import read_log
from tailrank.policies.moved import Moved
from tailrank.policies.tables import BudgetPolicy, Policy

ROOT = Path(__file__).resolve().parent.parent
SEED = 20_270_000
BEHAVIOURS = ("uniform", "half", "near", "hole")


@dataclass(frozen=True)
class Process:
    """An MDP with the tau that is learned for, and whether the log has the probabilities of its actions.

    returns: what they lie in, where that is known to be less than what rewards allow.
    """

    mdp: FiniteMDP
    tau: float
    weighted: bool = False
    expert: np.ndarray | None = None
    returns: tuple[float, float] | None = None

    @property
    def dynamics(self) -> str:
        """Whether outcomes depend on the step."""
        return "same" if self.mdp.n_blocks == 1 else "by-step"

    @property
    def rewards(self) -> tuple[float, float]:
        """What they lie in."""
        return float(self.mdp.reward.min()), float(self.mdp.reward.max())


def river_swim(horizon: int = 12, states: int = 4) -> FiniteMDP:
    """States in a row: swimming right is uncertain and pays 10 at its end, drifting left is sure and pays 1."""
    rows = []
    for s in range(states):
        rows.append((s, 0, max(s - 1, 0), 1.0, 1 if s == 0 else 0))
        right, stay = min(s + 1, states - 1), s
        if s == states - 1:
            rows += [(s, 1, s, 0.7, 10), (s, 1, s - 1, 0.3, 0)]
        else:
            rows += [(s, 1, right, 0.6, 0), (s, 1, stay, 0.35, 0), (s, 1, max(s - 1, 0), 0.05, 0)]
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=horizon)


@cache
def process(name: str) -> Process:
    """By name."""
    if name == "machine":
        return Process(read_mdp(ROOT / "examples" / "models" / "machine.csv", horizon=10).mdp, 0.1)
    if name == "river swim":
        return Process(river_swim(), 0.25)
    if name == "lock":
        return Process(make_episodic("risky-lock").truth, 0.25, weighted=True)
    if name == "random low-rank":
        return Process(make_episodic("random-lowrank").truth, 0.25, weighted=True)
    import icu_sepsis
    from icu_sepsis.utils.io import MDPParameters

    from tailrank.envs.mdp_files.read_write import read_mdp as read

    assets = MDPParameters(Path(icu_sepsis.__file__).parent / "envs" / "assets")
    sepsis = read("Sepsis/ICU-Sepsis-v2", horizon=20, imports=("icu_sepsis",)).mdp
    return Process(sepsis, 0.5, weighted=True, expert=assets._expert_policy, returns=(0.0, 1.0))


class Mixed:
    """Plays `policy`, but with the chance `share` (1 without a policy) uniformly among what is left by a hole."""

    def __init__(
        self, mdp: FiniteMDP, policy: Policy | None, share: float, rng: np.random.Generator, hole: bool
    ) -> None:
        self.policy, self.share, self.rng, self.A = policy, share, rng, mdp.n_actions
        counts = np.diff(mdp.ptr[: mdp.n_states * mdp.n_actions + 1]).reshape(mdp.n_states, mdp.n_actions)
        self.free = counts > 0
        if hole:
            # In half of the states the last action is never taken.
            places_ = np.arange(0, mdp.n_states, 2)
            some = places_[self.free[places_].sum(axis=1) > 1]
            self.free[some, self.free.shape[1] - 1 - self.free[some, ::-1].argmax(axis=1)] = False

    def start(self, n: int) -> np.ndarray:
        return np.zeros(n, dtype=np.int64) if self.policy is None else self.policy.start(n)

    def law(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Probabilities of the actions, [n, A]."""
        p = self.free[states] / self.free[states].sum(axis=1, keepdims=True) * (self.share if self.policy else 1.0)
        if self.policy is not None:
            p[np.arange(states.size), self.policy.act(h, states, memory)] += 1.0 - self.share
        return p

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        total = np.cumsum(self.law(h, states, memory), axis=1)
        return np.minimum((self.rng.random(states.size)[:, None] * total[:, -1:] >= total).sum(axis=1), self.A - 1)

    def update(self, h, moved, memory):  # type: ignore[no-untyped-def]
        return memory if self.policy is None else self.policy.update(h, moved, memory)


class Expert(Mixed):
    """Plays the law [S, A] of an expert."""

    def __init__(self, mdp: FiniteMDP, table: np.ndarray, rng: np.random.Generator) -> None:
        super().__init__(mdp, None, 1.0, rng, False)
        table = table * self.free[:, : table.shape[1]]
        total = table.sum(axis=1, keepdims=True)
        self.table = np.where(total > 0, table / np.maximum(total, 1e-12), self.free / self.free.sum(1, keepdims=True))

    def law(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        return self.table[states]


@cache
def optimum(name: str) -> BudgetPolicy:
    """The plan with the best CVaR."""
    one = process(name)
    return solve(one.mdp, one.tau).policy  # type: ignore[return-value]


def available(mdp: FiniteMDP) -> np.ndarray:
    """Which actions there are at all, [S, A]: the same at every step in these processes."""
    return (np.diff(mdp.ptr).reshape(mdp.n_blocks, mdp.n_states, mdp.n_actions) > 0).all(axis=0)


def made_log(name: str, behaviour: str, n: int, seed: int, *, weighted: bool = False) -> EpisodeLog:
    """A log of n episodes; weighted: with the probabilities of its actions, whatever the process says."""
    one, rng = (
        process(name),
        np.random.default_rng([SEED, seed, n, BEHAVIOURS.index(behaviour) if behaviour in BEHAVIOURS else 9]),
    )
    if behaviour == "expert":
        player: Mixed = Expert(one.mdp, one.expert, rng)  # type: ignore[arg-type]
    else:
        share = {"uniform": 1.0, "hole": 1.0, "half": 0.5, "near": 0.1}[behaviour]
        policy = None if share == 1.0 else optimum(name)
        player = Mixed(one.mdp, policy, share, rng, behaviour == "hole")
    H = one.mdp.horizon
    played = play(player, one.mdp, n, rng=rng)
    frame = {
        "episode": np.repeat(np.arange(n), H),
        "step": np.tile(np.arange(H), n),
        "state": played.states[:, :H].ravel(),
        "action": played.actions.ravel(),
        "reward": played.rewards.ravel(),
    }
    if one.weighted or weighted:
        memory, columns = player.start(n), []
        for h in range(H):
            law = player.law(h, played.states[:, h], memory)
            columns.append(law[np.arange(n), played.actions[:, h]])
            moved = Moved(played.states[:, h], played.actions[:, h], played.rewards[:, h], None)
            memory = player.update(h, moved, memory)
        frame["probability"] = np.stack(columns, axis=1).ravel()
    log = read_log(frame, horizon=H, states=range(one.mdp.n_states), actions=range(one.mdp.n_actions))
    return replace(log, admissible=available(one.mdp))
