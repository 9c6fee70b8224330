"""The shortfall network as a candidate: a small ensemble that goes on training as episodes come in.

Each member has its own start and its own batches. Members explore in turn, so that they try what they disagree about;
the output is their mean. The budgets cover the returns that were seen; where later returns lie outside, the budgets
are chosen anew and the networks start afresh, with as many gradient steps as all episodes ask for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tailrank import checks
from tailrank._system.settings import Checked, setting
from tailrank._system.telling import tell
from tailrank.learning.rivals.observations.policy_gradient import layer_sizes
from tailrank.learning.simulators.candidates import CandidateOutput
from tailrank.learning.simulators.exploring import ExploringPolicy
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.scale import budget_scale, covers
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.shortfall import ShortfallPolicy, network_input
from tailrank.policies.tables import Policy
from tailrank.risk.law import best_budget

CHUNK = 50
"""Gradient steps in one compiled call."""


@dataclass(frozen=True)
class FittedShortfall:
    """Networks (states of training, one a member), what they see and how far they were trained."""

    states: tuple[Any, ...]
    centre: np.ndarray
    spread: np.ndarray
    scale: BudgetScale
    updates: int
    loss: float
    first: np.ndarray
    returns: np.ndarray
    tau: float
    horizon: int
    n_actions: int
    epsilon: float

    def policy(self, members: tuple[int, ...]) -> tuple[ShortfallPolicy, float]:
        """The mean of these members as a policy with its best budget, and its promise."""
        layers = []
        for i in range(len(self.states[0].layers)):
            w, b = (np.stack([np.asarray(self.states[e].layers[i][j]) for e in members]) for j in (0, 1))
            layers.append((w, b))
        bare = ShortfallPolicy(tuple(layers), self.centre, self.spread, self.scale, 0.0, self.horizon)
        curve = bare.values(self.first, self.horizon).min(axis=1).mean(axis=0) * self.scale.unit
        budgets = self.scale.budget(np.arange(self.scale.count), self.horizon)
        best = best_budget(budgets, curve, self.tau)
        budget = float(budgets[best])
        return ShortfallPolicy(bare.layers, self.centre, self.spread, self.scale, budget, self.horizon), budget - float(
            curve[best]
        ) / self.tau

    def explorer(self, rng: np.random.Generator) -> Policy:
        """The members in turn."""
        members = tuple(self.policy((e,))[0] for e in range(len(self.states)))
        return ExploringPolicy(members, self.n_actions, self.returns, self.epsilon, rng)

    def outputs(self) -> list[CandidateOutput]:
        """The mean of all members."""
        return [self._output]

    @cached_property
    def _output(self) -> CandidateOutput:
        return CandidateOutput("shortfall network", *self.policy(tuple(range(len(self.states)))))

    def about(self) -> str:
        """How far it was trained."""
        return f"network of {len(self.states)}, {self.updates} steps, loss {self.loss:.3g}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Networks, slow copies and Adam's memories, leaf by leaf."""
        import jax

        scale = self.scale
        arrays = {f"leaf.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(self.states))}
        arrays["numbers"] = np.array([scale.unit, scale.low, scale.count, scale.origin, self.updates, self.loss])
        return arrays | {"centre": self.centre, "spread": self.spread}


@dataclass(frozen=True)
class ShortfallCandidate(Checked):
    """The shortfall network as a candidate."""

    hidden: tuple[int, ...] = setting((64, 64), kind=tuple, check=layer_sizes, help="Sizes of the network's layers.")
    budgets: int = setting(48, kind=int, least=8, name="network_budgets", metavar="N", help="Budgets of the network.")
    rate: float = setting(1e-3, kind=float, check=checks.positive, metavar="R", help="Adam's rate.")
    batch: int = setting(64, kind=int, least=2, metavar="N", help="Transitions a gradient step.")
    ratio: float = setting(1.0, kind=float, check=checks.positive, metavar="R", help="Gradient steps a step played.")
    ahead: int = setting(1, kind=int, metavar="N", help="Steps that a target looks ahead.")
    members: int = setting(2, kind=int, metavar="N", help="Networks of the ensemble.")
    epsilon: float = setting(
        0.1,
        kind=float,
        check=lambda value, name: checks.inside(value, name, "[0, 1]"),
        name="network_epsilon",
        metavar="P",
        help="Share of random actions in the network's exploration.",
    )
    most_updates: int = setting(60_000, kind=int, least=CHUNK, metavar="N", help="Gradient steps in all, at most.")

    def fit(
        self,
        played: PlayedEpisodes,
        n_actions: int,
        tau: float,
        rng: np.random.Generator,
        before: FittedShortfall | None = None,
    ) -> FittedShortfall:
        """Gradient steps for the episodes that are new, or from the start where the budgets must change."""
        if before is None or not covers(before.scale, played):
            before = self._fresh(played, n_actions, tau, rng)
        wanted = min(int(self.ratio * played.steps), self.most_updates) - before.updates
        chunks = max(-(-wanted // CHUNK), 1)
        data = teaching(played, before.scale, self.ahead, before.centre, before.spread)
        states, losses = [], []
        for state in before.states:
            for i in range(chunks):
                tell(i, chunks, "parts of a training")
                rows = rng.integers(0, played.steps, size=(CHUNK, self.batch))
                state, value = self._advance(state, data, rows, n_actions)
            states.append(state)
            losses.append(float(value))
        return self._update(before, tuple(states), before.updates + chunks * CHUNK, float(np.mean(losses)), played)

    def _advance(self, state: Any, data: Any, rows: np.ndarray, n_actions: int) -> tuple[Any, Any]:
        from tailrank.learning.shortfall._training_jax import advance

        return advance(state, type(data)(*(part[rows] for part in data)), n_actions, self.rate)

    def _fresh(self, played: PlayedEpisodes, n_actions: int, tau: float, rng: np.random.Generator) -> FittedShortfall:
        centre = played.features.mean(axis=0, dtype=np.float64)
        spread = played.features.std(axis=0, dtype=np.float64)
        spread = np.where(spread > 1e-6 * (1.0 + np.abs(centre)), spread, 1.0)
        scale = budget_scale(played, self.budgets, exact=False)
        # Slopes begin as the law of the returns that were seen.
        place = scale.place(played.to_go(), played.horizon - played.step_numbers())
        slope = np.clip([(place <= i + 0.5).mean() for i in range(scale.count - 1)], 0.01, 0.99)
        empty = self._empty((centre, spread), scale, played, tau, n_actions)
        return self._update(
            empty, tuple(self._member(empty, slope, rng) for _ in range(self.members)), 0, np.nan, played
        )

    def _empty(
        self, around: tuple[np.ndarray, np.ndarray], scale: BudgetScale, played: PlayedEpisodes, tau: float, A: int
    ) -> FittedShortfall:
        """Without networks and updates; around: centre and spread of the features."""
        first, returns, H = played.first, played.returns(), played.horizon
        return FittedShortfall((), *around, scale, 0, np.nan, first, returns, tau, H, A, self.epsilon)

    def _member(self, about: FittedShortfall, slope: np.ndarray, rng: np.random.Generator) -> Any:
        from tailrank.learning.shortfall._training_jax import start_training

        sizes = [about.centre.size + 2, *self.hidden, about.n_actions * slope.size]
        layers = []
        for i, (k, j) in enumerate(pairwise(sizes)):
            last = i + 2 == len(sizes)
            w = rng.normal(size=(k, j)) * np.sqrt((0.01 if last else 2.0) / k)
            b = np.tile(np.log(slope / (1 - slope)), about.n_actions) if last else np.zeros(j)
            layers.append((w.astype(np.float32), b.astype(np.float32)))
        return start_training(tuple(layers), self.rate)

    def _update(
        self, before: FittedShortfall, states: tuple[Any, ...], updates: int, loss: float, played: PlayedEpisodes
    ) -> FittedShortfall:
        return replace(before, states=states, updates=updates, loss=loss, first=played.first, returns=played.returns())

    def restored(
        self,
        arrays: dict[str, np.ndarray],
        played: PlayedEpisodes,
        n_actions: int,
        tau: float,
        rng: np.random.Generator,
    ) -> FittedShortfall:
        """The networks in a checkpoint."""
        import jax
        import jax.numpy as jnp

        unit, low, count, origin, updates, loss = (float(x) for x in arrays["numbers"])
        scale = BudgetScale(unit, low, int(count), origin)
        like = self._empty((arrays["centre"], arrays["spread"]), scale, played, tau, n_actions)
        shape = tuple(self._member(like, np.full(scale.count - 1, 0.5), rng) for _ in range(self.members))
        leaves, tree = jax.tree.flatten(shape)
        found = [jnp.asarray(arrays[f"leaf.{i}"]) for i in range(len(leaves))]
        return self._update(like, jax.tree.unflatten(tree, found), int(updates), loss, played)


def teaching(played: PlayedEpisodes, scale: BudgetScale, ahead: int, centre: np.ndarray, spread: np.ndarray) -> Any:
    """All transitions as a `TransitionBatch` of arrays [T, ..]; targets look `ahead` steps, or to the end if nearer."""
    from tailrank.learning.shortfall._training_jax import TransitionBatch

    H, step = played.horizon, played.step_numbers()
    episode = np.repeat(np.arange(played.n), played.lengths)
    n = np.minimum(ahead, played.lengths[episode] - step)
    at = np.arange(played.steps) + episode
    total = np.concatenate([[0.0], np.cumsum(played.rewards - scale.origin)])
    shift = (total[np.arange(played.steps) + n] - total[: played.steps]) / scale.unit
    left = H - step - n
    over = step + n == played.lengths[episode]
    x = network_input(played.features[at], H - step, H, centre, spread)
    after = network_input(played.features[at + n], left, H, centre, spread)
    end = scale.low + scale.origin * left / scale.unit
    plain = (played.actions.astype(np.int32), shift.astype(np.float32), after)
    return TransitionBatch(x, *plain, over.astype(np.float32), end.astype(np.float32))
