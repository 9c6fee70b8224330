"""Policy gradient as a candidate: it learns from the episodes that it played itself, after every few of them.

Other candidates gain nothing from a plan that is a few episodes younger; this one gains from nothing else. So it is
told of its own episodes as they come (`practised`), learns from those of its last few updates, and a fit to all
episodes only looks at their scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank import checks
from tailrank._system.arrays import check_arrays
from tailrank._system.settings import Checked, setting
from tailrank.learning.dense import layer_views, restandardise
from tailrank.learning.gradient.ascent import PracticeSteps, chances_of, practise, step_worths
from tailrank.learning.gradient.kept import KeptEpisodes
from tailrank.learning.gradient.networks import Critic, TanhTraining
from tailrank.learning.rivals.observations.policy_gradient import layer_sizes
from tailrank.learning.simulators.candidates import CandidateOutput, FitData
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.standard import standard
from tailrank.policies.actor import ActorPolicy, actor_input
from tailrank.policies.tables import Policy
from tailrank.risk.law import cvar

LAST_KAPPA, FALLEN = 0.1, 0.6
"""The share of the mean in what is maximised: it falls from 1 to this in so much of the training."""
LAST_RATE = 0.1
"""The rate falls to this share of itself."""
TAIL, UPDATES = 10, 4
"""Returns that are remembered: so many in the tail, or those of so many updates."""
NARROW = 0.01
"""Where the width of budgets was less than this share of what it is now, all returns were the same: what was learned of
budgets does not count."""


@dataclass(frozen=True)
class FittedGradient:
    """Actor and critic, what they see (centre, spread [m], width of budgets), the budget at the start, the last returns
    [k], how much of the training is done, and the last episodes of its own."""

    actor: TanhTraining
    critic: Critic
    centre: np.ndarray
    spread: np.ndarray
    width: float
    budget: float
    returns: np.ndarray
    done: float
    tau: float
    horizon: int
    rate: float
    steps: int
    length: float
    kept: KeptEpisodes

    def policy(self, rng: np.random.Generator | None = None) -> ActorPolicy:
        """The likeliest actions; with rng, drawn ones."""
        layers = tuple((w[0], b[0]) for w, b in layer_views(self.actor.weights, self.actor.sizes))
        about = (self.centre, self.spread, self.width, self.budget)
        return ActorPolicy(layers, *about, self.horizon, rng)

    def explorer(self, rng: np.random.Generator) -> Policy:
        """Drawn actions."""
        return self.policy(rng)

    @property
    def portion(self) -> int:
        """Episodes between two updates."""
        return max(round(self.steps / self.length), 1)

    def practised(self, played: PlayedEpisodes, rng: np.random.Generator) -> FittedGradient:
        """After an update with these episodes, which its explorer played."""
        features = played.observations[np.delete(played.seen, np.cumsum(played.lengths) + np.arange(played.n))]
        z = self._seen(features, played.step_numbers(), self._worths(played.rewards, played.lengths)[0])
        chances = chances_of(self.actor, z, played.actions)
        kept = self.kept.with_portion(features, played.actions, played.rewards, chances, played.lengths)
        budgets, worth = self._worths(kept.rewards, kept.lengths)
        z = self._seen(kept.features, kept.step_numbers(), budgets)
        steps = PracticeSteps(z, kept.actions, worth, np.cumsum(kept.lengths) - 1, kept.chances)
        rate = self.rate * (1.0 - (1.0 - LAST_RATE) * self.done)
        actor, critic = practise(self.actor, self.critic, steps, rate, rng)
        count = max(int(TAIL / self.tau), UPDATES * played.n)
        returns = np.concatenate([self.returns, played.returns()])[-count:]
        length = 0.5 * self.length + 0.5 * float(played.lengths.mean())
        found = replace(self, actor=actor, critic=critic, returns=returns, length=length, kept=kept)
        return replace(found, budget=float(np.quantile(returns, self.tau)))

    def _worths(self, rewards: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Budgets [T] before steps of episodes that begin with the present one, and what the steps are worth [T]."""
        kappa = 1.0 - (1.0 - LAST_KAPPA) * min(self.done / FALLEN, 1.0) if self.tau < 1.0 else 1.0
        return step_worths(rewards, lengths, self.budget, self.tau, kappa)

    def _seen(self, features: np.ndarray, step: np.ndarray, budgets: np.ndarray) -> np.ndarray:
        """What the networks see, [T, m + 2]."""
        return actor_input(features, step / self.horizon, budgets, self.centre, self.spread, self.width)

    @property
    def promise(self) -> float:
        """The CVaR of its last episodes, which had drawn actions."""
        return cvar(self.returns, self.tau)

    def outputs(self) -> list[CandidateOutput]:
        """The likeliest actions."""
        return [CandidateOutput("gradient", self.policy(), self.promise)]

    @property
    def supersedes(self) -> bool:
        """An update may lose what was found."""
        return False

    def about(self) -> str:
        """How far it is."""
        return f"gradient, {self.actor.adam.steps} steps, CVaR of its last episodes {self.promise:.4g}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Networks, what they see, and where the training stands."""
        arrays = {"centre": self.centre, "spread": self.spread, "returns": self.returns}
        arrays["numbers"] = np.array(
            [self.width, self.budget, self.critic.centre, self.critic.scale, self.done, self.length]
        )
        for name, one in (("actor", self.actor), ("critic", self.critic.training)):
            arrays |= {f"{name}.weights": one.weights}
            arrays |= {f"{name}.{key}": array for key, array in one.adam.to_arrays().items()}
        return arrays | self.kept.to_arrays()


