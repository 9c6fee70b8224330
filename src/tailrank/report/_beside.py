"""What the page shows of a policy on observations: others beside it, what it does where, and episodes step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.report._levels import pack, pack_law
from tailrank.report.problem import LAW_VALUES
from tailrank.risk.law import ReturnLaw
from tailrank.runs.beside import Beside

NAMES = {"uniform": "Uniform actions", "neutral": "Plan for the mean"}
BINS, MOST_FEATURES = 12, 6
MOST_LINES = 4
"""Coordinates of observations that are drawn along episodes."""
MOST_POINTS = 400
"""Steps of an episode at which they are drawn: all, or every second, third, ... (`stride`)."""
FEWEST = 50
"""Steps below which nothing is said about what the policy does where."""


def beside_data(beside: Beside | None, levels: tuple[float, ...]) -> dict[str, Any]:
    """The parts `beside`, `watched`, `played` and `observed` (which coordinates of the observations are shown along the
    episodes) of a policy; None where there is nothing."""
    if beside is None:
        return {"beside": [], "watched": None, "played": None, "observed": [], "stride": 1}
    others = [
        {"name": NAMES[name], "law": pack_law(ReturnLaw.of(returns), levels, LAW_VALUES) | _sample(returns)}
        for name, returns in beside.others.items()
    ]
    watched = _watched(beside)
    told = [one["feature"] for one in watched["features"]] if watched else list(range(beside.seen.shape[1]))
    shown, stride = told[:MOST_LINES], 1 + beside.actions.shape[1] // MOST_POINTS
    kept = [
        {
            "rewards": pack(beside.rewards[e, :steps]),
            "actions": beside.actions[e, :steps].tolist(),
            "seen": [pack(beside.observations[e, : steps + 1 : stride, j]) for j in shown],
        }
        for e, steps in enumerate(beside.lengths)
    ]
    return {"beside": others, "watched": watched, "played": kept, "observed": shown, "stride": stride}


def _sample(returns: np.ndarray) -> dict[str, Any]:
    return {"method": "sample", "episodes": int(returns.size), "interval": None}


def _watched(beside: Beside) -> dict[str, Any] | None:
    """How often each action was played where a feature lay in a range, for the features that tell most about it."""
    if beside.played.size < FEWEST:
        return None
    A = int(beside.played.max()) + 1
    found = []
    for j, values in enumerate(beside.seen.T):
        edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)))
        if edges.size < 2:
            continue
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
        counts = np.bincount(place * A + beside.played, minlength=(edges.size - 1) * A).reshape(-1, A)
        found.append((information(counts), j, edges, counts))
    found.sort(key=lambda one: (-one[0], one[1]))
    features = [
        {"feature": j, "edges": pack(edges), "counts": counts.tolist(), "bits": round(bits, 3)}
        for bits, j, edges, counts in found[:MOST_FEATURES]
    ]
    return {"steps": int(beside.played.size), "n_actions": A, "features": features} if features else None


def information(counts: np.ndarray) -> float:
    """Bits that the row says about the column of a table of counts (mutual information).

    >>> information(np.array([[5, 0], [0, 5]])), information(np.array([[5, 5], [5, 5]]))
    (1.0, 0.0)
    """
    joint = counts / counts.sum()
    free = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return float((joint[some] * np.log2(joint[some] / free[some])).sum())
