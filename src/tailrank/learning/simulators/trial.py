"""The trial of candidates: what plays for each of them, and who is given up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tailrank.episodes.rollout import Observed
from tailrank.learning.search.judging import weighed_cvar
from tailrank.learning.simulators.candidates import CandidateOutput, FittedCandidate
from tailrank.learning.simulators.sharing import on_same_seeds


def tried_outputs(fitted: Sequence[FittedCandidate]) -> list[tuple[int, CandidateOutput]]:
    """What plays for each candidate, with its number: its first output and, where it has more, its last one.

    The first plan of a kernel model may believe in luck where the last one, the crossed plan, does not, or the other
    way round; either would be handed out.
    """
    found = [(i, fit.outputs()) for i, fit in enumerate(fitted)]
    return [(i, outputs[place]) for i, outputs in found for place in sorted({0, len(outputs) - 1}) if outputs]


def all_but_the_worst(
    owners: Sequence[int], batches: Sequence[Observed], n: int, tau: float, candidates: int
) -> tuple[list[int], list[float]]:
    """The candidates but the one with the worst score, and the scores of all that was played on n seeds.

    owners: whose output each batch is of, of so many candidates; the better of its outputs counts for a candidate. One
    that has nothing to hand out is the worst.
    """
    scores = [weighed_cvar(row, np.zeros(0), tau) for row in on_same_seeds(batches, n)]
    own = [[score for mine, score in zip(owners, scores, strict=True) if mine == i] for i in range(candidates)]
    best = [max(mine, default=-np.inf) for mine in own]
    worst = len(best) - 1 - int(np.argmin(best[::-1]))
    return [i for i in range(len(best)) if i != worst], scores
