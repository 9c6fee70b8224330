"""What a policy is worth by a risk measure: from its return law, or from played returns."""

from __future__ import annotations

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.planning.exact.context import SolveContext
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.objectives.optimise import hidden
from tailrank.policies.tables import MixedPolicy, Policy
from tailrank.risk.intervals import ConfidenceInterval
from tailrank.risk.law import ReturnLaw
from tailrank.risk.measures.base import Measure

RESAMPLES = 500


def value_of_policy(measure: Measure, policy: Policy, mdp: FiniteMDP) -> tuple[float, ConfidenceInterval]:
    """The measure of a policy's return in a known MDP, and bounds on it: equal, or apart by what rounding hides."""
    found = return_law(policy, mdp)
    value = measure.of_law(found.law)
    if found.exact:
        return value, ConfidenceInterval(value, value, 1.0, "exact")
    grid = (policy.first if isinstance(policy, MixedPolicy) else policy).grid  # type: ignore[attr-defined]
    off = hidden(SolveContext.of(mdp), grid)
    low, high = (measure.of_law(ReturnLaw.of(found.law.values + shift, found.law.probs)) for shift in (-off, off))
    return value, ConfidenceInterval(low, high, 1.0, "certified")


def value_of_returns(
    measure: Measure, law: ReturnLaw, episodes: int, confidence: float, rng: np.random.Generator
) -> tuple[float, ConfidenceInterval]:
    """The measure of the empirical `law` of so many returns, and a percentile bootstrap, which is approximate."""
    counts = rng.multinomial(episodes, law.probs, size=RESAMPLES)
    again = [measure.of_law(ReturnLaw.of(law.values[n > 0], n[n > 0] / episodes)) for n in counts]
    low, high = np.quantile(again, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return measure.of_law(law), ConfidenceInterval(float(low), float(high), confidence, "percentile")
