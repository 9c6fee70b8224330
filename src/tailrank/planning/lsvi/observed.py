"""CVaR-LSVI (Algorithm 2) in a model of latents that was counted from observations: the planner of ELLA there.

Rewards are learned too, and may depend on the next latent: what is counted is P(z', r | z, a). That joint law has low
rank (its psi_z' says what z' looks like), so Algorithm 2 applies to it as it stands, with V_{h+1}(x', c - r) as the
target; factored, V_{h+1}(x', c) is regressed on phi_h(x, a) = P(z' = . | x, a), and the known law of (z', r) is applied
afterwards. A state is what an observation tells: a latent for sure, or one of the observed mixtures q(x) of latents,
for which P(z', r | x, a) = sum_z q_z(x) P(z', r | z, a). An ended episode is a latent of its own that nothing leaves.

Departures: bonuses go on to the last step, since rewards are unknown. The plan that comes back acts on mixtures by
the mean of its latents' scores, in which the optimistic term is that of the latents. Where more starting budgets can
be reached than `budgets`, that many are tried, evenly spread; values between them are interpolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tailrank import checks
from tailrank._system.settings import changed
from tailrank.checks import InputError
from tailrank.models.goal import UnitGoal
from tailrank.models.latent_counts import LatentCounts
from tailrank.models.lowrank import draw
from tailrank.planning.lsvi.algorithm2 import CvarLsvi, LsviPlan
from tailrank.planning.lsvi.model import FeatureModel, view
from tailrank.planning.lsvi.settings import LsviSettings
from tailrank.planning.observed.planner import SURE
from tailrank.planning.observed.problem import CountedProblem
from tailrank.policies.observed import ObservedPlan

LARGEST = 2**28
"""Bytes of the table of laws."""
LAM = 0.1
"""Features are laws, so a visit of a pair with a sure outcome is worth 1; bonuses make values large, and a larger
lambda would pull them to 0 for many visits."""


class LatentModel:
    """Counted latents as a `FeatureModel`.

    States are points of their step: latent z = 0..K-1, K for ended, then the observations that are not sure.
    """

    def __init__(self, problem: CountedProblem) -> None:
        counts, horizon, zero, usual = problem.counts, problem.horizon, problem.zero, problem.usual
        K = counts.n_latents
        self.horizon, self.n_actions = horizon, counts.n_actions
        joint, untried = _shares(counts, int(max(usual.max(initial=0), zero)), problem.prior)
        tables: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
        self._law: list[np.ndarray] = []
        self._phi: list[np.ndarray] = []
        self._bonus: list[np.ndarray] = []
        for h in range(horizon):
            t = 0 if counts.steps == 1 else h
            live = np.flatnonzero(problem.present[h + 1]) if h < horizon - 1 else np.zeros(0, dtype=np.int64)
            key = np.array([t, usual[h], *live]).tobytes()
            if key not in tables:
                law = np.pad(joint[t], ((0, 1), (0, 0), (0, 0), (0, 0)))
                law[K, :, K, zero] = 1.0
                anywhere = np.zeros(law.shape[2:])
                anywhere[live if live.size else K, usual[h]] = 1.0 / max(live.size, 1)
                law[:K][untried[t]] = anywhere
                tables[key] = law, law.sum(axis=3)
            self._law.append(tables[key][0])
            self._phi.append(tables[key][1])
            self._bonus.append(np.pad(problem.bonus[t], ((0, 1), (0, 0))))
        shown = [None, *(problem.support or [None] * horizon)[1:]]
        self._mix = [None if one is None else one.mix for one in shown]
        # The laws of what each latent looks like: itself, or one of the mixtures; the end looks like itself.
        self._looks = [
            None if one is None else np.vstack([np.column_stack([one.sure, one.weights]), np.eye(1, 1 + len(one.mix))])
            for one in shown
        ]
        start = problem.start
        self._start = start.argmax(axis=1)
        unsure = start.max(axis=1) < 1 - SURE
        if unsure.any():
            self._start[unsure], self._mix[0] = K + 1 + np.arange(unsure.sum()), start[unsure]
        elif (self._start == self._start[0]).all():
            self._start = self._start[:1]

    def rank(self, h: int) -> int:
        """d: the latents that may follow, and the end."""
        return int(self._phi[h].shape[2])

    def start(self) -> np.ndarray:
        """The points of the first observations."""
        return self._start

    def reward_laws(self, h: int, states: np.ndarray) -> np.ndarray:
        """P(z', r | x, a), [n, A, K + 1, nr]."""
        return self._at(h, self._law[h], states)

    def features(self, h: int, states: np.ndarray) -> np.ndarray:
        """P(z' | x, a), [n, A, K + 1]."""
        return self._at(h, self._phi[h], states)

    def bonus(self, h: int, states: np.ndarray) -> np.ndarray:
        """Bonuses [n, A] in units."""
        return self._at(h, self._bonus[h], states)

    def sample_latent(self, h: int, latent: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Points [n] of step h + 1 that look like these latents [n]."""
        looks = self._looks[h + 1]
        if looks is None:
            return latent
        point = draw(looks[latent], rng)
        return np.where(point == 0, latent, len(looks) - 1 + point)

    def _at(self, h: int, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        """A table [K + 1, ...] at the points [n] of step h; mixed where they are not sure."""
        mix = self._mix[h]
        if mix is None:
            return rows[points]
        every = np.vstack([np.eye(len(rows)), np.pad(mix, ((0, 0), (0, 1)))])
        return np.tensordot(every[points], rows, 1)


def _shares(counts: LatentCounts, top: int, prior: float) -> tuple[np.ndarray, np.ndarray]:
    """P(z', r | z, a), [steps, K, A, K + 1, nr], mixed with that of the latent; which pairs [steps, K, A] have none."""
    ptr, after, units, count = counts.outcomes()
    shape = (counts.steps, counts.n_latents, counts.n_actions, counts.n_latents + 1, max(units.max(initial=0), top) + 1)
    if math.prod(shape) * 8 > LARGEST:
        raise InputError(f"algorithm = 'ella': {shape[1]} latents with {shape[4]} rewards are too many; use ela")
    law = np.zeros((ptr.size - 1, *shape[3:]))
    law[np.repeat(np.arange(ptr.size - 1), np.diff(ptr)), after, units] = count
    law = law.reshape(shape)
    tried = law.sum(axis=(3, 4), keepdims=True)
    if prior > 0.0:
        pooled = law.sum(axis=2, keepdims=True) / np.maximum(tried.sum(axis=2, keepdims=True), 1e-300)
        law = np.where(tried > 0, (law + prior * pooled) / (tried + prior), 0.0)
    else:
        law /= np.maximum(tried, 1e-300)
    return law, tried[..., 0, 0] == 0


@dataclass(frozen=True)
class LatentLsvi(LsviSettings):
    """CVaR-LSVI in the place of `plan_observed`; at most so many starting `budgets` are tried.

    Random numbers are keyed by `seed` and the data, so that the plan of a model is always the same.
    """

    beta: float = changed(LsviSettings, "beta", 1.0, kw_only=False)
    budgets: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole(self.budgets, "budgets", 2)

    def planned(
        self, model: FeatureModel, most: int, top: int, cap: float, tau: float, key: int, goal: UnitGoal | None = None
    ) -> LsviPlan:
        """The plan from the best starting budget in 0..most. top: the largest reward, cap: the largest bonus, in
        units; key: of the random numbers, beside the seed; goal: another objective than CVaR."""
        every = np.arange(most + 1) if goal is None else goal.starts
        tried = every[np.unique(np.linspace(0, every.size - 1, min(every.size, self.budgets)).round().astype(int))]
        rng = np.random.default_rng([self.seed, key])
        scale, variant = self.beta * top, self.variant
        algorithm = CvarLsvi(self.iterations, self.evaluations, scale, LAM, self.clip, cap, variant, quiet=0)
        return algorithm.plan(model, tried.tolist(), tau=tau, rng=rng, skip=True, goal=goal)

    def __call__(self, problem: CountedProblem) -> ObservedPlan:
        """The plan of the counted model, see `plan_observed`; it knows no caution, and estimates have no ties."""
        if problem.caution > 0.0:
            raise InputError(f"caution = {problem.caution}: is for the exact planner, CVaR-LSVI has none")
        counts, model = problem.counts, LatentModel(problem)
        units = model.horizon * (int(model.reward_laws(0, model.start()).shape[-1]) - 1)
        aim = None if problem.goal is None else problem.goal(units)
        cap, key = float(problem.bonus.max(initial=0.0)), int(counts.counts.sum())
        found = self.planned(model, int(problem.most[0]), counts.top, cap, problem.tau, key, aim)
        K, left = counts.n_latents, np.arange(found.budget + 1)
        values = []
        for h in range(problem.horizon):
            seen = view(model, h, np.arange(K))
            values.append(np.stack([found.policy.scores(h, seen, np.full(K, c)) for c in left], axis=2))
        curve = np.interp(left, found.budgets, found.values)
        return ObservedPlan(tuple(values), found.budget, float(found.objective.max()), curve)
