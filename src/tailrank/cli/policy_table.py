"""A saved policy as a table: which action at which step, state (or latent) and remaining budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import InputError
from tailrank.cli.terminal import add_row, console, line, number, table_of
from tailrank.policies.kernel import KernelPolicy
from tailrank.policies.lowrank import LowRankPolicy
from tailrank.policies.observed import ObservationPolicy
from tailrank.policies.softmax import SoftmaxPolicy
from tailrank.policies.tables import BudgetPolicy, ClonedPolicy, LevelPolicy, MarkovPolicy, MixedPolicy, Policy
from tailrank.report.policy_table import runs
from tailrank.runs.policy_files.storage import Stored

TOLD = (
    "source",
    "algorithm",
    "tau",
    "iterations",
    "episodes",
    "model",
    "returned",
    "cvar",
    "cvar_low",
    "cvar_high",
    "method",
    "cvar_star",
    "mean",
    "seed",
)
"""What a file of a run says about a policy on observations."""

Rows = Iterator[tuple[str, int]]
"""What the memory is, and the action then."""


@dataclass(frozen=True)
class Face:
    """What is shown of a policy: lines about it, how many steps and states, and the rows of one of them."""

    about: tuple[str, ...]
    shape: tuple[int, int]
    columns: tuple[str, ...]
    rows: Callable[[int, int], Rows]


def policy_table(stored: Stored, *, step: int | None, state: int | None, rows: int) -> None:
    """Print which action is played where."""
    out, face = console(), _face(stored.policy, stored.info)
    H, S = face.shape
    thing = face.columns[1]
    for name, value, size in (("step", step, H), (thing, state, S)):
        if value is not None and not 0 <= value < size:
            raise InputError(f"{name} = {value}: must lie in 0..{size - 1}")
    names, moves = (_names(stored.info.get(key)) for key in ("states", "actions"))
    for text in face.about:
        line(out, text)
    table, shown = table_of(face.columns), 0
    for h in range(H) if step is None else [step]:
        for s in range(S) if state is None else [state]:
            for memory, action in face.rows(h, s):
                shown += 1
                if shown <= rows:
                    add_row(table, h, names(s), *([memory] if memory else []), moves(action))
    out.print(table)
    if shown > rows:
        line(out, f"{shown - rows} more rows: choose with --step and --state, or raise --rows")


def _face(policy: Policy, info: dict[str, Any]) -> Face:
    if isinstance(policy, BudgetPolicy):
        about = f"starts with budget {number(policy.start_budget)}; discounted rewards are taken off it"
        columns = ("step", "state", "remaining budget", "action")
        return Face((about,), _pair(policy.first), columns, lambda h, s: _budget_rows(policy, h, s))
    if isinstance(policy, MixedPolicy):
        parts = (("1", policy.first), ("2", policy.second))
        about = f"plan 1 is drawn with probability {number(policy.share)} at the start of an episode, else plan 2; " + (
            f"they start with budget {number(policy.first.start_budget)} and {number(policy.second.start_budget)}"
        )
        columns = ("step", "state", "plan: remaining budget", "action")
        return Face(
            (about,),
            _pair(policy.first.first),
            columns,
            lambda h, s: ((f"{name}: {left}", a) for name, one in parts for left, a in _budget_rows(one, h, s)),
        )
    if isinstance(policy, MarkovPolicy):
        about = "acts on the step and the state alone"
        shape = _pair(policy.actions)
        return Face((about,), shape, ("step", "state", "action"), lambda h, s: _markov_rows(policy, h, s))
    if isinstance(policy, ClonedPolicy):
        about, columns = "draws its actions, at every step alike", ("step", "state", "probability", "action")
        return Face((about,), (1, len(policy.law)), columns, lambda _, s: _cloned_rows(policy, s))
    if isinstance(policy, LevelPolicy):
        about, columns = "acts on a confidence level that every outcome moves", ("step", "state", "level", "action")
        return Face((about,), _pair(policy.actions), columns, lambda h, s: _level_rows(policy, h, s))
    if isinstance(policy, ObservationPolicy):
        shape, columns = (policy.horizon, policy.base.shape[1]), ("step", "latent", "remaining budget", "action")
        return Face(_observing(policy, info), shape, columns, lambda h, z: _latent_rows(policy, h, z))
    if isinstance(policy, LowRankPolicy):
        columns = ("step", "place", "remaining budget", "action")
        return Face(_low_rank(policy, info), (policy.horizon, 1), columns, lambda h, _: _mean_rows(policy, h))
    if isinstance(policy, KernelPolicy):
        columns = ("step", "place", "remaining budget", "action")
        return Face(_kernel(policy, info), (policy.horizon, 1), columns, lambda h, _: _kernel_rows(policy, h))
    if isinstance(policy, SoftmaxPolicy):
        lines = (*_told(info), "acts on observations; probabilities at the zero observation:")
        columns = ("step", "place", "probability", "action")
        return Face(lines, (policy.horizon, 1), columns, lambda h, _: _softmax_rows(policy, h))
    raise InputError(f"policy: no table is known for a {type(policy).__name__}")


def _cloned_rows(policy: ClonedPolicy, s: int) -> Rows:
    return _drawn_rows(policy.law[s])


def _softmax_rows(policy: SoftmaxPolicy, h: int) -> Rows:
    return _drawn_rows(policy.network.probabilities(h, np.zeros((1, policy.n_features)))[0])


def _drawn_rows(law: np.ndarray) -> Rows:
    """The likeliest action first."""
    for action in np.argsort(-law, kind="stable"):
        if law[action] > 0.0:
            yield number(float(law[action])), int(action)


def _kernel(policy: KernelPolicy, info: dict[str, Any]) -> tuple[str, ...]:
    """What the file says about a policy of a kernel model, and how large its parts are."""
    T, M, C = policy.tables.shape
    return (
        *_told(info),
        f"acts on observations of {policy.n_features} features by {policy.neighbours} of {M} representative states",
        f"tables: {T} of {policy.horizon} steps, {C} budgets ({policy.tables.nbytes / 1000:.3g} kB)",
        f"starts with budget {number(policy.budget)}, rewards are taken off it as they are; the action at the mean "
        "of all observations:",
    )


def _kernel_rows(policy: KernelPolicy, h: int) -> Rows:
    """Ranges of the remaining budget with one action each, at the mean observation."""
    left, C = policy.horizon - h, policy.scale.count
    budgets = policy.scale.budget(np.arange(C), left)
    actions = policy.act(h, np.repeat(policy.metric.centre[None], C, axis=0), budgets)
    return _ranges(actions, 0, policy.scale.unit, float(budgets[0]))


def _told(info: dict[str, Any]) -> list[str]:
    """What the file says about what was learned."""
    return [f"{name.replace('_', ' '):<12}{number(info[name])}" for name in TOLD if info.get(name) is not None]


def _low_rank(policy: LowRankPolicy, info: dict[str, Any]) -> tuple[str, ...]:
    """What the file says about a policy of a low-rank model, and how large its parts are."""
    plan, (K, L) = policy.plan, policy.model.sizes
    sizes = [table.shape[1] for table in plan.tables]
    return (
        *_told(info),
        f"acts on observations: phi of {policy.n_features} features over {K} kinds of outcomes and {L} laws of rewards",
        f"tables: {policy.horizon} steps, {K * L} rows, {min(sizes)} to {max(sizes)} budgets"
        f" ({sum(table.nbytes for table in plan.tables) / 1000:.3g} kB)",
        f"starts with budget {number(plan.budget)}, rewards are taken off it as they are; the action at the mean "
        "of all observations:",
    )


def _mean_rows(policy: LowRankPolicy, h: int) -> Rows:
    """Ranges of the remaining budget with one action each, at the mean observation."""
    plan = policy.plan
    budgets = plan.spacing * (plan.first[h] + np.arange(plan.tables[h].shape[1]))
    actions = policy.act(h, np.repeat(policy.model.centre[None], budgets.size, axis=0), budgets)
    return _ranges(actions, int(plan.first[h]), plan.spacing, 0.0)


def _observing(policy: ObservationPolicy, info: dict[str, Any]) -> tuple[str, ...]:
    """What the file says about a policy on observations, and how large its parts are."""
    plan, decoder, (steps, K, A, _) = policy.plan, policy.decoder, policy.moves.shape
    sizes = [table.shape[2] for table in plan.values]
    look = "the latents before it are looked at too" if policy.filtered else "one observation tells the latent"
    return (
        *_told(info),
        f"acts on observations: a decoder ({decoder.kind}) of {policy.n_features} features finds {K} latents; {look}",
        f"tables: {policy.horizon} steps, {K} latents, {A} actions, {min(sizes)} to {max(sizes)} budgets"
        f" ({sum(table.nbytes for table in plan.values) / 1000:.3g} kB)"
        + ("; all steps share the transitions" if steps == 1 < policy.horizon else ""),
        f"starts with budget {number(float(policy.grid.value(plan.budget)))}, rewards are taken off it in steps of "
        f"{number(float(policy.grid.unit))}; the action of each latent that was met, where it is sure:",
    )


def _pair(table: np.ndarray) -> tuple[int, int]:
    return int(table.shape[0]), int(table.shape[1])


def _names(labels: object) -> Callable[[int], object]:
    """The name of a number: that in the list, if it has one, else the number itself."""
    known = labels if isinstance(labels, list | tuple) else ()
    return lambda number: known[number] if number < len(known) else number


def _markov_rows(policy: MarkovPolicy, h: int, s: int) -> Rows:
    action = policy.act(h, np.array([s]), policy.start(1))
    yield "", int(action[0])


def _budget_rows(policy: BudgetPolicy, h: int, s: int) -> Rows:
    """Ranges of the remaining budget with one action each; states that cannot be met have none."""
    actions = policy.actions[policy.offset[h, s] : policy.offset[h, s + 1]]
    # What is left of the budget in reward units: the grid's offset counts the steps still to come only.
    to_come = float(sum(policy.grid.origin[h:]))
    return _ranges(actions, int(policy.first[h, s]), float(policy.grid.unit), to_come)


def _latent_rows(policy: ObservationPolicy, h: int, z: int) -> Rows:
    """Ranges of the remaining budget with one action each; latents that were never met have none."""
    base = policy.base[0 if len(policy.base) == 1 else h]
    budgets = np.arange(policy.plan.values[h].shape[2] if base[z] > 0 else 0)
    sure = np.zeros((budgets.size, base.size))
    sure[:, z] = 1.0
    to_come = float(sum(policy.grid.origin[h:]))
    return _ranges(policy.plan.act(h, sure, budgets), 0, float(policy.grid.unit), to_come)


def _ranges(actions: np.ndarray, first: int, unit: float, to_come: float) -> Rows:
    """Runs of equal actions [C]; budget i is worth (first + i) unit + to_come."""
    begin = 0
    for length, action in _runs(actions):
        low, high = ((first + i) * unit + to_come for i in (begin, begin + length - 1))
        if length == actions.size:
            text = "any"
        elif begin == 0:
            text = f"up to {number(high)}"
        elif begin + length == actions.size:
            text = f"from {number(low)}"
        else:
            text = number(low) if length == 1 else f"{number(low)} .. {number(high)}"
        yield text, action
        begin += length


def _level_rows(policy: LevelPolicy, h: int, s: int) -> Rows:
    begin = 0
    for length, action in _runs(policy.actions[h, s]):
        yield f"from {number(float(policy.levels[begin]))}", action
        begin += length


def _runs(actions: np.ndarray) -> list[tuple[int, int]]:
    """Length and action of every run of equal actions."""
    flat = runs(actions) if actions.size else []
    return list(zip(flat[::2], flat[1::2], strict=True))
