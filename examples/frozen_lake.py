"""FrozenLake pays 1 or 0, so the tail is all or nothing: where CVaR says something, and where it cannot."""

from __future__ import annotations

from tailrank import read_mdp, solve

lake = read_mdp("FrozenLake-v1", horizon=100).mdp
plans = solve(lake, tau=(0.1, 0.3, 0.5, 1.0))
failure = 1 - plans[-1].risk_neutral.mean
print(f"the best policy fails with probability {failure:.3f}")
for plan in plans:
    meaning = "every policy fails in its worst part" if plan.tau <= failure else "mean of the worst part"
    print(f"tau = {plan.tau:<4g} best CVaR {plan.cvar:.4f}  ({meaning})")

# A step cost makes time part of the risk: the tail now holds long walks, and policies differ in it.
table = lake.table()
reward = table["reward"] - 0.01 * (table["state"] != table["next_state"])
costly = type(lake).from_rows(
    table["state"],
    table["action"],
    table["next_state"],
    table["probability"],
    reward,
    horizon=100,
    start=lake.start,
    n_states=lake.n_states,
    n_actions=lake.n_actions,
)
plan = solve(costly, tau=0.25)
print(
    f"with 0.01 a move, tau = 0.25: CVaR {plan.cvar:.4f}, risk-neutral policy {plan.risk_neutral.cvar:.4f} "
    f"(means {plan.mean:.4f} and {plan.risk_neutral.mean:.4f})"
)
