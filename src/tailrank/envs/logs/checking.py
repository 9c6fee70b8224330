"""What a table of episodes holds, before time is spent on it: sizes, ends, coverage, and whether it drifts.

Drift compares the first half of the episodes with the second: returns by the test of Kolmogorov and Smirnov, outcomes
of pairs by a chi-squared test over all pairs, rare outcomes taken together. Small chances of so much difference by
chance are warnings: a log whose process changes is no log of one process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.envs.logs.log import EpisodeLog

SMALL = 0.001
"""A chance below which a difference is called drift."""
ENOUGH = 5.0
"""Expected counts below which a cell is left out of the test."""
FEW = 10


def log_facts(log: EpisodeLog) -> dict[str, Any]:
    """Facts as plain data."""
    lengths, returns = log.lengths, log.returns()[log.whole]
    facts: dict[str, Any] = {
        "episodes": log.episodes,
        "transitions": log.transitions,
        "horizon": log.horizon,
        "lengths": [int(lengths.min()), float(lengths.mean()), int(lengths.max())],
        "actions": len(log.actions),
        "rewards": [float(log.reward.min()), float(log.reward.max())],
        "ended": int((log.next_state == len(log.states)).sum()),
        "cut": int(log.cut.sum()),
        "probabilities": log.probability is not None,
        "admissible": log.admissible is not None,
    }
    if returns.size:
        facts["returns"] = [float(returns.min()), float(returns.mean()), float(returns.max())]
    if log.observation is not None:
        return facts | {"observations": int(log.observation.shape[1])}
    S, A = len(log.states), len(log.actions)
    seen = np.bincount(log.state.astype(np.int64) * A + log.action, minlength=S * A)
    facts |= {
        "states": S,
        "pairs": S * A,
        "pairs_seen": int((seen > 0).sum()),
        "pairs_rare": int(((seen > 0) & (seen < FEW)).sum()),
    }
    return facts | {"drift": drift(log)}


def findings(log: EpisodeLog, facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(level, what, advice) for the user, as the other checks have them."""
    what = (
        "observations of {} numbers".format(facts["observations"])
        if "observations" in facts
        else f"{facts['states']} states"
    )
    found = [
        (
            "ok",
            f"a log of {log.episodes} episodes, {log.transitions} transitions, at most {log.lengths.max()} steps, "
            f"{what}, {len(log.actions)} actions, rewards {facts['rewards'][0]:g}..{facts['rewards'][1]:g}",
            f"`tailrank learn-logs {log.name}`",
        ),
        ("ok", "no gaps and no duplicates in the steps", ""),
    ]
    found += [("note", line, "") for line in log.notes]
    if facts["cut"]:
        found.append(
            ("warning", f"{facts['cut']} returns are censored: their episodes are truncated", "they count as the worst")
        )
    if "pairs" in facts:
        share = facts["pairs_seen"] / facts["pairs"]
        text = f"{facts['pairs_seen']} of {facts['pairs']} pairs of state and action are there ({share:.0%})"
        text += f", {facts['pairs_rare']} of them fewer than {FEW} times"
        found.append(("note" if share > 0.5 else "warning", text, ""))
        for name, chance in facts["drift"].items():
            if chance < SMALL:
                text = f"{name} of the first and the second half of the episodes differ (by chance: {chance:.2g})"
                found.append(("warning", text, "learn from the part that is like the future"))
    if not facts["probabilities"]:
        found.append(("note", "no probabilities of the actions: off-policy estimates will use frequencies", ""))
    return found


def drift(log: EpisodeLog) -> dict[str, float]:
    """The chance of so much difference between the halves if there is none: of returns, and of outcomes."""
    from scipy.stats import chi2, ks_2samp

    middle = log.episodes // 2
    if middle < 2:
        return {}
    returns = log.returns()
    result = {"returns": float(ks_2samp(returns[:middle], returns[middle:], method="asymp").pvalue)}
    pair = log.state.astype(np.int64) * len(log.actions) + log.action
    inner = log.next_state >= 0
    values, reward = np.unique(log.reward, return_inverse=True)
    if values.size > 1000:
        return result
    cells, cell = np.unique(np.stack([pair[inner], log.next_state[inner], reward[inner]]), axis=1, return_inverse=True)
    late = np.arange(log.transitions)[inner] >= log.begin[middle]
    table = np.stack([np.bincount(cell.ravel()[late == half], minlength=cells.shape[1]) for half in (False, True)])
    groups, group = np.unique(cells[0], return_inverse=True)
    totals = np.stack([np.bincount(group, row, minlength=groups.size) for row in table])
    expected = totals[:, group] * (table.sum(axis=0) / totals.sum(axis=0)[group])
    # Rare outcomes of a pair are taken together with its commonest one.
    common = np.lexsort((table.sum(axis=0), group))[np.cumsum(np.bincount(group)) - 1]
    rare = (expected < ENOUGH).any(axis=0)
    home = np.where(rare, common[group], np.arange(group.size))
    table, expected = (
        np.stack([np.bincount(home, row, minlength=group.size) for row in rows]) for rows in (table, expected)
    )
    kept = (expected >= ENOUGH).all(axis=0)
    outcomes = np.bincount(group, kept, minlength=groups.size)
    freedom = int(np.maximum(outcomes - 1, 0).sum())
    kept &= (outcomes > 1)[group]
    if freedom > 0:
        statistic = float((((table - expected) ** 2)[:, kept] / expected[:, kept]).sum())
        result["outcomes"] = float(chi2.sf(statistic, freedom))
    return result
