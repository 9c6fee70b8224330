"""What CVaR-LSVI may know of a model: features, reward laws and bonuses at given states, and samples.

Nothing here lists the states, so a model over reals serves as well as a table. Steps are 0-based: h = 0..H-1.
After the last action nothing is scored; its feature is e_1 (a single 1), so that one code serves all steps.

The paper takes reward and next state to be independent given state and action. Where they are not, but
P(s', r | s, a) = sum_j P(j, r | s, a) psi_j(s'), a model gives the laws of (j, r) together, [n, A, d, nr], and the
low rank is that of the joint law: its features are phi = sum_r P(j, r), or all of P(j, r).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from tailrank.checks import InputError
from tailrank.models.lowrank import LowRankModel
from tailrank.planning.lsvi._kernels import pick


class FeatureModel(Protocol):
    """A low-rank model by its features and its samples. `states` is an array whose first axis is n."""

    @property
    def horizon(self) -> int:
        """H."""
        ...

    @property
    def n_actions(self) -> int:
        """A."""
        ...

    def rank(self, h: int) -> int:
        """Dimension d of the features of step h (h = 0..H-2)."""
        ...

    def start(self) -> np.ndarray:
        """The states in which episodes start, equally likely; mostly one."""
        ...

    def features(self, h: int, states: np.ndarray) -> np.ndarray:
        """phi_h [n, A, d], h = 0..H-2: laws of the latent."""
        ...

    def reward_laws(self, h: int, states: np.ndarray) -> np.ndarray:
        """Laws [n, A, nr] of the reward over 0..nr-1 units, independent of the next state; or, where it is not,
        [n, A, d, nr] of latent and reward together.
        """
        ...

    def bonus(self, h: int, states: np.ndarray) -> np.ndarray:
        """Bonuses [n, A] in units; zero at the last two steps where the reward laws are known."""
        ...

    def sample_latent(self, h: int, latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """States [n] of step h + 1 from psi_j, for latents j [n]."""
        ...


class GroupModel:
    """A finite low-rank model as a `FeatureModel` whose states are groups.

    reward_of [H] of [G, A]: which of the laws [L, nr] a pair has. bonus [H] of [G, A], in units.
    """

    def __init__(
        self,
        model: LowRankModel,
        reward_of: Sequence[np.ndarray],
        laws: np.ndarray,
        bonus: Sequence[np.ndarray],
        start_group: int,
    ) -> None:
        self.horizon = model.horizon
        self.n_actions = int(reward_of[0].shape[1])
        for name, tables in (("reward_of", reward_of), ("bonus", bonus)):
            if len(tables) != self.horizon:
                raise InputError(f"{name}: must have one table a step, {self.horizon}, found {len(tables)}")
            for h, table in enumerate(tables):
                if table.shape != (model.groups(h), self.n_actions):
                    expected = (model.groups(h), self.n_actions)
                    raise InputError(f"{name}[{h}]: must have shape {expected}, found {table.shape}")
        if not 0 <= start_group < model.groups(0):
            raise InputError(f"start_group = {start_group}: must lie in 0..{model.groups(0) - 1}")
        self._model, self._start = model, start_group
        self._laws = [np.ascontiguousarray(laws[which]) for which in reward_of]
        self._bonus = [np.asarray(b, dtype=np.float64) for b in bonus]
        # row j of psi_h, cumulated, fills (j, j + 1]: one sorted list to search for any number of draws
        self._ladder = []
        for step in model.steps:
            total = np.cumsum(step.psi, axis=1)
            self._ladder.append((total / total[:, -1:] + np.arange(total.shape[0])[:, None]).ravel())

    def rank(self, h: int) -> int:
        """d of step h."""
        return int(self._model.steps[h].phi.shape[2])

    def start(self) -> np.ndarray:
        """The starting group, [1]."""
        return np.array([self._start])

    def features(self, h: int, states: np.ndarray) -> np.ndarray:
        """phi_h [n, A, d] of these groups."""
        return self._model.steps[h].phi[states]

    def reward_laws(self, h: int, states: np.ndarray) -> np.ndarray:
        """Reward laws [n, A, nr] of these groups."""
        return self._laws[h][states]

    def bonus(self, h: int, states: np.ndarray) -> np.ndarray:
        """Bonuses [n, A] of these groups."""
        return self._bonus[h][states]

    def sample_latent(self, h: int, latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Groups [n] of step h + 1 from psi_j, for latents j [n]."""
        size = self._model.steps[h].psi.shape[1]
        at = np.searchsorted(self._ladder[h], latent + rng.random(latent.size), side="right") - latent * size
        return np.minimum(at, size - 1)


