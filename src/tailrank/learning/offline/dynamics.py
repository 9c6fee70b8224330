"""Whether outcomes depend on the step: held-out likelihood of both models.

One half of the episodes is counted, the other is predicted. *same*: an outcome o of a pair has the chance
(n_o + u / 2) / (N + 1/2), where u is one over the number of outcomes that the log has at all. *by step*: the counts of
the pair at that step alone, which begin as one observation with the chances of *same*. The second wins where outcomes
differ between steps by more than counting less costs.
"""

from __future__ import annotations

import numpy as np

from tailrank.envs.logs.log import EpisodeLog


def held_out(log: EpisodeLog, rng: np.random.Generator) -> dict[str, float]:
    """Mean log-likelihood of a transition that was not counted, of both models; equal where there is nothing to count.

    The last step is left out: what comes after it is often not in a log, which is no sign of other dynamics.
    """
    nothing = {"same": 0.0, "by_step": 0.0}
    pair = log.state.astype(np.int64) * len(log.actions) + log.action
    values, reward = np.unique(log.reward, return_inverse=True)
    kinds, outcome = np.unique((log.next_state.astype(np.int64) + 1) * values.size + reward, return_inverse=True)
    first = np.zeros(log.episodes, dtype=bool)
    first[rng.permutation(log.episodes)[: log.episodes // 2]] = True
    inner = log.step < log.horizon - 1
    counted = np.repeat(first, log.lengths) & inner
    asked = ~np.repeat(first, log.lengths) & inner
    if not counted.any() or not asked.any():
        return nothing
    timed = pair * log.horizon + log.step
    same = _chance(pair, outcome, kinds.size, counted, asked, np.full(int(asked.sum()), 1.0 / kinds.size), 0.5)
    by_step = _chance(timed, outcome, kinds.size, counted, asked, same, 1.0)
    return {"same": float(np.log(same).mean()), "by_step": float(np.log(by_step).mean())}


def _chance(
    group: np.ndarray,
    outcome: np.ndarray,
    kinds: int,
    counted: np.ndarray,
    asked: np.ndarray,
    prior: np.ndarray,
    weight: float,
) -> np.ndarray:
    """Predicted chance of each asked outcome, from those counted and `weight` observations of its prior chance."""
    both = group * kinds + outcome
    times, among = (_times(keys[counted], keys[asked]) for keys in (both, group))
    return (times + weight * prior) / (among + weight)


def _times(keys: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How often each asked key [m] is among keys [n]."""
    ordered = np.sort(keys)
    return (np.searchsorted(ordered, asked, "right") - np.searchsorted(ordered, asked, "left")).astype(np.float64)
