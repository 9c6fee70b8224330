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
from tailrank._system.arrays import check_arrays
from tailrank._system.settings import Checked, setting, share
from tailrank._system.telling import tell
from tailrank.learning.dense import layer_views, restandardise
from tailrank.learning.rivals.observations.policy_gradient import layer_sizes
from tailrank.learning.shortfall.targets import TeachingSteps
from tailrank.learning.shortfall.training import NetworkTraining, advance
from tailrank.learning.simulators.candidates import CandidateOutput, FitData
from tailrank.learning.simulators.exploring import ExploringPolicy
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.scale import budget_scale, covers
from tailrank.learning.standard import standard
from tailrank.policies.kernel import BudgetScale
from tailrank.policies.shortfall import ShortfallPolicy, mean_slopes
from tailrank.policies.tables import Policy
from tailrank.risk.law import best_budget

CHUNK = 200
"""Gradient steps after which targets are made anew."""
LAST = 0.1
"""The rate of a fit falls to this share of itself, so that what is handed out is not the noise of the last steps."""
MOST_NUMBERS = 3_000_000
"""Values of steps, actions and budgets that targets are made of at once; of more episodes some are drawn."""


@dataclass(frozen=True)
class FittedShortfall:
    """Networks, what they see and how far they were trained; tried: the tail that exploration plans for."""

    state: NetworkTraining
    centre: np.ndarray
    spread: np.ndarray
    scale: BudgetScale
    loss: float
    first: np.ndarray
    returns: np.ndarray
    tau: float
    tried: float
    horizon: int
    n_actions: int
    epsilon: float

    def policy(self, members: tuple[int, ...], tau: float) -> tuple[ShortfallPolicy, float]:
        """The mean of these members as a policy with its best budget for tail tau, and what it promises: with this
        budget c its CVaR is at least c - E(c - R)^+ / tau, for any tau."""
        layers = tuple((w[list(members)], b[list(members)]) for w, b in self.state.slow_layers())
        bare = ShortfallPolicy(layers, self.centre, self.spread, self.scale, 0.0, self.horizon)
        curve = bare.values(self.first, self.horizon).min(axis=1).mean(axis=0) * self.scale.unit
        budgets = self.scale.budget(np.arange(self.scale.count), self.horizon)
        best = best_budget(budgets, curve, tau)
        budget = float(budgets[best])
        return replace(bare, budget=budget), budget - float(curve[best]) / self.tau

    @property
    def members(self) -> int:
        """E."""
        return len(self.state.slow)

    def restandardised(self, played: PlayedEpisodes) -> FittedShortfall:
        """The same networks with inputs standardised by all that was played: the first layer makes up for it."""
        centre, spread = standard(played.features)
        state = self.state.copy()
        for flat in (state.weights, state.slow):
            restandardise(layer_views(flat, state.sizes), (self.centre, self.spread), (centre, spread))
        return replace(self, state=state, centre=centre, spread=spread)

    def explorer(self, rng: np.random.Generator) -> Policy:
        """The members in turn."""
        members = tuple(self.policy((e,), self.tried)[0] for e in range(self.members))
        return ExploringPolicy(members, self.n_actions, self.returns, self.epsilon, rng)

    @property
    def promise(self) -> float:
        """What its first output promises."""
        return self.outputs()[0].promise

    def outputs(self) -> list[CandidateOutput]:
        """The mean of all members, with the best budget for tau and, beside it, with the best one for the mean."""
        return list(self._outputs)

    @cached_property
    def _outputs(self) -> tuple[CandidateOutput, ...]:
        name, members = "shortfall network", tuple(range(self.members))
        found = [CandidateOutput(name, *self.policy(members, self.tau))]
        if self.tau < 1.0:
            found.append(CandidateOutput(f"{name}, for the mean", *self.policy(members, 1.0)))
        return tuple(found)

    @property
    def supersedes(self) -> bool:
        """A network may lose what it had learned."""
        return False

    def about(self) -> str:
        """How far it was trained."""
        return f"network of {self.members}, {self.state.adam.steps} steps, loss {self.loss:.3g}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Networks, slow copies and Adam's memories."""
        scale, state = self.scale, self.state
        arrays = {"weights": state.weights, "slow": state.slow} | state.adam.to_arrays()
        arrays["numbers"] = np.array([scale.unit, scale.low, scale.count, scale.origin, self.loss])
        return arrays | {"centre": self.centre, "spread": self.spread}


