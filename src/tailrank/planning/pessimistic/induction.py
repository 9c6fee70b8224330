"""Pessimistic budget induction: the plan that is best in the worst model that the records allow.

Let V_h(s, b) be the shortfall E (b - R)^+ of what is still earned, and G = b - V = E min(b, R) what is saved of the
budget. For every pair (s, a) there is a set C of laws of (next state, reward) that holds the true one. Then

    G_h(s, b) = max_a  min_{q in C}  sum_o q(o) x(o),      x(o) = min(b, u + G_{h+1}(s', b - u)),   G_H = 0,

is no more than what the plan that attains the maxima really saves, for every budget at once: what is saved grows with
G_{h+1}, and the true law is one of the q. So CVaR_tau of that plan is at least max_b { b - V_0(b) / tau }, for every
tau, and no margin is added by hand: nothing is lost twice, nothing beyond b can be lost. The optimistic twin takes the
smallest shortfall instead, V_h(s, b) = min_a min_q sum_o q(o) V_{h+1}(s', b - u): no policy has a smaller one.

C is a ball {q : sum_o p(o) log(p(o) / q(o)) <= radius} around counted shares p, in which q may move mass to outcomes
that nobody has seen: the worst reward, and then the worst state of the log (`closed`) or the loss of all that can still
be earned. A pair that was never seen has such an outcome for sure. A set of laws serves every function,
also one that was computed from the same records, every policy and every budget: no cover of budgets is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailrank._system.parallel import over_states
from tailrank.planning.pessimistic.model import RecordedModel, RecordedStep
from tailrank.policies.tables import BudgetPolicy

Watch = Callable[[int], None]
"""Told the step that was done."""


@dataclass(frozen=True, eq=False)
class SavedTables:
    """saved: H + 1 tables [S + 2, W_h + 1] of G; actions: H tables [S, W_h + 1]; curve [W_0 + 1]: G at the start."""

    saved: tuple[np.ndarray, ...]
    actions: tuple[np.ndarray, ...]
    curve: np.ndarray


def plan_pessimistic(
    model: RecordedModel,
    allowed: tuple[np.ndarray, ...],
    usual: np.ndarray,
    watch: Watch | None = None,
) -> SavedTables:
    """The plan and what it saves for sure. allowed [H] masks [S A]; usual [H, S]: played where nothing is sure."""
    from tailrank.planning.pessimistic import _kernels

    saved, actions = [_ended(model, model.horizon)], list[np.ndarray]()
    for h in reversed(range(model.horizon)):
        step, here = model.steps[h], _ended(model, h)
        played = np.repeat(usual[h][:, None], here.shape[1], axis=1)
        rows = (model.n_actions, step.ptr, step.next_state, step.units, step.share, step.radius, allowed[h])
        over_states(_kernels.plan_saved, (*rows, saved[0], here, played, step.longest), work_of(model, h))
        _set_lost(model, here)
        # A budget that is met leaves the choice free: play on for the mean, as at the largest budget.
        played[:, 0] = played[:, -1]
        saved.insert(0, here)
        actions.insert(0, played)
        if watch is not None:
            watch(h)
    return SavedTables(tuple(saved), tuple(actions), start_means(model, saved[0]))


def judge(model: RecordedModel, actions: tuple[np.ndarray, ...]) -> SavedTables:
    """What a plan that is given saves for sure in `model`."""
    from tailrank.planning.pessimistic import _kernels

    saved = [_ended(model, model.horizon)]
    for h in reversed(range(model.horizon)):
        step, here = model.steps[h], _ended(model, h)
        rows = (model.n_actions, step.ptr, step.next_state, step.units, step.share, step.radius, actions[h])
        over_states(_kernels.judge_saved, (*rows, saved[0], here, step.longest), work_of(model, h) // model.n_actions)
        _set_lost(model, here)
        saved.insert(0, here)
    return SavedTables(tuple(saved), actions, start_means(model, saved[0]))


def mean_saved(model: RecordedModel, tables: SavedTables, met: tuple[np.ndarray, ...]) -> np.ndarray:
    """What each action saves for sure if the plan of `tables` goes on from there, [S, A]: the mean over states and
    budgets as they were met, H tables [S, W_h + 1] of weights; 0 where a state was not met."""
    from tailrank.planning.pessimistic import _kernels

    total, weight = np.zeros((model.n_states, model.n_actions)), np.zeros(model.n_states)
    for h, step in enumerate(model.steps):
        rows = (model.n_actions, step.ptr, step.next_state, step.units, step.share, step.radius)
        over_states(
            _kernels.add_saved_by_action, (*rows, tables.saved[h + 1], met[h], total, step.longest), work_of(model, h)
        )
        weight += met[h].sum(axis=1)
    return np.asarray(total / np.maximum(weight, 1.0)[:, None])


def least_shortfall(model: RecordedModel, allowed: tuple[np.ndarray, ...], watch: Watch | None = None) -> np.ndarray:
    """A shortfall [W_0 + 1] at the start that no policy of allowed actions goes below, in units."""
    from tailrank.planning.pessimistic import _kernels

    after = _missing(model, model.horizon)
    for h in reversed(range(model.horizon)):
        step, here = model.steps[h], _missing(model, h)
        most = int(model.widths[h] - model.widths[h + 1])
        rows = (model.n_actions, most, step.ptr, step.next_state, step.units, step.share, step.radius, allowed[h])
        over_states(_kernels.plan_short, (*rows, after, here, step.longest), work_of(model, h))
        _set_lost(model, here)
        after = here
        if watch is not None:
            watch(h)
    return start_means(model, after)


def best_budget(model: RecordedModel, shortfall: np.ndarray, tau: float) -> tuple[int, float]:
    """The budget index at which b - V(b) / tau is largest, and that value in reward units. shortfall [W_0 + 1]."""
    index = np.arange(shortfall.size)
    objective = model.grid.value(index) - float(model.grid.unit) * shortfall / tau
    best = int(objective.argmax())
    return best, float(objective[best])


def shortfall_of(tables: SavedTables) -> np.ndarray:
    """V_0 = b - G_0 [W_0 + 1], in units."""
    return np.arange(tables.curve.size) - tables.curve


def policy_of(
    model: RecordedModel,
    actions: tuple[np.ndarray, ...],
    usual: np.ndarray,
    budget: int,
    first: np.ndarray | None = None,
) -> BudgetPolicy:
    """The plan as a policy that starts with `budget`; first [H]: the budgets of its first columns, 0 if not given."""
    S, sizes = model.n_states, np.array([table.shape[1] for table in actions])
    begins = np.concatenate([[0], np.cumsum(S * sizes)])
    lowest = np.zeros(model.horizon, dtype=np.int64) if first is None else first
    return BudgetPolicy(
        grid=model.grid,
        budget=budget,
        first=np.repeat(lowest[:, None], S, axis=1),
        offset=begins[:-1, None] + np.arange(S + 1)[None, :] * sizes[:, None],
        actions=np.concatenate([table.ravel() for table in actions]),
        elsewhere=usual.astype(np.int64),
    )


def least_mean(values: np.ndarray, share: np.ndarray, radius: float) -> float:
    """The least mean over the ball around `share` [n] of values [n] >= 0, where mass may move to an outcome worth 0."""
    from tailrank.planning.pessimistic import _kernels

    return float(_kernels.least_mean(values, share, values.size, radius))


def best_bet(values: np.ndarray, share: np.ndarray, radius: float) -> float:
    """The t that `least_mean` finds (`_kernels` says what it is); negative where there is none."""
    from tailrank.planning.pessimistic import _kernels

    return float(_kernels.least_mean_from(values, share, values.size, radius, -1.0)[1])


def _ended(model: RecordedModel, h: int) -> np.ndarray:
    """A fresh table of what is saved from step h on, zero but for episodes that have ended, [S + 2, W_h + 1]."""
    table = np.zeros((model.n_states + 2, int(model.widths[h]) + 1))
    table[model.n_states] = np.minimum(np.arange(table.shape[1]), model.ended[h])
    return table


def _missing(model: RecordedModel, h: int) -> np.ndarray:
    """The same for shortfalls: at step H nothing more is earned, so all of b is missing."""
    budgets = np.arange(int(model.widths[h]) + 1, dtype=np.float64)
    table = np.zeros((model.n_states + 2, budgets.size))
    if h == model.horizon and model.closed:
        table[:] = budgets
    elif h == model.horizon:
        table[:-1] = budgets
    table[model.n_states] = np.maximum(budgets - model.ended[h], 0.0)
    return table


def _set_lost(model: RecordedModel, table: np.ndarray) -> None:
    """Fill the last row: where an outcome that nobody has seen may lead, the worst (or for shortfalls, the best).

    To any state of the log, and to the end where episodes end; where the log may lack states, to nothing at all.
    """
    if model.closed:
        S = model.n_states
        np.minimum.reduce(table[: S + 1 if model.may_end else S], axis=0, out=table[S + 1])


def start_means(model: RecordedModel, table: np.ndarray) -> np.ndarray:
    """The least mean over the first states for every budget, [W_0 + 1]."""
    from tailrank.planning.pessimistic import _kernels

    start, floor = model.start, table[model.n_states + 1]
    columns = np.ascontiguousarray(np.maximum(table[start.states] - floor, 0.0).T)
    least = np.empty(len(columns))
    _kernels.least_means(columns, start.share, float(start.radius), least)
    return np.asarray(floor + least)


def work_of(model: RecordedModel, h: int, columns: int | None = None) -> np.ndarray:
    """How much work each state is at step h, [S], with that many columns in its table."""
    step: RecordedStep = model.steps[h]
    rows = np.diff(step.ptr[:: model.n_actions])
    return (rows + 1) * (int(model.widths[h]) + 1 if columns is None else columns) * 8
