"""A cliff that is slippery now and then, solved exactly: where to walk for the mean and for the worst tenth.

Gymnasium has a cliff without slipping and one on which two moves of three go astray. Walking straight is safe on the
first; on the second every sensible policy leans away from the edge, so that no tau changes anything (the script shows
it). Between the two, on a path where one move in five is of the slippery kind, tau decides.

    python examples/cliff.py [PICTURE]
"""

from __future__ import annotations

import numpy as np
from shared import BLUE, RED, TAU, target

from tailrank import FiniteMDP, cvar, cvar_interval, play, read_mdp, solve

STEPS, GAMES, SHAPE = 60, 20_000, (4, 12)


def cliff(slippery: float) -> FiniteMDP:
    """A mixture of Gymnasium's two cliffs: a step costs 1, a fall 100 and the walk from the start."""
    parts = [read_mdp(name, horizon=STEPS).mdp for name in ("CliffWalking-v1", "CliffWalkingSlippery-v1")]
    tables = [part.table() for part in parts]
    weights = [(1 - slippery) * tables[0]["probability"], slippery * tables[1]["probability"]]
    columns = {name: np.concatenate([t[name] for t in tables]) for name in ("state", "action", "next_state", "reward")}
    probability = np.concatenate(weights)
    kept = probability > 0
    state, action, after, reward = (column[kept] for column in columns.values())
    return FiniteMDP.from_rows(
        state,
        action,
        after,
        probability[kept],
        reward,
        horizon=STEPS,
        start=parts[0].start,
        n_states=parts[0].n_states,
        n_actions=parts[0].n_actions,
    )


def visits(states: np.ndarray) -> np.ndarray:
    """How many times a game stands on each place before the goal, [4, 12]."""
    goal = SHAPE[0] * SHAPE[1] - 1  # beyond it the solver has a place for games that are over
    return np.bincount(states[states < goal], minlength=goal + 1).reshape(SHAPE) / len(states)


if __name__ == "__main__":
    plan = solve(cliff(1.0), tau=TAU)
    print(
        f"always slippery: worst tenth {plan.cvar:.2f}, of the best mean {plan.risk_neutral.cvar:.2f}: nothing to gain"
    )
    mdp = cliff(0.2)
    plan = solve(mdp, tau=TAU)
    print(
        f"one move in five: worst tenth {plan.cvar:.2f} (mean {plan.mean:.2f}), "
        f"of the best mean {plan.risk_neutral.cvar:.2f} (mean {plan.risk_neutral.mean:.2f}); exact"
    )
    rng, shown = np.random.default_rng(1), {}
    for name, policy, colour in (("tau = 0.1", plan.policy, RED), ("tau = 1", plan.risk_neutral.policy, BLUE)):
        played = play(policy, mdp, GAMES, rng=rng)
        tail = cvar_interval(played.returns, TAU, method="bca", rng=rng)
        fell = np.mean((played.rewards == -100).any(axis=1))
        print(
            f"{name:10} {GAMES} games: worst tenth {cvar(played.returns, TAU):.2f} "
            f"({tail.lower:.2f} to {tail.upper:.2f}), fell in {100 * fell:.1f}%"
        )
        shown[name] = (visits(played.states[:, :-1]), played.returns, colour, fell)

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8.4, 3.6), layout="constrained", width_ratios=(1.5, 1))
    for row, (name, (where, returns, colour, fell)) in zip(axes, shown.items(), strict=True):
        row[0].imshow(np.log1p(10 * where), cmap="Reds" if colour == RED else "Blues")
        row[0].add_patch(plt.Rectangle((0.5, 2.5), 10, 1, color="0.25"))
        for x, word, ink in ((0, "start", "white"), (5.5, "cliff", "white"), (11, "goal", "black")):
            row[0].text(x, 3, word, color=ink, fontsize=7, ha="center", va="center")
        row[0].set_title(f"{name}: falls in {100 * fell:.1f}% of games", loc="left", fontsize=10)
        row[0].set(xticks=[], yticks=[])
        row[1].hist(returns, np.arange(-280, 1, 10), weights=np.full(returns.size, 1 / returns.size), color=colour)
        tail = cvar(returns, TAU)
        row[1].axvline(tail, color="black", lw=1.3, ls="--", label=f"worst tenth {tail:.0f}")
        row[1].legend(frameon=False, fontsize=8, loc="upper left")
        row[1].set(yscale="log", ylim=(5e-5, 1.0), ylabel="share of games")
        row[1].spines[["top", "right"]].set_visible(False)
    axes[1, 0].set_xlabel("the darker, the more time is spent there")
    axes[1, 1].set_xlabel("return")
    path = target("cliff.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    print(f"wrote {path.name}")
