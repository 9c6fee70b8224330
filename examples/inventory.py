"""How much to order when unsold goods are lost: a shop learned at tau = 0.1 and at tau = 1.

or-gym's lost-sales inventory with one shop: five weeks, geometric demand (mean 10, sometimes 40), a unit costs 2, sells
at 4, 0.2 a week to keep, orders of 0, 10, .., 40. Nothing is known but what was in stock and what was earned. The shop
is small enough to be solved exactly, which tells how far the learned policies are from the best.

    python examples/inventory.py [PICTURE]
"""

from __future__ import annotations

from typing import Any

from shared import Task, compare, draw, sized, target

from tailrank import FiniteMDP, solve

PRICE, COST, KEEP, CHANCE, WEEKS, STOCK = 4.0, 2.0, 0.2, 0.1, 5, 10
ORDERS = (0, 10, 20, 30, 40)


def shop() -> Any:
    import gymnasium
    import or_gym_inventory  # noqa: F401 (registers)

    settings = {
        "periods": WEEKS,
        "I0": [STOCK],
        "p": PRICE,
        "r": [0.0, COST],
        "k": [0.0, 0.0],
        "h": [KEEP],
        "c": [max(ORDERS)],
        "L": [0],
        "dist": 4,
        "dist_param": {"p": CHANCE},
        "alpha": 1.0,
    }
    return gymnasium.make("or_gym_inventory/InvManagementLostSales-v0", disable_env_checker=True, env_config=settings)


TASK = Task(shop, WEEKS, episodes=28_000, fresh=4000, options={"levels": len(ORDERS)})


def table(most: int = STOCK + WEEKS * max(ORDERS)) -> FiniteMDP:
    """The same shop as a table (state: what is in stock)."""
    rows = []
    for stock in range(most + 1):
        for a, order in enumerate(ORDERS):
            have = stock + order
            if have > most:
                continue
            for sold in range(min(have, 1), have + 1):
                chance = (1 - CHANCE) ** max(sold - 1, 0) * (CHANCE if sold < have else 1.0)
                rows.append((stock, a, have - sold, chance, PRICE * sold - COST * order - KEEP * (have - sold)))
    return FiniteMDP.from_rows(*zip(*rows, strict=True), horizon=WEEKS, start=STOCK, n_states=most + 1)


if __name__ == "__main__":
    best = solve(table(), tau=0.1)
    neutral = best.risk_neutral
    print(f"exact: worst tenth at best {best.cvar:.2f}, of the best mean ({neutral.mean:.2f}) {neutral.cvar:.2f}")
    returns = compare(f"a shop with unsure demand, {TASK.episodes:,} episodes", sized(TASK), "earned")
    label = "earned in five weeks (losses above 200 are shown as 200)"
    draw(target("inventory.png"), returns, label, least=-200.0)
