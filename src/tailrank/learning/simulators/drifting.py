"""Rewards that change with the step: a goal that pays less the later it is reached.

Transitions that are alike but for the step h and the reward r make a cell c, and r is predicted by the line

    mean r_c + s_c (h - mean h_c),      s_c = (S_hr + w s) / (S_hh + w),      S: sums of products of deviations in c

s is the slope of all cells whose rewards vary, w their mean squared deviation of a step: one transition's worth. A cell
that paid the same at different steps has no slope. One that was seen at a single step has s, unless it paid what is
known to stay. Lines are taken where they predict the rewards of episodes that were held out clearly better than the
means: rewards may be rare, so that only cells whose rewards vary, and episodes that met one, have a say.

Where no two transitions are alike, or too few of them, all rewards that were never paid at two steps make one cell, and
lie on its line but for next to nothing: a handful of them would not by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailrank.learning.simulators.counted import numbers
from tailrank.learning.simulators.played import PlayedTransitions

FOLDS = 20
"""Parts of the episodes that have a say: of many successes after the same wait few tell the slope."""
FEWEST, SURE = 6, 3.0
"""Episodes that have a say, at least, and how many standard errors what the lines gain must be."""
LEFT, EXACT = 0.5, 0.01
"""Of the squared errors of the means, those of the lines are less than this share; than the other one, where all
rewards are in one cell."""
SAME = 1e-6
"""Rewards differ by more than this share of the largest."""


@dataclass(frozen=True)
class Lines:
    """Lines of cells [C]: how many transitions each has, the means of the step and of the reward, and the slope."""

    n: np.ndarray
    step: np.ndarray
    reward: np.ndarray
    slope: np.ndarray

    @classmethod
    def of(cls, cell: np.ndarray, step: np.ndarray, rewards: np.ndarray, cells: int, same: float) -> Lines:
        """From transitions [T] in so many cells; same: rewards differ where they do by more."""
        n, steps, paid = (np.bincount(cell, weights=x, minlength=cells) for x in (np.ones(cell.size), step, rewards))
        h, r = (x / np.maximum(n, 1.0) for x in (steps, paid))
        late, more = step - h[cell], rewards - r[cell]
        hh, hr = (np.bincount(cell, weights=x, minlength=cells) for x in (late**2, late * more))
        varied = np.bincount(cell, weights=np.abs(more) > same, minlength=cells) > 0
        moved = hh > 1e-9
        total = float(hh[varied].sum())
        shared = float(hr[varied].sum()) / total if total > 0 else 0.0
        one = total / max(float(n[varied].sum()), 1.0)
        own = (hr + one * shared) / np.maximum(hh + one, 1e-12)
        stays = np.unique(np.round(r[moved & ~varied] / same))
        alone = np.where(np.isin(np.round(r / same), stays), 0.0, shared)
        return cls(n, h, r, np.where(varied, own, np.where(moved, 0.0, alone)))


def drifting(data: PlayedTransitions, cell: np.ndarray | None = None) -> PlayedTransitions:
    """The transitions with what their rewards change by, where anything shows that they do (see `reward_drift`)."""
    drift, unit = reward_drift(data, cell), _same(data.rewards)
    if not drift.any():
        return data
    # Rewards on one line are then the same to the last bit.
    first = unit * np.round((data.rewards - drift * data.step) / unit)
    return replace(data, rewards=np.where(drift == 0, data.rewards, first), drift=drift)


def reward_drift(data: PlayedTransitions, cell: np.ndarray | None = None) -> np.ndarray:
    """How much the reward of each transition [T] changes with the step, 0 where nothing shows that it does.

    cell [T]: numbers, the same for transitions that are alike (None: no two are). Those that ended the episode are
    judged by themselves.
    """
    drift, same = np.zeros(data.n), _same(data.rewards)
    for kind in (data.ended, ~data.ended):
        rows = np.flatnonzero(kind)
        if rows.size == 0:
            continue
        step, rewards = data.step[rows].astype(np.float64), data.rewards[rows]
        ways = [] if cell is None else [(numbers(cell[rows]), LEFT)]
        for cells, left in (*ways, (_by_value(step, rewards, same), EXACT)):
            if _better(cells, step, rewards, data.episode[rows], same, left):
                drift[rows] = Lines.of(cells, step, rewards, int(cells.max()) + 1, same).slope[cells]
                break
    return drift


def _by_value(step: np.ndarray, rewards: np.ndarray, same: float) -> np.ndarray:
    """Cells of rewards that were paid at different steps, one for each; all others are in one cell."""
    value = numbers(np.round(rewards / same))
    first, last = np.full(value.max() + 1, np.inf), np.full(value.max() + 1, -np.inf)
    np.minimum.at(first, value, step)
    np.maximum.at(last, value, step)
    return numbers(np.where((last > first)[value], value, -1))


def _better(
    cell: np.ndarray,
    step: np.ndarray,
    rewards: np.ndarray,
    episode: np.ndarray,
    same: float,
    left: float,
) -> bool:
    """Whether lines predict the rewards of held-out episodes better than means, with less than a share `left` of the
    errors."""
    away = np.abs(rewards - Lines.of(cell, step, rewards, int(cell.max()) + 1, same).reward[cell]) > same
    varied = np.bincount(cell, weights=away)[cell] > 0
    if not varied.any():
        return False
    cell, step, rewards, episode = (x[varied] for x in (cell, step, rewards, episode))
    named = np.unique(episode, return_inverse=True)[1].ravel()
    fold = np.random.default_rng(0).permutation(int(named.max()) + 1)[named] % FOLDS
    plain, lined = np.zeros(cell.size), np.zeros(cell.size)
    for held in (fold == k for k in range(FOLDS)):
        found = Lines.of(cell[~held], step[~held], rewards[~held], int(cell.max()) + 1, same)
        at = cell[held]
        known, means = found.n[at] > 0, found.reward[at]
        lines = means + found.slope[at] * (step[held] - found.step[at])
        plain[held], lined[held] = (np.where(known, (rewards[held] - x) ** 2, 0.0) for x in (means, lines))
    matters = np.maximum(plain, lined) > same**2
    if not matters.any():
        return False
    named = np.unique(episode[matters], return_inverse=True)[1].ravel()
    of_means, of_lines = (np.bincount(named, weights=x[matters]) for x in (plain, lined))
    if named.max() + 1 < FEWEST or of_lines.sum() >= left * of_means.sum():
        return False
    gains = (of_means - of_lines) / (of_means + of_lines)
    return bool(gains.mean() > SURE * gains.std(ddof=1) / np.sqrt(gains.size))


def _same(rewards: np.ndarray) -> float:
    return SAME * max(float(np.abs(rewards).max(initial=0.0)), 1e-300)
