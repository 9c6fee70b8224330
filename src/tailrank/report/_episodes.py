"""Episodes for the player: played with a fixed seed, ordered by their return, a few of them kept.

Kept are episodes at fixed places of the order, from the worst to the best, so that the page has one in the middle
of the worst tau for every tau, the median and the best. Each is stored with what was left of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.episodes.rollout import Episodes, play
from tailrank.episodes.streams import Streams
from tailrank.models.mdp import FiniteMDP
from tailrank.policies.moved import Moved
from tailrank.policies.tables import BudgetPolicy, LevelPolicy, Policy

PLAYED = 2000
PLACES = (0, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 1)
MOST_NUMBERS = 12_000
"""Steps of all kept episodes together; a longer horizon keeps fewer episodes."""


@dataclass(frozen=True)
class Played:
    """Episodes of one policy in one MDP."""

    policy: Policy
    mdp: FiniteMDP
    seed: int
    episodes: Episodes

    @classmethod
    def of(cls, policy: Policy, mdp: FiniteMDP, seed: int) -> Played:
        """`PLAYED` episodes (fewer where the horizon is long), the same for the same seed."""
        count = int(np.clip(4_000_000 // mdp.horizon, 200, PLAYED))
        # Evaluations of a run are keyed by iterations from 1 on, so that key 0 is free.
        return cls(policy, mdp, seed, play(policy, mdp, count, rng=Streams(seed).evaluation(0)))

    @cached_property
    def visits(self) -> np.ndarray:
        """How many episodes were in each state at each step, [H, S]."""
        H, S = self.mdp.horizon, self.mdp.n_states
        return np.stack([np.bincount(self.episodes.states[:, h], minlength=S) for h in range(H)])

    def flows(self) -> list[list[list[int]]]:
        """For every step the moves (state, next state, number of episodes) that were made."""
        S, result = self.mdp.n_states, []
        for h in range(self.mdp.horizon):
            pair = self.episodes.states[:, h] * S + self.episodes.states[:, h + 1]
            moves, counts = np.unique(pair, return_counts=True)
            result.append([[int(m) // S, int(m) % S, int(n)] for m, n in zip(moves, counts, strict=True)])
        return result

    def data(self) -> dict[str, Any]:
        """The kept episodes, worst first, and how many were played with which seed."""
        order = np.argsort(self.episodes.returns, kind="stable")
        places = PLACES if self.mdp.horizon * len(PLACES) <= MOST_NUMBERS else (0, 0.05, 0.25, 0.5, 1)
        kept = {round(q * (order.size - 1)): q for q in reversed(places)}
        chosen = order[sorted(kept)]
        memory = self._memory(chosen)
        return {
            "played": int(order.size),
            "seed": self.seed,
            "memory": "budget"
            if isinstance(self.policy, BudgetPolicy)
            else "level"
            if isinstance(self.policy, LevelPolicy)
            else None,
            "discount": self.mdp.discount,
            "kept": [
                self._episode(int(e), kept[rank], None if memory is None else memory[i])
                for i, (e, rank) in enumerate(zip(chosen, sorted(kept), strict=True))
            ],
        }

    def _episode(self, e: int, place: float, memory: np.ndarray | None) -> dict[str, Any]:
        states, actions, rewards = (getattr(self.episodes, name)[e] for name in ("states", "actions", "rewards"))
        length = self._ends(states, rewards)
        return {
            "place": place,
            "return": float(self.episodes.returns[e]),
            "states": [int(s) for s in states[: length + 1]],
            "actions": [int(a) for a in actions[:length]],
            "rewards": [float(r) for r in rewards[:length]],
            "memory": None if memory is None else [float(b) for b in memory[: length + 1]],
        }

    def _ends(self, states: np.ndarray, rewards: np.ndarray) -> int:
        """Steps until nothing more happens: the state stays the same and pays nothing."""
        lively = np.flatnonzero((np.diff(states) != 0) | (rewards != 0))
        last = int(lively[-1]) + 1 if lively.size else 0
        return last if int(states[-1]) in self._quiet else int(rewards.size)

    @cached_property
    def _quiet(self) -> frozenset[int]:
        """States that nothing leaves and that pay nothing, at any step."""
        table = self.mdp.table()
        leaves = (table["next_state"] != table["state"]) | (table["reward"] != 0)
        return frozenset(range(self.mdp.n_states)) - {int(s) for s in np.unique(table["state"][leaves])}

    def _memory(self, chosen: np.ndarray) -> np.ndarray | None:
        """What the policy had left before each step and at the end, [n, H + 1]: reward units, or levels."""
        policy, played = self.policy, self.episodes
        if not isinstance(policy, BudgetPolicy | LevelPolicy):
            return None
        memory = policy.start(chosen.size)
        columns = []
        for h in range(self.mdp.horizon + 1):
            if isinstance(policy, BudgetPolicy):
                columns.append(memory * float(policy.grid.unit) + float(sum(policy.grid.origin[h:])))
            else:
                first = policy.start_level[played.states[chosen, 0]] if h == 0 else memory
                columns.append(policy.levels[first])
            if h < self.mdp.horizon:
                s, a, r, t = (
                    x[chosen, i]
                    for x, i in ((played.states, h), (played.actions, h), (played.rewards, h), (played.states, h + 1))
                )
                memory = policy.update(h, Moved(s, a, r, t), memory)
        return np.stack(columns, axis=1)
