"""The three planners of a low-rank model side by side: quality (exact CVaR of the policy) and time.

.venv/bin/python benchmarks/planners.py        prints a table and writes benchmarks/planners.json
"""

import json
import time
from pathlib import Path

import numpy as np

from tailrank.envs import make_episodic
from tailrank.planning.exact.induction import action_type
from tailrank.planning.exact.return_law import return_law
from tailrank.planning.latent.planner import LatentPlan, plan_latent
from tailrank.planning.latent.sampled import plan_sampled
from tailrank.planning.lsvi.algorithm2 import CvarLsvi
from tailrank.planning.lsvi.model import GroupModel

TAU, SEEDS = 0.1, 5


def on_groups(plan, env, budget):
    """Write a plan that acts anywhere out on the groups, so that it can be evaluated exactly."""
    G, C, kind = env.n_groups, env.rewards.n_budgets, action_type(env.n_actions)
    groups, budgets = np.repeat(np.arange(G), C), np.tile(np.arange(C), G)
    actions = tuple(plan.act(h, groups, budgets).reshape(G, C).astype(kind) for h in range(env.horizon))
    return LatentPlan(actions, budget, 0.0, np.zeros(C))


def contenders(env, model, rng, exact):
    bonus = [np.zeros(w.shape) for w in env.reward_of]
    near = range(max(exact.budget - 2, 0), exact.budget + 3)
    yield "latent, exact", lambda: plan_latent(env.model, env.rewards, env.reward_of, bonus, TAU, 0)
    for n in (10, 100, 1000):
        yield f"latent, {n} samples of each psi", lambda n=n: plan_sampled(model, TAU, samples=n, rng=rng)
    for t in (100, 1000):
        settings = CvarLsvi(t, 200, beta=1.0)
        yield f"CVaR-LSVI factored, T1 = {t}, 5 budgets", lambda s=settings: s.plan(model, list(near), tau=TAU, rng=rng)


def main():
    rows = {}
    for seed in range(SEEDS):
        env = make_episodic("random-lowrank", horizon=10, n_states=60, n_actions=4, d=5, reward="levels", seed=seed)
        bonus = [np.zeros(w.shape) for w in env.reward_of]
        model = GroupModel(env.model, env.reward_of, env.rewards.laws, bonus, 0)
        exact = plan_latent(env.model, env.rewards, env.reward_of, bonus, TAU, 0)
        star = return_law(exact.policy(env.rewards), env.truth).cvar(TAU)
        for name, run in contenders(env, model, np.random.default_rng(seed), exact):
            run()
            began = time.process_time()
            plan = run()
            seconds = time.process_time() - began
            plan = plan if isinstance(plan, LatentPlan) else on_groups(getattr(plan, "policy", plan), env, plan.budget)
            earned = return_law(plan.policy(env.rewards), env.truth).cvar(TAU)
            rows.setdefault(name, []).append((seconds, earned / star))
    print("| planner | milliseconds | CVaR of its policy / CVaR* (median, least) |\n|---|---:|---:|")
    summary = {}
    for name, found in rows.items():
        seconds, quality = (np.array(x) for x in zip(*found, strict=True))
        summary[name] = {
            "seconds": float(np.median(seconds)),
            "median": float(np.median(quality)),
            "least": float(quality.min()),
        }
        print(f"| {name} | {1e3 * np.median(seconds):.3g} | {np.median(quality):.4f}, {quality.min():.4f} |")
    Path(__file__).with_name("planners.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
