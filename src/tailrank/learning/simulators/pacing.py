"""How the episodes of a learner with candidates are spent: a pilot, batches that grow, a trial, a choice."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tailrank import checks
from tailrank._system.settings import fixed, setting, share
from tailrank.envs.protocols import Simulator
from tailrank.learning.protocol import SimulatorLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.state import CandidatesState

TAIL, LEAST = 400, 2000
"""Episodes of the choice: so many in the tail, or this many in all, at most."""
ALWAYS, WHEN, TRIED, LEAST_TRIED = 2, 1 / 3, 0.04, 5
"""Candidates of which none is given up; how much of the learning is over then; episodes of each candidate as a share
of all that are for learning, and how many these must be."""


@dataclass(frozen=True)
class PacedLearner(SimulatorLearner):
    """A learner that knows how many episodes there are, or steps in their place (`total_steps`; what is left is then
    counted in episodes as long as the last ones)."""

    pilot: int | None = setting(
        None, kind=int, least=2, metavar="N", help="Random episodes at first (an eighth of all, at least 8)."
    )
    growth: float = setting(
        0.3, kind=float, check=checks.positive, metavar="P", help="Episodes before the next fit, of those played."
    )
    choice: float = share(0.2, interval="[0, 1)", help="Share of all episodes for the choice among outputs.")
    total_steps: int | None = fixed(None)

    def _batch(self, state: CandidatesState, env: Simulator) -> int:
        """Episodes of the next batch; a rest that is too small for one of its own is added to it."""
        n = max(int(self.growth * state.played.n), 2 * len(state.fitted))
        left = self._left(state, env.horizon, self._learning_share(env.horizon))
        if state.played.n == 0:
            n = self.pilot or (20 if math.isinf(left) else max(int(left / 8), 8))
        return max(int(left), 1) if left < 1.5 * n else n

    def _learning_share(self, horizon: int) -> float:
        """The share of all episodes that is for learning; many more than `TAIL` in the tail choose no better."""
        total = math.inf if self.total is None else self.total
        total = total if self.total_steps is None else min(total, self.total_steps / horizon)
        return 1.0 - min(self.choice, max(TAIL / self.tau, LEAST) / total)

    def _left(self, state: CandidatesState, horizon: int, share: float) -> float:
        """Episodes that are left of this share of all; infinite where nobody said how many there are."""
        left = math.inf if self.total is None else self.total * share - state.episodes
        if self.total_steps is None:
            return left
        steps = self.total_steps * share - state.steps
        recent = state.played.lengths[-max(state.played.n // 4, 1) :]
        return min(left, steps / (float(recent.mean()) if recent.size else horizon))

    def _done(self, played: PlayedEpisodes, horizon: int) -> float:
        """The share of the learning that these episodes are; a third where nobody said how many there will be."""
        share, parts = self._learning_share(horizon), []
        parts += [] if self.total is None else [played.n / (share * self.total)]
        parts += [] if self.total_steps is None else [played.steps / (share * self.total_steps)]
        return min(max(parts, default=WHEN), 1.0)

    def _tried(self, state: CandidatesState, env: Simulator) -> bool:
        """Whether it is time for the trial: there are many candidates, and a third of the learning is over."""
        if len(state.fitted) <= ALWAYS or (self.total is None and self.total_steps is None):
            return False
        return self._done(state.played, env.horizon) >= WHEN and self._trial(state, env) >= LEAST_TRIED

    def _trial(self, state: CandidatesState, env: Simulator) -> int:
        """Episodes of each candidate in the trial."""
        return int(TRIED * state.played.n / max(self._done(state.played, env.horizon), 1e-9))

    def over(self, state: CandidatesState, horizon: int) -> bool:
        """Whether everything has been played, and the choice made."""
        return state.chosen or self._left(state, horizon, 1.0) <= 0
