"""What every importer produces, and the one place where it becomes a `FiniteMDP`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.mdp_files._labels import span, start_law
from tailrank.models.mdp import FiniteMDP

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """An MDP that was read: the MDP, its name, and one-line remarks for the user on what was assumed."""

    mdp: FiniteMDP
    name: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """Outcome rows as 0-based columns [n], and what the source itself says about the rest.

    `start` is a state or a law in the source's own labels, or a law [S]; None where the source says nothing.
    """

    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    probability: np.ndarray
    reward: np.ndarray
    labels: tuple[object, ...]
    action_labels: tuple[object, ...]
    step: np.ndarray | None = None
    horizon: object = None
    discount: object = None
    start: object = None
    notes: tuple[str, ...] = ()


def finish(draft: Draft, name: str, *, horizon: object = None, discount: object = None, start: object = None) -> Source:
    """The MDP of a draft with the user's options, which must agree with what the source says."""
    notes = list(draft.notes)
    if draft.state.size == 0:
        raise InputError("the source has no outcome with a probability above 0")
    steps = None if draft.step is None else int(draft.step.max()) + 1
    own = draft.horizon if draft.horizon is not None else steps
    H = _agree("horizon", horizon, own, checks.whole)
    if H is None:
        raise InputError("horizon: the source does not say how many steps there are; give horizon=...")
    if steps is not None and steps != H:
        raise InputError(f"horizon = {H}: the rows have {steps} steps")
    gamma = _asked("discount", discount, draft.discount, notes)
    law = _agree_on_start(draft, start, notes)
    mdp = FiniteMDP.from_rows(
        draft.state,
        draft.action,
        draft.next_state,
        draft.probability,
        draft.reward,
        step=draft.step,
        horizon=None if steps else H,
        start=law,
        discount=1.0 if gamma is None else gamma,
        n_states=len(draft.labels),
        n_actions=len(draft.action_labels),
        labels=draft.labels,
        action_labels=draft.action_labels,
    )
    notes += _remark_on_sums(draft)
    if mdp.absorbing:
        few = span([draft.labels[s] for s in mdp.absorbing])
        notes.append(f"{_count(len(mdp.absorbing), 'state')} without rows made absorbing, reward 0: {few}")
    return Source(mdp, name, tuple(notes))


def _agree(name: str, option: object, own: object, check: Callable[[object, str], T]) -> T | None:
    if option is None:
        return None if own is None else check(own, name)
    value = check(option, name)
    if own is not None and value != check(own, name):
        raise InputError(f"{name} = {option}: the file says {own}; leave it out or make them agree")
    return value


def _asked(name: str, option: object, own: object, notes: list[str]) -> float | None:
    """The discount that the user asks for, else that of the source: what if is a fair question."""
    if option is None or own is None:
        value = own if option is None else option
        return None if value is None else checks.discount_factor(value)
    asked, before = checks.discount_factor(option), checks.discount_factor(own)
    if asked != before:
        notes.append(f"{name} {asked:g} instead of the source's {before:g}")
    return asked


def _agree_on_start(draft: Draft, option: object, notes: list[str]) -> np.ndarray:
    given = [start_law(s, draft.labels) for s in (option, draft.start) if s is not None]
    if not given:
        notes.append(f"start: state {draft.labels[0]}, the first (choose with start=...)")
        return start_law(draft.labels[0], draft.labels)
    if len(given) == 2 and not np.allclose(given[0], given[1], rtol=0, atol=checks.PROBABILITY_TOLERANCE):
        law = {draft.labels[s]: float(given[1][s]) for s in np.flatnonzero(given[1])[:5]}
        raise InputError(f"start = {option}: the file says {law}; leave it out or make them agree")
    return given[-1]


def _remark_on_sums(draft: Draft) -> list[str]:
    """A remark where probabilities summed to one only within a tolerance, and were divided by their sum."""
    S, A = len(draft.labels), len(draft.action_labels)
    block = np.zeros_like(draft.state) if draft.step is None else draft.step
    pair = (block * S + draft.state) * A + draft.action
    total = np.bincount(pair, weights=draft.probability)
    gap = np.where(np.bincount(pair) > 0, np.abs(total - 1), 0.0)
    if gap.max() <= 1e-12:
        return []
    far = _count(int(np.sum(gap > 1e-12)), "state-action pair")
    return [f"probabilities normalised at {far} (they summed to 1 within {gap.max():.1g})"]


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
