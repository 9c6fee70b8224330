"""A picture of the domain, where there is a natural one.

A *grid*: the states are the cells of a grid, row by row, if all moves that are neither to an end nor back to the start
go one cell left or right (within a row), up or down, or nowhere. A *chain*: with few states and steps, states against
steps, with all moves that are possible; a combination lock looks like one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrank.models.mdp import FiniteMDP
from tailrank.models.ragged import owners

MOST_CHAIN = (14, 40)
"""States and steps of the largest chain that can be read."""
MOST_STARTS = 2
"""With more starts than this, moves back to a start are no mark of a fall."""
LOCK = ("good, upper", "good, lower", "bad")


def labels_of(mdp: FiniteMDP, name: str, own: tuple[str, ...] = ()) -> list[str]:
    """Names of the states for people: those of the environment, or those of the MDP."""
    if len(own) == mdp.n_states:
        return [str(label)[:60] for label in own]
    if name == "risky-lock" and mdp.n_states == len(LOCK):
        return list(LOCK)
    return [str(label)[:60] for label in mdp.labels]


def picture(mdp: FiniteMDP) -> dict[str, Any] | str:
    """The grid or the chain of `mdp` for the page, or why there is none."""
    width = grid_width(mdp)
    if width:
        return _grid(mdp, width)
    if mdp.n_states <= MOST_CHAIN[0] and mdp.horizon <= MOST_CHAIN[1]:
        return {"kind": "chain", "possible": [_moves(mdp, h) for h in range(mdp.n_blocks)]}
    return (
        f"The states form no grid, and {mdp.n_states} states over {mdp.horizon} steps are too many to draw as a chain."
    )


def _moves(mdp: FiniteMDP, h: int) -> list[list[int]]:
    ptr, next_state, prob, _ = mdp.rows(h)
    state = owners(ptr) // mdp.n_actions
    pairs = np.unique(np.stack([state, next_state], axis=1)[prob > 0], axis=0)
    return [[int(s), int(t)] for s, t in pairs]


def grid_width(mdp: FiniteMDP) -> int:
    """Cells in a row if the states are a grid, else 0."""
    if mdp.n_blocks > 1 or mdp.n_states > 2000:
        return 0
    s, t = np.array(_moves(mdp, 0)).T
    ends = _ends(mdp)
    start = np.flatnonzero(mdp.start)
    free = np.union1d(ends, start) if start.size <= MOST_STARTS else ends
    inner = (s != t) & ~np.isin(t, free)
    moves = {int(d) for d in (t - s)[inner]}
    width = max(moves, default=0)
    # All four ways must occur, or any chain with a shortcut would be a grid.
    if width < 2 or moves != {1, -1, width, -width}:
        return 0
    level = inner & (np.abs(t - s) == 1)
    return width if (s[level] // width == t[level] // width).all() else 0


def _ends(mdp: FiniteMDP) -> np.ndarray:
    """States that nothing leaves."""
    moves = np.array(_moves(mdp, 0))
    leaves = np.unique(moves[moves[:, 0] != moves[:, 1], 0])
    return np.setdiff1d(np.arange(mdp.n_states), leaves)


def _grid(mdp: FiniteMDP, width: int) -> dict[str, Any]:
    """Cells with their kinds and what entering them pays at worst; `end` is a state beside the grid, or None."""
    table, ends = mdp.table(), set(_ends(mdp).tolist())
    entering = table["state"] != table["next_state"]
    entered = set(table["next_state"][entering].tolist())
    cells = mdp.n_states // width * width
    beside = [s for s in range(mdp.n_states) if s >= cells and s in entered]
    kinds = []
    for s in range(cells):
        paid = table["reward"][(table["next_state"] == s) & entering]
        if mdp.start[s] > 0:
            kinds.append("start")
        elif s not in entered:
            kinds.append("outside")
        else:
            kinds.append("cell" if s not in ends else "goal" if paid.max() > 0 else "trap")
    return {
        "kind": "grid",
        "width": width,
        "cells": kinds,
        "beside": beside,
        "arrows": _arrows(mdp, width, cells),
    }


def _arrows(mdp: FiniteMDP, width: int, cells: int) -> list[str]:
    """Where each action leads on the whole, [A]: u, d, l, r, or - where it is none of these.

    Slipping sideways goes both ways alike, so a direction counts by how much more it is taken than its opposite.
    """
    table = mdp.table()
    within = (table["next_state"] < cells) & (table["next_state"] != table["state"])
    arrows = []
    for a in range(mdp.n_actions):
        mine = within & (table["action"] == a)
        moves, weight = (table["next_state"] - table["state"])[mine], table["probability"][mine]
        across, down = (float(weight[moves == d].sum() - weight[moves == -d].sum()) for d in (1, width))
        names = ("r" if across > 0 else "l") if abs(across) > abs(down) else ("d" if down > 0 else "u")
        arrows.append(names if max(abs(across), abs(down)) > 0 else "-")
    return arrows
