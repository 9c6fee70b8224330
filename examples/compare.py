"""What the simulator examples share: train at one tau, compare policies on fresh episodes with intervals, draw.

Training plays even seeds, judging odd ones, so no policy is judged on an episode that it learned from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailrank import Schedule, cvar, cvar_interval, play_simulator
from tailrank.bootstrap import resamples
from tailrank.envs import open_simulator
from tailrank.learners.observed import ObservedELA
from tailrank.oracles.discriminative import Discriminative
from tailrank.streams import Streams

TAU = 0.1
PRIORS = (0.0, 1.0, 5.0, 20.0)
RED, BLUE, GREY = "#c8422b", "#1f5a96", "#8a8f98"
NAMES = {"tau = 0.1": RED, "tau = 1": BLUE, "uniform": GREY}
HERE = Path(__file__).resolve().parents[1] / "docs" / "img"


@dataclass(frozen=True)
class Task:
    """A simulator and how it is learned: `episodes` in all, then `trial` more for each smoothing that is tried."""

    make: Callable[[], Any] | str
    horizon: int
    reward_range: tuple[float, float]
    levels: int
    episodes: int
    rank: int = 16
    model: str = "mixture"
    alpha: float = 0.001
    batch: int = 8
    pilot: int = 100
    trial: int = 200
    fresh: int = 2000
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Any:
        """The simulator."""
        return open_simulator(self.make, horizon=self.horizon, width=self.batch, **self.options)


@dataclass(frozen=True)
class Uniform:
    """Uniform actions."""

    n_actions: int
    horizon: int
    rng: np.random.Generator

    def start(self, n: int) -> np.ndarray:
        return self.rng.integers(0, self.n_actions, size=(n, self.horizon))

    def act(self, h: int, states: np.ndarray, memory: np.ndarray) -> np.ndarray:
        return memory[:, h]

    def update(self, *told: Any) -> np.ndarray:
        return np.asarray(told[-1])


def learn(task: Task, simulator: Any, tau: float, seed: int) -> tuple[Any, dict[str, Any]]:
    """The policy after `episodes` episodes, and what is to be known about it."""
    learner = ObservedELA(
        tau, Discriminative(rank=task.rank, model=task.model, shared=True), Schedule(task.alpha, 1e-5), "visits",
        pilot=task.pilot, longest_pilot=max(task.pilot, task.episodes // 2), batch=task.batch, levels=task.levels,
        reward_range=task.reward_range,
    )  # fmt: skip
    streams = Streams(seed)
    state = learner.init(simulator, streams)
    while state.episodes < task.episodes:
        state, _ = learner.step(state, simulator, streams)
    found = []
    for i, prior in enumerate(PRIORS):
        policy = learner.greedy(state, simulator, prior)
        returns = play_simulator(policy, simulator, streams.train_seeds(state.k + 1 + i, task.trial)).returns
        found.append((cvar(returns, tau), -i, prior, policy))
    _, _, prior, policy = max(found, key=lambda x: x[:2])
    about = {
        "episodes": state.episodes + len(PRIORS) * task.trial, "steps": int(state.replay.lengths.sum()),
        "latents": int((state.policy.base > 0).sum()), "chosen": state.fitted.chosen, "prior": prior,
        "promise": learner.promise(state, simulator), "unit": state.grid.unit,
    }  # fmt: skip
    return policy, about


def judge(policy: Any, simulator: Any, seed: int, fresh: int) -> np.ndarray:
    """Returns [fresh] of episodes that were never played in training."""
    return np.asarray(play_simulator(policy, simulator, Streams(seed).evaluation_seeds(0, fresh)).returns)


def uniform(simulator: Any, seed: int, fresh: int) -> np.ndarray:
    """Returns [fresh] of uniform actions."""
    return judge(Uniform(simulator.n_actions, simulator.horizon, np.random.default_rng(seed)), simulator, seed, fresh)


def difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], tau: float = TAU
) -> tuple[float, float, float]:
    """Mean over runs of the CVaR of the first less that of the second, and a 95% bootstrap interval.

    first, second: the returns of each run. Runs are drawn with replacement, then the episodes of each.
    """
    rng = np.random.default_rng(0)
    values = [np.array([resamples(np.sort(x), tau, rng) for x in side]) for side in (first, second)]
    means = []
    for table in values:
        runs = rng.integers(0, len(table), size=(table.shape[1], len(table)))
        means.append(np.take_along_axis(table, runs.T, axis=0).mean(axis=0))
    gap = means[0] - means[1]
    estimate = np.mean([cvar(x, tau) for x in first]) - np.mean([cvar(x, tau) for x in second])
    return float(estimate), *(float(x) for x in np.quantile(gap, (0.025, 0.975)))


def compare(title: str, task: Task, unit: str, seed: int = 0) -> dict[str, np.ndarray]:
    """Learn at tau = 0.1 and at tau = 1, print what changed, draw; the returns of each policy."""
    if os.environ.get("TAILRANK_SMALL"):
        task = shorter(task, float(os.environ["TAILRANK_SMALL"]))
        title += f", shortened by {os.environ['TAILRANK_SMALL']}: the numbers mean nothing"
    with task.open() as simulator:
        returns, notes = {}, []
        for name, tau in (("tau = 0.1", TAU), ("tau = 1", 1.0)):
            policy, about = learn(task, simulator, tau, seed)
            returns[name] = judge(policy, simulator, seed, task.fresh)
            notes.append(misspecified(about["promise"], returns[name], tau))
        returns["uniform"] = uniform(simulator, seed, task.fresh)
    tell(title, returns, unit)
    for name, note in zip(returns, notes, strict=False):
        if note:
            print(f"{name}: {note}")
    return returns


def misspecified(promise: float, returns: np.ndarray, tau: float) -> str:
    """What to say if the model's promise lies outside the interval of fresh episodes, else nothing."""
    found = cvar_interval(returns, tau, method="bca", rng=np.random.default_rng(0))
    if found.lower <= promise <= found.upper:
        return ""
    return f"misspecified: the model promises {promise:.4g}, fresh episodes give {found.lower:.4g} to {found.upper:.4g}"


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


def shorter(task: Task, factor: float) -> Task:
    """The same with fewer episodes, to try things."""
    return replace(
        task, episodes=max(10, int(task.episodes * factor)), fresh=max(20, int(task.fresh * factor)),
        pilot=max(5, int(task.pilot * factor)), trial=max(10, int(task.trial * factor)),
    )  # fmt: skip