@dataclass(frozen=True)
class GradientCandidate(Checked):
    """Policy gradient as a candidate."""

    hidden: tuple[int, ...] = setting(
        (64, 64), kind=tuple, check=layer_sizes, name="gradient_hidden", help="Sizes of the layers of the gradient."
    )
    rate: float = setting(
        3e-4, kind=float, check=checks.positive, name="gradient_rate", metavar="R", help="Adam's rate of the gradient."
    )
    steps: int = setting(
        1024, kind=int, least=2, name="gradient_steps", metavar="N", help="Steps of an update of the gradient, about."
    )

    def fit(self, data: FitData, rng: np.random.Generator, before: FittedGradient | None = None) -> FittedGradient:
        """What the last updates left, with the scale of all episodes; random episodes alone are a first update."""
        played = data.played
        if before is None:
            fresh = self._fresh(data, rng)
            return fresh.practised(played, rng) if data.random else fresh
        around, width = standard(played.features), _width(played.returns())
        known = before.width if before.width >= NARROW * width else width
        actor, critic = before.actor.copy(0.0), replace(before.critic, training=before.critic.training.copy(0.0))
        for one in (actor, critic.training):
            layers = layer_views(one.weights, one.sizes)
            restandardise(layers, _all_inputs(before.centre, before.spread, known), _all_inputs(*around, width))
        found = replace(before, actor=actor, critic=critic, width=width, done=data.done)
        return replace(found, centre=around[0], spread=around[1])

    def _fresh(self, data: FitData, rng: np.random.Generator) -> FittedGradient:
        played, returns = data.played, data.played.returns()
        sizes = (played.n_features + 2, *self.hidden)
        actor, critic = (TanhTraining.begun((*sizes, k), g, rng) for k, g in ((data.n_actions, 0.01), (1, 1.0)))
        budget, length = float(np.quantile(returns, data.tau)), float(played.lengths.mean())
        centre, spread = standard(played.features)
        return FittedGradient(
            actor,
            Critic(critic),
            centre,
            spread,
            _width(returns),
            budget,
            returns,
            data.done,
            data.tau,
            played.horizon,
            self.rate,
            self.steps,
            length,
            KeptEpisodes.none(played.n_features),
        )

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedGradient:
        """The networks in a checkpoint."""
        described = {"centre": "float64 [m]", "spread": "float64 [m] > 0", "returns": "float64 [n]"}
        described |= {"numbers": "float64 [6]", "actor.weights": "float32 [1, P]", "critic.weights": "float32 [1, Q]"}
        check_arrays({name: arrays[name] for name in described}, described, m=data.played.n_features)
        fresh = self._fresh(data, rng)
        width, budget, mean, scale, done, length = (float(x) for x in arrays["numbers"])
        trained = []
        for name, one in (("actor", fresh.actor), ("critic", fresh.critic.training)):
            weights = arrays[f"{name}.weights"]
            if weights.shape != one.weights.shape:
                raise checks.InputError("gradient: the networks of the checkpoint do not fit")
            own = {key.removeprefix(f"{name}."): x for key, x in arrays.items() if key.startswith(f"{name}.adam.")}
            trained.append(replace(one, weights=weights, adam=one.adam.from_arrays(own)))
        kept = KeptEpisodes.from_arrays(arrays, fresh.centre.size)
        found = replace(fresh, actor=trained[0], critic=Critic(trained[1], mean, scale), kept=kept, width=width)
        found = replace(found, centre=arrays["centre"], spread=arrays["spread"], returns=arrays["returns"])
        return replace(found, budget=budget, done=done, length=length)


def _all_inputs(centre: np.ndarray, spread: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread [m + 2] of what the networks see: features [m], the time, the budget."""
    return np.append(centre, [0.5, 0.0]), np.append(spread, [0.5, width])


def _width(returns: np.ndarray) -> float:
    """How far returns [n] spread; a little where they are all the same."""
    return max(float(returns.std()), 1e-6 * abs(float(returns.mean()))) or 1e-6