class View(NamedTuple):
    """The model at n states of one step: phi [n, A, d], law [n, A, nr] (or joint, [n, A, d, nr]), bonus [n, A]."""

    phi: np.ndarray
    law: np.ndarray
    bonus: np.ndarray

    def joint(self) -> np.ndarray:
        """Features phi (x) law [n, A, d nr] of (next state, reward) (Algorithm 2, line 1)."""
        n, A, d = self.phi.shape
        law = self.law if self.law.ndim == 4 else self.phi[..., :, None] * self.law[..., None, :]
        return law.reshape(n, A, d * law.shape[3])


def view(model: FeatureModel, h: int, states: np.ndarray) -> View:
    """The model at these states; the feature of the last step is e_1."""
    law = model.reward_laws(h, states)
    if h < model.horizon - 1:
        return View(model.features(h, states), law, model.bonus(h, states))
    if law.ndim == 4:
        law = law.sum(axis=2, keepdims=True)
    return View(np.ones((*law.shape[:2], 1)), law, model.bonus(h, states))


@dataclass(frozen=True)
class SimulatedEpisodes:
    """n simulated episodes: views [H], actions [H] of [n], rewards in units [H] of [n]."""

    views: tuple[View, ...]
    actions: tuple[np.ndarray, ...]
    units: tuple[np.ndarray, ...]

    def values(self, budget: int, terminal: np.ndarray | None = None) -> np.ndarray:
        """(budget - sum of rewards)^+ - sum of bonuses, [n] (line 16; the bonuses belong inside the mean).

        terminal [C]: V_H at every budget, where it is not that of CVaR.
        """
        rows = np.arange(self.units[0].size)
        bonus = sum(v.bonus[rows, a] for v, a in zip(self.views, self.actions, strict=True))
        left = np.maximum(budget - np.sum(self.units, axis=0), 0)
        return (left if terminal is None else terminal[left]) - bonus


Choose = Callable[[int, View, np.ndarray], np.ndarray]
"""Actions [n] at step h for what the model shows of n states and their budgets [n]."""


def rollout(model: FeatureModel, choose: Choose, budget: int, n: int, rng: np.random.Generator) -> SimulatedEpisodes:
    """n episodes of a policy from (start, budget) (lines 12 and 15). Budgets are clamped at 0."""
    first = model.start()
    states = first[np.zeros(n, dtype=np.int64) if len(first) == 1 else rng.integers(len(first), size=n)]
    left = np.full(n, budget, dtype=np.int64)
    views, actions, units = [], [], []
    for h in range(model.horizon):
        views.append(view(model, h, states))
        actions.append(choose(h, views[h], left))
        law = views[h].law
        latent, drawn = np.divmod(pick(law.reshape(n, law.shape[1], -1), actions[h], rng.random(n)), law.shape[-1])
        units.append(drawn)
        left = np.maximum(left - drawn, 0)
        if h < model.horizon - 1:
            if law.ndim == 3:
                latent = pick(views[h].phi, actions[h], rng.random(n))
            states = model.sample_latent(h, latent, rng)
    return SimulatedEpisodes(tuple(views), tuple(actions), tuple(units))