@dataclass(frozen=True)
class ShortfallCandidate(Checked):
    """The shortfall network as a candidate."""

    hidden: tuple[int, ...] = setting((64, 64), kind=tuple, check=layer_sizes, help="Sizes of the network's layers.")
    budgets: int = setting(48, kind=int, least=8, name="network_budgets", metavar="N", help="Budgets of the network.")
    rate: float = setting(1e-3, kind=float, check=checks.positive, metavar="R", help="Adam's rate.")
    batch: int = setting(64, kind=int, least=2, metavar="N", help="Transitions a gradient step.")
    effort: float = setting(
        80.0, kind=float, check=checks.positive, metavar="R", help="Gradient steps for the root of the steps played."
    )
    trust: float = share(0.9, help="What a target trusts the rewards that were paid, not the network, at every step.")
    members: int = setting(2, kind=int, metavar="N", help="Networks of the ensemble.")
    epsilon: float = share(0.1, name="network_epsilon", help="Share of random actions in the network's exploration.")
    most_updates: int = setting(60_000, kind=int, least=CHUNK, metavar="N", help="Gradient steps in all, at most.")

    def fit(self, data: FitData, rng: np.random.Generator, before: FittedShortfall | None = None) -> FittedShortfall:
        """Gradient steps for the episodes that are new, or from the start where the budgets must change."""
        played = data.played
        if before is None or not covers(before.scale, played):
            before = self._fresh(data, rng)
        before = before.restandardised(played)
        state, loss = before.state, np.nan
        wanted = min(int(self.effort * np.sqrt(played.steps)), self.most_updates) - state.adam.steps
        rounds = max(-(-wanted // CHUNK), 1)
        steps = TeachingSteps.of(played, before.scale, before.centre, before.spread)
        most = max(MOST_NUMBERS // (data.n_actions * before.scale.count), 1)
        for i in range(rounds):
            tell(i, rounds, "parts of a training")
            part = steps.drawn(most, rng)
            aim = part.targets(mean_slopes(state.slow_layers(), part.x, data.n_actions), self.trust)
            rate = self.rate * (1.0 - (1.0 - LAST) * i / rounds)
            rows = rng.integers(0, part.actions.size, size=(CHUNK, before.members, self.batch))
            rows = np.take_along_axis(rows, part.actions[rows].argsort(axis=2, kind="stable"), axis=2)
            loss = advance(state, part.x[rows], part.actions[rows], aim[rows], rate)
        return self._update(before, state, loss, data)

    def _fresh(self, data: FitData, rng: np.random.Generator) -> FittedShortfall:
        played = data.played
        centre, spread = standard(played.features)
        scale = budget_scale(played, self.budgets, exact=False)
        # Slopes begin as the law of the returns that were seen.
        place = scale.place(played.to_go(), played.horizon - played.step_numbers())
        slope = np.clip([(place <= i + 0.5).mean() for i in range(scale.count - 1)], 0.01, 0.99)
        empty = self._empty((centre, spread), scale, data)
        return self._update(empty, self._begun(empty, slope, rng), np.nan, data)

    def _empty(self, around: tuple[np.ndarray, np.ndarray], scale: BudgetScale, data: FitData) -> FittedShortfall:
        """Without networks; around: centre and spread of the features."""
        nothing: Any = None
        return FittedShortfall(
            nothing,
            *around,
            scale=scale,
            loss=np.nan,
            first=data.played.first,
            returns=data.played.returns(),
            tau=data.tau,
            tried=data.tried,
            horizon=data.played.horizon,
            n_actions=data.n_actions,
            epsilon=self.epsilon,
        )

    def _begun(self, about: FittedShortfall, slope: np.ndarray, rng: np.random.Generator) -> NetworkTraining:
        sizes = [about.centre.size + 2, *self.hidden, about.n_actions * slope.size]
        layers = []
        for i, (k, j) in enumerate(pairwise(sizes)):
            last = i + 2 == len(sizes)
            w = rng.normal(size=(self.members, k, j)) * np.sqrt((0.01 if last else 2.0) / k)
            b = np.tile(np.log(slope / (1 - slope)), about.n_actions) if last else np.zeros(j)
            layers.append((w.astype(np.float32), np.tile(b, (self.members, 1)).astype(np.float32)))
        return NetworkTraining.begun(layers)

    def _update(self, before: FittedShortfall, state: NetworkTraining, loss: float, data: FitData) -> FittedShortfall:
        first, returns = data.played.first, data.played.returns()
        return replace(before, state=state, loss=loss, first=first, returns=returns, tried=data.tried)

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedShortfall:
        """The networks in a checkpoint."""
        described = {"centre": "float64 [m]", "spread": "float64 [m] > 0", "weights": "float32 [E, P]"}
        described |= {"slow": "float32 [E, P]", "numbers": "float64 [5] any"}
        check_arrays({name: arrays[name] for name in described}, described, m=data.played.n_features)
        unit, low, count, origin, loss = (float(x) for x in arrays["numbers"])
        if not (unit > 0.0 and 2.0 <= count <= arrays["weights"].shape[1] and np.isfinite([low, origin]).all()):
            raise checks.InputError("shortfall network: the budgets of the checkpoint do not fit")
        scale = BudgetScale(unit, low, int(count), origin)
        like = self._empty((arrays["centre"], arrays["spread"]), scale, data)
        fresh = self._begun(like, np.full(scale.count - 1, 0.5), rng)
        weights, slow = (np.asarray(arrays[name], dtype=np.float32) for name in ("weights", "slow"))
        if not weights.shape == slow.shape == fresh.weights.shape:
            raise checks.InputError("shortfall network: the weights of the checkpoint do not fit")
        state = replace(fresh, weights=weights, slow=slow, adam=fresh.adam.from_arrays(arrays))
        return self._update(like, state, loss, data)
