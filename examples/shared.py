"""What the simulator examples share: learn at one tau, compare policies on fresh episodes with intervals, draw.

Training plays even seeds, judging odd ones, so no policy is judged on an episode that it learned from.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import tailrank
from tailrank import cvar, cvar_interval, play_simulator
from tailrank.envs import open_simulator
from tailrank.episodes.streams import Streams
from tailrank.policies.tables import UniformPolicy
from tailrank.risk._bootstrap import resamples

TAU = 0.1
RED, BLUE, GREY = "#c8422b", "#1f5a96", "#8a8f98"
NAMES = {"tau = 0.1": RED, "tau = 1": BLUE, "uniform": GREY}
HERE = Path(__file__).resolve().parents[1] / "docs" / "img"


@dataclass(frozen=True)
class Task:
    """A simulator, episodes to learn from, and fresh ones to judge by; options: of `open_simulator`."""

    make: Callable[[], Any] | str
    horizon: int
    episodes: int
    fresh: int = 2000
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Any:
        """The simulator."""
        return open_simulator(self.make, horizon=self.horizon, width=8, **self.options)


def learn(task: Task, simulator: Any, tau: float, seed: int) -> tuple[np.ndarray, tailrank.Learned]:
    """Learn with default settings; the returns [fresh] of the policy in episodes that no training has seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a promise that is not kept is told below
        learned = tailrank.learn(simulator, tau=tau, episodes=task.episodes, seed=seed)
    return judge(learned.policy, simulator, seed, task.fresh), learned


def judge(policy: Any, simulator: Any, seed: int, fresh: int) -> np.ndarray:
    """Returns [fresh] of episodes that were never played in training."""
    return np.asarray(play_simulator(policy, simulator, Streams(seed).evaluation_seeds(0, fresh)).returns)


def uniform(simulator: Any, seed: int, fresh: int) -> np.ndarray:
    """Returns [fresh] of uniform actions."""
    policy = UniformPolicy(simulator.n_actions, simulator.horizon, np.random.default_rng(seed))
    return judge(policy, simulator, seed, fresh)


def difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], tau: float = TAU
) -> tuple[float, float, float]:
    """Mean over runs of the CVaR of the first less that of the second, and a 95% bootstrap interval.

    first, second: the returns of each run, those with the same seed side by side. Runs are drawn with replacement (both
    sides of a pair together), then the episodes of each.
    """
    rng = np.random.default_rng(0)
    values = [np.array([resamples(np.sort(x), tau, rng) for x in side]) for side in (first, second)]
    runs = rng.integers(0, len(first), size=values[0].shape)
    gap = np.take_along_axis(values[0] - values[1], runs, axis=0).mean(axis=0)
    estimate = np.mean([cvar(x, tau) for x in first]) - np.mean([cvar(x, tau) for x in second])
    return float(estimate), *(float(x) for x in np.quantile(gap, (0.025, 0.975)))


def compare(title: str, task: Task, unit: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Learn at tau = 0.1 and at tau = 1, print what changed, draw; the returns of each policy."""
    if os.environ.get("TAILRANK_SMALL"):
        title += f", shortened by {os.environ['TAILRANK_SMALL']}: the numbers mean nothing"
    with task.open() as simulator:
        returns, notes = {}, []
        for name, tau in (("tau = 0.1", TAU), ("tau = 1", 1.0)):
            returns[name], learned = learn(task, simulator, tau, seed)
            notes += [f"{name}: {learned.doubt}"] if learned.doubt else []
        returns["uniform"] = uniform(simulator, seed, task.fresh)
    tell(title, returns, unit)
    for note in notes:
        print(note)
    return returns


def tell(title: str, returns: dict[str, np.ndarray], unit: str) -> None:
    """CVaR and mean of each policy with 95% intervals, and the differences from tau = 0.1."""
    print(title)
    rng = np.random.default_rng(0)
    for name, x in returns.items():
        tail = cvar_interval(x, TAU, method="bca", rng=rng)
        half = 1.96 * x.std() / np.sqrt(x.size)
        print(
            f"{name:10} worst tenth {cvar(x, TAU):8.2f} ({tail.lower:.2f} to {tail.upper:.2f})   "
            f"mean {x.mean():8.2f} +- {half:.2f} {unit}"
        )
    for other in list(returns)[1:]:
        gap, low, high = difference([returns["tau = 0.1"]], [returns[other]])
        print(f"worst tenth, tau = 0.1 less {other}: {gap:.2f} ({low:.2f} to {high:.2f})")


def draw(path: Path, returns: dict[str, np.ndarray], label: str, least: float = -np.inf) -> None:
    """The returns of each policy one below the other, with the mean of the worst tenth and the mean.

    least: what is below it is drawn there; the numbers in the legend are those of the returns as they are.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    edges = np.histogram_bin_edges(np.maximum(np.concatenate(list(returns.values())), least), 40)
    figure, axes = plt.subplots(len(returns), 1, figsize=(6.4, 4.6), sharex=True, layout="constrained")
    for panel, (name, x) in zip(axes, returns.items(), strict=True):
        colour = NAMES.get(name, GREY)
        panel.hist(np.maximum(x, least), edges, weights=np.full(x.size, 1 / x.size), color=colour, alpha=0.8)
        panel.axvline(max(cvar(x, TAU), least), color="black", lw=1.4, ls="--", label=f"worst tenth {cvar(x, TAU):.3g}")
        panel.axvline(x.mean(), color="black", lw=1.1, ls=":", label=f"mean {x.mean():.3g}")
        panel.set_title(name, loc="left", fontsize=10, color=colour)
        panel.legend(frameon=False, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(label)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)
    print(f"wrote {path.name}")


def target(default: str) -> Path:
    """Where the picture goes: the first argument, else docs/img."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / default


def sized(task: Task) -> Task:
    """The task, or the same with a share of its episodes, if TAILRANK_SMALL says so: to see that everything runs."""
    share = os.environ.get("TAILRANK_SMALL")
    if not share:
        return task
    return replace(
        task, episodes=max(30, int(task.episodes * float(share))), fresh=max(20, int(task.fresh * float(share)))
    )
