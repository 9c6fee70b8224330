"""How many steps are enough, where the problem itself has no end: `--horizon auto`.

**Discounted.** After H steps no more can come than discount^H / (1 - discount) times the least and the largest reward.
Cutting there moves a return by that much at most, and so every measure that moves with the return (all but target and
utility): the bounds are widened by it.

**Undiscounted, where every policy ends surely.** What is left after H steps is not bounded, but small on average: with

    u(s) = most of E sum |r| from s on,   w_0 = u,   w_{n+1}(s) = max_a sum_s' P(s' | s, a) w_n(s')

no policy leaves more than w_H(start) on average after H steps (gains and losses are told apart), and with q_H in place
of w_H (q_0 = 1 before the end) goes on with a probability of more than q_H. A measure whose utility has slopes of at
most L moves by at most L w_H; a target by at most q_H. Every policy ends surely if there is no set of states in which
some policy stays for ever; then q_n falls below one half for some n, and u(s) is at most
U_n(s) + q_n(s) max U_n / (1 - max q_n), where U_n counts n steps only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tailrank.checks import LONGEST, InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.plan import Plan
from tailrank.risk.measures.cvar import CVaR

FIXED = ("target", "utility")
"""Measures that do not move with the return."""


@dataclass(frozen=True)
class CutOff:
    """What may come after the last step: between low and high for sure, or (sure false) on average at most, and with
    what probability anything comes at all."""

    low: float
    high: float
    sure: bool = True
    share: float = 1.0

    def in_costs(self) -> CutOff:
        """The same with the signs of the rewards turned around."""
        return replace(self, low=-self.high, high=-self.low)


def cut(mdp: FiniteMDP, tolerance: tuple[float, float], slope: float = 1.0) -> tuple[FiniteMDP, CutOff]:
    """The MDP with as many steps as it takes, and what may come after them.

    tolerance: (absolute, relative), as of `Limits`; what comes after may take a quarter of it. slope: how much a
    measure moves for a unit of the mean at most (1 / tau for CVaR), where the end is not certain.
    """
    if mdp.n_blocks > 1:
        raise InputError("horizon auto: the rows change with the step, so the steps are known")
    if mdp.discount == 1.0:
        return _until_ended(mdp, tolerance, slope)
    low, high = min(0.0, float(mdp.reward.min())), max(0.0, float(mdp.reward.max()))
    whole = (high - low) / (1.0 - mdp.discount)
    # A relative tolerance is one of a hundredth of the range of returns at least.
    allowed = 0.25 * max(tolerance[0], tolerance[1] * 0.01 * whole)
    steps = 1 if whole <= allowed else math.ceil(math.log(allowed / whole) / math.log(mdp.discount))
    if steps > LONGEST:
        raise InputError(
            f"horizon auto: a discount of {mdp.discount:g} would take {steps} steps, at most {LONGEST} are possible"
        )
    left = mdp.discount**steps / (1.0 - mdp.discount)
    return replace(mdp, horizon=steps), CutOff(low * left, high * left)


def widened(plan: Plan, after: CutOff) -> Plan:
    """The plan with bounds that hold for the problem without an end."""
    steps = f"cut off after {plan_steps(plan)} steps: what follows"
    if after.sure:
        if plan.criterion in FIXED:
            raise InputError(
                f"horizon auto: the objective {plan.criterion} does not move with the return; give a horizon"
            )
        low, high = after.low, after.high
        note = f"{steps} lies between {low:.3g} and {high:.3g}"
    else:
        slope = _slope(plan)
        low, high = (-after.share, after.share) if slope is None else (slope * after.low, slope * after.high)
        note = (
            f"{steps} is worth between {after.low:.3g} and {after.high:.3g} on average at most, and comes with a "
            f"probability of at most {after.share:.3g}"
        )
    lower, upper = plan.lower + low, plan.upper + high
    return replace(
        plan, lower=lower, upper=upper, value=plan.value + low, status="bracketed", notes=(*plan.notes, note)
    )


def plan_steps(plan: Plan) -> int:
    """The steps of a plan's policy."""
    table = getattr(plan.policy, "first", getattr(plan.policy, "actions", None))
    return len(table)  # type: ignore[arg-type]


