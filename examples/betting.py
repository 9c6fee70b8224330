"""A game with good odds and a jackpot: what the mean recommends, and what the worst tenth of games says."""

from __future__ import annotations

import numpy as np
from make_models import betting

from tailrank import evaluate, solve

game = betting()
for plan in solve(game, tau=(0.02, 0.1, 0.2, 0.5, 1.0)):
    first = int(plan.policy.act(0, np.array([5]), plan.policy.start(1))[0])
    ruined = float(plan.law.probs[plan.law.values <= -5].sum())
    print(
        f"tau = {plan.tau:<4g} first bet {first}  CVaR {plan.cvar:7.3f} (risk-neutral {plan.risk_neutral.cvar:7.3f})"
        f"  mean {plan.mean:6.3f}  ruined {100 * ruined:4.1f}%"
    )

plan = solve(game, tau=0.1)
played = evaluate(plan, game, episodes=20_000, rng=np.random.default_rng(1))
print(f"20,000 games played at tau = 0.1: CVaR {played.cvar:.3f}, computed {plan.cvar:.3f}")
