"""Search as a candidate: a policy with few parameters, improved by the cross-entropy method in a model of trees.

    a(x, h) = argmax_a theta_a . (x, h/H, 1),        x standardised

In each round P policies are drawn around the mean of the best of the round before and play the same episodes of the
model; their score is the mean of the lowest share of the returns, a share that goes from 1 (or, after the first fit,
from the root of tau) down to tau: in the tail alone all policies that know little look the same (Greenberg et al.
2022). Values of a plan are interpolated, and where a single action hardly matters, as in balancing, the differences
between actions drown in the error of that; a policy is compared by whole episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank._system.settings import Checked, setting, share
from tailrank._system.telling import tell
from tailrank.learning.search.exploring import PerturbedPolicy
from tailrank.learning.search.model import TreeModel
from tailrank.learning.simulators.candidates import CandidateOutput, FitData
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.policies.softmax import Network, SoftmaxPolicy
from tailrank.policies.tables import Policy
from tailrank.risk.law import cvar

BEST = 0.25
"""Share of the policies of a round that the next one is drawn around."""
CROWD, MOST_CROWD = 2.5, 4
"""Policies of a round for each parameter; at most so many times as many as the setting says."""
AGAIN = 0.3
"""A fit begins with at least this deviation, as a share of the size of the parameters."""
MOST_PARAMETERS = 400
"""Where a policy has more, the search has no chance."""
PROMISED = 500
"""Episodes of the model that a promise is made of."""


@dataclass(frozen=True)
class FittedSearch:
    """mean, deviation [A, m + 2] of the parameters; centre, spread [m] of the features; the promise of the mean."""

    mean: np.ndarray
    deviation: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    promise: float
    horizon: int
    epsilon: float

    def policy(self, theta: np.ndarray) -> SoftmaxPolicy:
        """The policy with parameters theta [A, m + 2], on features."""
        H, m = self.horizon, self.centre.size
        head = (theta[:, :m] / self.spread).T
        shift = theta[:, m + 1] - self.centre @ head + np.outer(np.arange(H) / H, theta[:, m])
        return SoftmaxPolicy(Network((), np.tile(head, (H, 1, 1)), shift))

    def explorer(self, rng: np.random.Generator) -> Policy:
        """The mean, and policies around it as wide as the next fit begins."""
        around = (self.mean, wide_enough(self.mean, self.deviation), self.centre, self.spread)
        return PerturbedPolicy(*around, self.horizon, self.epsilon, rng)

    def outputs(self) -> list[CandidateOutput]:
        """The mean."""
        return [CandidateOutput("search", self.policy(self.mean), self.promise)]

    @property
    def supersedes(self) -> bool:
        """A search may lose what it had found."""
        return False

    def about(self) -> str:
        """How far it is."""
        return f"search over {self.mean.size} parameters, promise {self.promise:.4g}"

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The parameters."""
        return {"mean": self.mean, "deviation": self.deviation, "promise": np.array([self.promise])} | {
            "centre": self.centre,
            "spread": self.spread,
        }

    def around(self, centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The mean [A, m + 2] for features with another centre and spread."""
        m, theta = self.centre.size, self.mean.copy()
        theta[:, m + 1] += theta[:, :m] @ ((centre - self.centre) / self.spread)
        theta[:, :m] *= spread / self.spread
        return theta


@dataclass(frozen=True)
class SearchCandidate(Checked):
    """Search as a candidate."""

    policies: int = setting(40, kind=int, least=8, metavar="N", help="Policies of a round of the search, at least.")
    model_episodes: int = setting(40, kind=int, least=10, metavar="N", help="Episodes of each in the model, at most.")
    rounds: int = setting(20, kind=int, least=1, metavar="N", help="Rounds of a fit, at most.")
    model_steps: int = setting(3_000_000, kind=int, least=1000, metavar="N", help="Steps in the model of a fit, about.")
    transitions: int = setting(
        200_000, kind=int, least=100, name="search_transitions", metavar="N", help="Transitions of the model, at most."
    )
    epsilon: float = share(
        0.05, name="search_epsilon", help="Share of random actions in the exploration of the search."
    )

    def suits(self, n_features: int, n_actions: int) -> bool:
        """Whether there are few enough parameters."""
        return n_actions * (n_features + 2) <= MOST_PARAMETERS

    def crowd(self, parameters: int) -> tuple[int, int]:
        """Policies of a round and episodes of each: more parameters need more of the first, with as many in all."""
        n = min(max(int(CROWD * parameters), self.policies), MOST_CROWD * self.policies)
        return n, max(self.policies * self.model_episodes // n, 10)

    def fit(self, data: FitData, rng: np.random.Generator, before: FittedSearch | None = None) -> FittedSearch:
        """The search goes on from the last fit, in a new model."""
        played, n_actions, tau = data.played, data.n_actions, data.tau
        model = TreeModel.of(played, played.transitions(self.transitions, rng), n_actions)
        m = model.centre.size
        if before is None:
            mean, deviation, widest = np.zeros((n_actions, m + 2)), np.ones((n_actions, m + 2)), 1.0
        else:
            mean = before.around(model.centre, model.spread)
            deviation, widest = wide_enough(mean, before.deviation), np.sqrt(tau)
        policies, episodes = self.crowd(mean.size)
        taken, i, most = 0, 0, self.rounds
        while i < most:
            tell(i, most, "rounds of a search")
            share = widest * (tau / widest) ** min(i / max(0.6 * (most - 1), 1.0), 1.0)
            theta = mean + deviation * rng.normal(size=(policies, *mean.shape))
            theta[0] = mean
            returns, steps = model.returns(theta, episodes, rng)
            score = [cvar(row, share) for row in returns]
            best = theta[np.argsort(score)[::-1][: max(int(BEST * policies), 2)]]
            mean, deviation = best.mean(axis=0), best.std(axis=0) + 1e-3 * deviation
            i, taken = i + 1, taken + steps
            most = min(self.rounds, max(int(self.model_steps * i / taken), 3))
        promise = cvar(model.returns(mean[None], PROMISED, rng)[0][0], tau)
        return self._fitted(mean, deviation, model.centre, model.spread, promise, played)

    def _fitted(
        self,
        mean: np.ndarray,
        deviation: np.ndarray,
        centre: np.ndarray,
        spread: np.ndarray,
        promise: float,
        played: PlayedEpisodes,
    ) -> FittedSearch:
        return FittedSearch(mean, deviation, centre, spread, promise, played.horizon, self.epsilon)

    def restored(self, arrays: dict[str, np.ndarray], data: FitData, rng: np.random.Generator) -> FittedSearch:
        """The fit in a checkpoint."""
        A, m = data.n_actions, data.played.n_features
        described = {"mean": f"float64 [{A}, {m + 2}]", "deviation": f"float64 [{A}, {m + 2}] >= 0"}
        described |= {"centre": f"float64 [{m}]", "spread": f"float64 [{m}] > 0", "promise": "float64 [1] any"}
        check_arrays(arrays, described)
        mean, deviation, centre, spread = (arrays[name] for name in ("mean", "deviation", "centre", "spread"))
        return self._fitted(mean, deviation, centre, spread, float(arrays["promise"][0]), data.played)


def wide_enough(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The deviation, at least `AGAIN` times the size of the mean."""
    return np.asarray(np.maximum(deviation, AGAIN * max(float(np.sqrt((mean**2).mean())), 1e-6)))
