"""The pessimistic induction for any objective that one terminal worth of a budget gives: OCEs and expected utilities.

With c the budget that is left (what was asked for less what was earned) and f(c) what that is worth in the end,

    W_h(s, c) = max_a  min_{q in C}  sum_o q(o) W_{h+1}(s', c - u),      W_H(s, c) = f(c),

is no more than E f of the plan that attains the maxima, because W falls with c and C holds the true law. An optimised
certainty equivalent is max_b { b + E u(R - b) }, so f(c) = u(-c) and every b is a start; an expected utility has one
start, c = 0 with f(c) = U(-c). The optimistic twin takes the best law instead: no policy is worth more. Unlike a
shortfall, W does not stop where a budget is met, so tables hold all budgets that can be left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.planning.pessimistic.induction import SavedTables, Watch, start_means, work_of
from tailrank.planning.pessimistic.model import RecordedModel


@dataclass(frozen=True, eq=False)
class Worth:
    """f(left) for budgets left [n], in units; starts: the first and the last budget index to begin with."""

    of: Callable[[np.ndarray], np.ndarray]
    first: int
    last: int

    def left(self, model: RecordedModel, h: int) -> np.ndarray:
        """The budgets that can be left at step h, [n]."""
        return np.arange(self.first - int(model.widths[0] - model.widths[h]), self.last + 1)


def plan_worth(
    model: RecordedModel,
    worth: Worth,
    allowed: tuple[np.ndarray, ...],
    usual: np.ndarray,
    watch: Watch | None = None,
) -> SavedTables:
    """The plan and what its budgets are worth for sure; arguments as those of `plan_pessimistic`."""
    actions = tuple(np.repeat(usual[h][:, None], worth.left(model, h).size, axis=1) for h in range(model.horizon))
    return _backward(model, worth, 1.0, actions, allowed, watch)


def judge_worth(model: RecordedModel, worth: Worth, actions: tuple[np.ndarray, ...]) -> SavedTables:
    """What a plan that is given is worth for sure in `model`."""
    return _backward(model, worth, 1.0, actions, None, None)


def most_worth(
    model: RecordedModel, worth: Worth, allowed: tuple[np.ndarray, ...], watch: Watch | None = None
) -> np.ndarray:
    """What no policy of allowed actions is worth more than, from each start, [n]."""
    nothing = tuple(np.zeros((0, 0), dtype=np.int64) for _ in model.steps)
    return _backward(model, worth, -1.0, nothing, allowed, watch).curve


def _backward(
    model: RecordedModel,
    worth: Worth,
    sign: float,
    actions: tuple[np.ndarray, ...],
    allowed: tuple[np.ndarray, ...] | None,
    watch: Watch | None,
) -> SavedTables:
    """All tables, the last first; actions are filled where `allowed` is given and sign is 1."""
    from tailrank.planning.pessimistic import _kernels

    tables = [_ended(model, worth, sign, model.horizon)]
    for h in reversed(range(model.horizon)):
        step, here = model.steps[h], _ended(model, worth, sign, h)
        most = int(model.widths[h] - model.widths[h + 1])
        mask = np.ones(0, dtype=bool) if allowed is None else allowed[h]
        rows = (step.ptr, step.next_state, step.units, step.share, step.radius, mask)
        head = (model.n_actions, most, sign, allowed is None)
        over_states(
            _kernels.backup_worth,
            (*head, *rows, tables[0], here, actions[h], step.longest),
            work_of(model, h, here.shape[1]),
        )
        _set_lost(model, sign, here)
        tables.insert(0, here)
        if watch is not None:
            watch(h)
    return SavedTables(tuple(tables), actions, sign * start_means(model, sign * tables[0]))


def _ended(model: RecordedModel, worth: Worth, sign: float, h: int) -> np.ndarray:
    """A fresh table of step h: worth of episodes that have ended, and where a log may lack states, of those."""
    left = worth.left(model, h)
    table = np.zeros((model.n_states + 2, left.size))
    if h == model.horizon:
        table[:] = worth.of(left)
    table[model.n_states] = worth.of(left - int(model.ended[h]))
    if not model.closed:
        table[-1] = worth.of(left if sign > 0.0 else left - int(model.widths[h]))
    return table


def _set_lost(model: RecordedModel, sign: float, table: np.ndarray) -> None:
    """Fill the last row where the log has all states: the worst of them, or for sign -1 the best."""
    if model.closed:
        S = model.n_states
        pick = np.minimum if sign > 0.0 else np.maximum
        pick.reduce(table[: S + 1 if model.may_end else S], axis=0, out=table[S + 1])
