"""Learn the risky combination lock with ELA and see what tau changes.

The lock opens only after the right action at every step; behind it wait a safe payoff of 0.8 and a risky one
that pays 1 nine times out of ten. The learner knows the rewards but not the transitions.

    python examples/risky_lock.py [FOLDER]      writes FOLDER/learning.png if a folder is given
"""

import sys
from pathlib import Path

from tailrank import ELA, ModelChoice, train
from tailrank.envs import make_episodic
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge
from tailrank.learning.output import OutputRule

ITERATIONS = 80
env = make_episodic("risky-lock", horizon=10, n_actions=4, n_states=300, seed=1)
curves = {}
for tau in (0.1, 1.0):
    learner = ELA(tau=tau, oracle=ModelChoice("class"))
    judge = ExactJudge.of(learner, env)
    history = list(train(learner, env, iterations=ITERATIONS, seed=0, judge=judge))
    state, rows = history[-1][0], [row for _, row in history]
    plan = OutputRule("greedy").choose(learner, env, state, {}, Streams(0)).policy
    law = judge.law(plan).law
    solved = next((r["episodes"] for r in rows if r["cvar"] >= 0.95 * judge.star), None)
    print(
        f"tau = {tau}: within 5% of CVaR* = {judge.star:.3g} after {solved} episodes; the returned plan earns "
        f"mean {law.mean:.3f}, worst tenth {law.cvar(0.1):.3f} (exact)"
    )
    curves[tau] = (rows, judge.star)

if len(sys.argv) > 1:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    for (tau, (rows, star)), colour in zip(curves.items(), ("#c8102e", "#1b4f8a"), strict=True):
        episodes = [r["episodes"] for r in rows]
        left.plot(episodes, [r["cvar"] for r in rows], color=colour, label=f"tau = {tau:g}")
        left.axhline(star, color=colour, linewidth=0.8, linestyle="--")
        right.plot(episodes, [r["bonus"] for r in rows], color=colour, label=f"tau = {tau:g}")
    left.set(title="CVaR of the plan of each iteration (exact)", xlabel="episodes", ylabel="CVaR at its own tau")
    right.set(title="mean exploration bonus", xlabel="episodes", yscale="log")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    path = Path(sys.argv[1]) / "learning.png"
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")
