"""How many steps are enough, where the problem itself has no end: `--horizon auto`.

After H steps of a discounted problem no more can come than discount^H / (1 - discount) times the least and the largest
reward. Cutting there moves a return by that much at most, and so every measure that moves with the return
(all but target and utility): the bounds are widened by it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tailrank.checks import LONGEST, InputError
from tailrank.models.mdp import FiniteMDP
from tailrank.planning.plan import Plan

FIXED = ("target", "utility")
"""Measures that do not move with the return."""


def cut(mdp: FiniteMDP, tolerance: tuple[float, float]) -> tuple[FiniteMDP, tuple[float, float]]:
    """The MDP with as many steps as it takes, and the least and the most that may come after them.

    tolerance: (absolute, relative), as of `Limits`; what comes after may take a quarter of it.
    """
    if mdp.n_blocks > 1:
        raise InputError("horizon auto: the rows change with the step, so the steps are known")
    if mdp.discount == 1.0:
        raise InputError("horizon auto: needs a discount below 1; give discount=..., or a horizon")
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
    return replace(mdp, horizon=steps), (low * left, high * left)


def widened(plan: Plan, after: tuple[float, float]) -> Plan:
    """The plan with bounds that hold for the problem without an end."""
    if plan.criterion in FIXED:
        raise InputError(f"horizon auto: the objective {plan.criterion} does not move with the return; give a horizon")
    note = f"cut off after {plan_steps(plan)} steps: what follows lies between {after[0]:.3g} and {after[1]:.3g}"
    lower, upper = plan.lower + after[0], plan.upper + after[1]
    return replace(
        plan, lower=lower, upper=upper, value=plan.value + after[0], status="bracketed", notes=(*plan.notes, note)
    )


def plan_steps(plan: Plan) -> int:
    """The steps of a plan's policy."""
    table = getattr(plan.policy, "first", getattr(plan.policy, "actions", None))
    return len(table)  # type: ignore[arg-type]