def _slope(plan: Plan) -> float | None:
    """The most that the measure of a plan moves for a unit of the mean; None for a target, which moves by a share."""
    measure = CVaR(plan.tau) if plan.objective is None else plan.objective
    if measure.name == "target":
        return None
    if measure.name == "expectile":
        alpha = float(measure.parameters()["alpha"])
        return max(alpha, 1.0 - alpha) / min(alpha, 1.0 - alpha)
    if measure.name == "spectral":
        return sum(weight / tau for tau, weight in measure.parameters()["levels"])
    if measure.name in ("cvar", "mean-cvar", "mean", "utility") and plan.criterion in ("cvar", measure.name):
        return measure.reduction(0.0, 1.0).slope
    raise InputError(
        f"horizon auto: what is left after any number of steps may move the {plan.criterion} by more than can be "
        "bounded; give a horizon, or a discount"
    )


def _until_ended(mdp: FiniteMDP, tolerance: tuple[float, float], slope: float) -> tuple[FiniteMDP, CutOff]:
    ptr, after, prob, reward = mdp.rows(0)
    there, A = np.flatnonzero(np.diff(ptr) > 0), mdp.n_actions
    first, owner = ptr[:-1][there], there // A

    def most(rows: np.ndarray) -> np.ndarray:
        """The largest sum of rows [n] of any action, [S]."""
        result = np.full(mdp.n_states, -np.inf)
        np.maximum.at(result, owner, np.add.reduceat(rows, first))
        return np.where(np.isfinite(result), result, 0.0)

    state = np.repeat(np.arange(ptr.size - 1) // A, np.diff(ptr))
    over = np.ones(mdp.n_states, dtype=bool)
    over[state[(after != state) | (reward != 0.0)]] = False  # stays where it is and earns nothing
    _check_ends(mdp, over, after, prob)
    gain, loss, on = np.maximum(reward, 0.0), np.maximum(-reward, 0.0), (~over).astype(np.float64)
    left, sums = on, [np.zeros(mdp.n_states), np.zeros(mdp.n_states)]
    for _ in range(LONGEST):
        left, sums = (
            most(prob * left[after]),
            [most(prob * (part + value[after])) for part, value in zip((gain, loss), sums, strict=True)],
        )
        if left.max() <= 0.5:
            break
    else:
        raise InputError(f"horizon auto: some policy goes on for more than {LONGEST} steps every second time")
    up, down = (value + left * value.max() / (1.0 - left.max()) for value in sums)
    whole = float(mdp.start @ up + mdp.start @ down)
    allowed = 0.25 * max(tolerance[0], tolerance[1] * 0.01 * whole)
    for steps in range(1, LONGEST + 1):
        up, down, on = (most(prob * value[after]) for value in (up, down, on))
        found = CutOff(-float(mdp.start @ down), float(mdp.start @ up), False, min(1.0, float(mdp.start @ on)))
        if slope * (found.high - found.low) <= allowed and found.share <= min(0.01, max(tolerance)):
            return replace(mdp, horizon=steps), found
    raise InputError(
        f"horizon auto: after {LONGEST} steps more than a quarter of the tolerance is left; raise --tolerance"
    )


def _check_ends(mdp: FiniteMDP, over: np.ndarray, after: np.ndarray, prob: np.ndarray) -> None:
    """Raise where some policy can go on for ever from a state that can be met."""
    met = mdp.start > 0.0
    ptr = mdp.rows(0)[0]
    pair_state = np.arange(ptr.size - 1) // mdp.n_actions
    pair = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    while True:
        more = met.copy()
        more[after[met[pair_state[pair]] & (prob > 0.0)]] = True
        if (more == met).all():
            break
        met = more
    stays = met & ~over
    while stays.any():
        leaves = np.zeros(ptr.size - 1, dtype=bool)
        leaves[pair[(prob > 0.0) & ~stays[after]]] = True
        inside = np.zeros(mdp.n_states, dtype=bool)
        inside[pair_state[(np.diff(ptr) > 0) & ~leaves]] = True
        kept = stays & inside
        if (kept == stays).all():
            name = mdp.labels[int(np.flatnonzero(kept)[0])]
            raise InputError(
                f"horizon auto: from state {name} some policy never ends; give a horizon, or a discount below 1"
            )
        stays = kept
