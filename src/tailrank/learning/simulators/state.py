"""Where a learner with candidates stands, and what happened in an iteration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tailrank._system.arrays import check_arrays
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.learning.protocol import mean_return
from tailrank.learning.simulators.candidates import CandidateOutput, FittedCandidate
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.risk.law import cvar


@dataclass(frozen=True)
class CandidatesInfo:
    """What happened in an iteration: returns [n] of its episodes, the promise and the fits in words."""

    returns: np.ndarray
    tau: float
    promise: float
    about: str

    @property
    def cvar(self) -> float:
        """Of the episodes of the iteration."""
        return cvar(self.returns, self.tau)

    @property
    def mean(self) -> float:
        """Of their returns."""
        return float(self.returns.mean())

    def row(self) -> dict[str, Any]:
        """The columns of a row."""
        played = {"objective": self.promise, "played": self.cvar, "model": self.about}
        return mean_return(self.returns) | played


@dataclass(frozen=True)
class EarlierFit:
    """The fits of iteration k, when `episodes` had been played."""

    k: int
    episodes: int
    fitted: tuple[FittedCandidate, ...]


@dataclass(frozen=True)
class CandidatesState:
    """Where the learner stands: iterations, episodes for learning, fits, the iteration of the last fit, and earlier
    fits, the latest first; in the choice, the outputs that are left (`finalists`), their returns in the last round,
    [finalists, n], and in the rounds `before`, [finalists, m], what it cost, whether it is over and has begun, and
    imagined returns of all outputs [outputs, k]; going: the candidates that are left after the trial, or all.
    """

    k: int
    played: PlayedEpisodes
    fitted: tuple[FittedCandidate, ...]
    fitted_at: int = 0
    finalists: tuple[int, ...] = ()
    returns: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    choice_episodes: int = 0
    choice_steps: int = 0
    chosen: bool = False
    earlier: tuple[EarlierFit, ...] = ()
    choosing: bool = False
    imagined: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    before: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    going: tuple[int, ...] = ()

    @property
    def all_rounds(self) -> np.ndarray:
        """Returns [finalists, m + n] in all rounds of the choice."""
        return np.hstack([self.before, self.returns])

    def rounds_of(self, outputs: tuple[int, ...]) -> np.ndarray:
        """The same for outputs that survived the last round; before the first one there are none, [outputs, 0]."""
        if not self.finalists:
            return np.zeros((len(outputs), 0))
        return self.all_rounds[[self.finalists.index(i) for i in outputs]]

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return self.played.n + self.choice_episodes

    @property
    def steps(self) -> int:
        """Steps played."""
        return self.played.steps + self.choice_steps

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        arrays = self.played.to_arrays()
        arrays["job.k"] = np.array([self.k])
        arrays["counters"] = np.array(
            [self.k, self.fitted_at, self.choice_episodes, self.choice_steps, self.chosen, self.choosing],
            dtype=np.int64,
        )
        arrays |= {"finalists": np.array(self.finalists, dtype=np.int64), "returns": self.returns}
        arrays["before"] = self.before
        arrays["imagined"], arrays["going"] = self.imagined, np.array(self.going, dtype=np.int64)
        arrays["earlier"] = np.array([(fit.k, fit.episodes) for fit in self.earlier], dtype=np.int64).reshape(-1, 2)
        for place, fits in enumerate((self.fitted, *(fit.fitted for fit in self.earlier))):
            for i, fitted in enumerate(fits):
                own = fitted.to_arrays()
                arrays |= {f"{fit_prefix(place, i)}{name}": array for name, array in own.items()}
        return arrays


def check_candidates(arrays: dict[str, np.ndarray], env: Simulator, candidates: int) -> None:
    """Raise unless the arrays of a checkpoint, but for those of the fits, can be a state with so many candidates."""
    described = {
        "counters": "whole [6] >= 0",
        "finalists": "whole [F*] >= 0",
        "returns": "float64 [F*, m*]",
        "before": "float64 [F*, n*]",
        "imagined": "float64 [o*, k*]",
        "going": f"whole [g*] >= 0, < {candidates}",
        "earlier": "whole [e*, 2] >= 0",
        "played.actions": f"whole [T*] >= 0, < {env.n_actions}",
        "played.rewards": "float64 [T*]",
        "played.lengths": f"whole [N*] > 0, <= {env.horizon}",
    }
    check_arrays({name: arrays[name] for name in described}, described)
    if not np.isfinite(arrays["played.observations"]).all():
        raise InputError("played.observations: must be finite")


def fit_prefix(place: int, candidate: int) -> str:
    """What the arrays of a fit are called by: place 0 is the last fit, then come the earlier ones."""
    return f"candidate.{candidate}." if place == 0 else f"earlier.{place}.{candidate}."


def all_outputs(state: CandidatesState) -> list[CandidateOutput]:
    """Of all candidates; in the choice those of the last fit come first, then those of the one before, and so on."""
    found = [output for fitted in state.fitted for output in fitted.outputs()]
    for fit in state.earlier if state.choosing else ():
        named = f"after {fit.episodes} episodes"
        found += [replace(output, name=f"{output.name}, {named}") for one in fit.fitted for output in one.outputs()]
    return found
