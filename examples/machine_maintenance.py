"""When to repair a machine that wears out: a file, a discount, and bounds instead of an exact answer."""

from __future__ import annotations

from pathlib import Path

from tailrank import read_mdp, solve

path = Path(__file__).parent / "models" / "machine.csv"
machine = read_mdp(path, horizon=100, discount=0.8, start=1).mdp
for plan in solve(machine, tau=(0.05, 0.1, 0.3)):
    gain = plan.lower - plan.risk_neutral.cvar
    print(
        f"tau = {plan.tau:<4g} CVaR {plan.cvar:.4f}, no policy is above {plan.upper:.4f}; "
        f"gain over the risk-neutral policy {gain:.4f}"
    )
for criterion in ("iterated", "chow"):
    plan = solve(machine, tau=0.1, criterion=criterion)
    print(f"criterion {criterion}: claims {plan.claim:.3f}, its policy has CVaR {plan.cvar:.3f}")
