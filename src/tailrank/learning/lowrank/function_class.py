"""A finite class F of pairs (phi, psi) that a user hands over as functions, and the most likely member of it.

    phi(x) [n, A, d]: rows on the simplex          psi(x') [n, d]: densities
    P(x' | x, a) = sum_j phi_j(x, a) psi_j(x')
    the MLE of step h: the first member with the largest sum over data of log sum_j phi_j(x, a) psi_j(x')

States are vectors that need never repeat, so nothing is counted: a member is judged by what it says of each transition.
The densities may carry any factor that depends on x' alone and is the same for every member and every j. |F| is the
number of members. Rewards are known, as in the paper. Where episodes may end early, the end is one more kind of phi,
and a transition that ended has the likelihood phi_d(x, a).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrank.checks import PROBABILITY_TOLERANCE, InputError
from tailrank.learning.simulators.played import PlayedTransitions
from tailrank.planning.observed.support import RewardKinds, reward_kinds

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ClassMember:
    """A pair (phi, psi) of functions of raw states [n, m]."""

    phi: Function
    psi: Function


@dataclass(frozen=True)
class KnownRewards:
    """Laws of rewards: law(h, x) [n, A, L] over the levels [L], which grow."""

    levels: np.ndarray
    law: Callable[[int, np.ndarray], np.ndarray]

    @classmethod
    def of(cls, simulator: Any) -> KnownRewards:
        """Those of a simulator that tells them (`levels` and `reward_laws`)."""
        if not hasattr(simulator, "reward_laws") or not hasattr(simulator, "levels"):
            raise InputError(f"rewards: {simulator.name} does not tell its laws; give KnownRewards(levels, law)")
        return cls(simulator.levels, simulator.reward_laws)

    def __post_init__(self) -> None:
        levels = np.asarray(self.levels, dtype=np.float64)
        object.__setattr__(self, "levels", levels)
        if levels.ndim != 1 or levels.size == 0 or not np.isfinite(levels).all() or (np.diff(levels) <= 0.0).any():
            raise InputError(f"levels: must be finite numbers that grow, found {self.levels!r:.60}")

    def kinds(self, horizon: int) -> RewardKinds:
        """As the planner takes them: every level is a law of its own."""
        return reward_kinds(self.levels, horizon, most=self.levels.size)[0]

    def check(self, seen: np.ndarray) -> None:
        """Raise unless the rewards [n] that were paid are among the levels."""
        away = np.abs(self.levels[np.argmin(np.abs(np.unique(seen)[:, None] - self.levels), axis=1)] - np.unique(seen))
        if away.size and away.max() > 1e-9 * max(1.0, float(np.abs(self.levels).max())):
            odd = float(np.unique(seen)[np.argmax(away)])
            raise InputError(f"rewards: {odd:g} was paid, which is none of the {self.levels.size} known levels")

    def at(self, h: int, x: np.ndarray, n_actions: int) -> np.ndarray:
        """The laws [n, A, L] of states [n, m] at step h."""
        return _on_simplex(self.law(h, x), (len(x), n_actions, self.levels.size), f"rewards: law at step {h}")


@dataclass(frozen=True)
class FunctionClass:
    """The class F; members may be given as plain pairs.

    ends: the last kind of phi is the end of the episode; psi has one column less than phi.
    """

    members: Sequence[Any]
    ends: bool = False

    def __post_init__(self) -> None:
        found = []
        for i, member in enumerate(self.members):
            pair = (member.phi, member.psi) if isinstance(member, ClassMember) else member
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(callable(f) for f in pair):
                raise InputError(f"members[{i}]: must be a pair of functions (phi, psi), found {member!r:.60}")
            found.append(ClassMember(*pair))
        if not found:
            raise InputError("members: at least one is needed, found none")
        object.__setattr__(self, "members", tuple(found))

    @property
    def size(self) -> int:
        """|F|."""
        return len(self.members)

    @property
    def log_size(self) -> float:
        """log |F|, exact."""
        return float(np.log(self.size))

    def phi(self, i: int, x: np.ndarray, n_actions: int) -> np.ndarray:
        """phi of member i at states [n, m], [n, A, d]."""
        found = np.asarray(self.members[i].phi(x))
        d = found.shape[-1] if found.ndim else 0
        return _on_simplex(found, (len(x), n_actions, max(d, 1)), f"members[{i}]: phi")

    def psi(self, i: int, x: np.ndarray, d: int) -> np.ndarray:
        """psi of member i at states [n, m], [n, d]."""
        name = f"members[{i}]: psi"
        found = _numbers(self.members[i].psi(x), (len(x), d), name)
        bad = np.argwhere(~(found >= 0.0))
        if bad.size:
            raise InputError(f"{name}{bad[0].tolist()} = {found[tuple(bad[0])]:g}: a density must not be negative")
        return found

    def scores(self, seen: PlayedTransitions, n_actions: int, steps: int) -> np.ndarray:
        """The log-likelihood of transitions [T] at each step h = 0..steps - 1 under every member, [steps, F]."""
        x, after = seen.features.astype(np.float64), seen.after.astype(np.float64)
        result, dimension = np.zeros((steps, self.size)), 0
        if seen.n == 0:
            return result
        for i in range(self.size):
            phi = self.phi(i, x, n_actions)[np.arange(len(x)), seen.actions]
            dimension = dimension or phi.shape[1]
            if phi.shape[1] != dimension:
                raise InputError(f"members[{i}]: phi has d = {phi.shape[1]}, members[0] has {dimension}")
            on = dimension - int(self.ends)
            likely = (phi[:, :on] * self.psi(i, after, on)).sum(axis=1)
            if self.ends:
                likely = np.where(seen.ended, phi[:, -1], likely)
            with np.errstate(divide="ignore"):
                logs = np.log(likely)
            for h in range(steps):
                result[h, i] = logs[seen.step == h].sum()
        return result

    def most_likely(self, scores: np.ndarray) -> int:
        """The first member with the largest of the scores [F]; -inf: it excludes what was seen."""
        best = int(np.argmax(scores))
        if scores[best] == -np.inf:
            raise InputError(f"members: not realizable, each of the {self.size} members excludes a transition seen")
        return best


def _on_simplex(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    found = _numbers(values, shape, name)
    bad = np.argwhere(~(found >= -PROBABILITY_TOLERANCE))
    if bad.size:
        raise InputError(f"{name}{bad[0].tolist()} = {found[tuple(bad[0])]:g}: a probability must not be negative")
    total = found.sum(axis=-1)
    off = np.argwhere(~(np.abs(total - 1.0) <= PROBABILITY_TOLERANCE))
    if off.size:
        raise InputError(f"{name}{off[0].tolist()} sums to {total[tuple(off[0])]:.9g}, expected 1")
    return np.maximum(found, 0.0)


def _numbers(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: must return numbers, found {values!r:.60}") from None
    if found.shape != shape:
        raise InputError(f"{name}: must have shape {list(shape)}, found {list(found.shape)}")
    if not np.isfinite(found).all():
        place = np.argwhere(~np.isfinite(found))[0]
        raise InputError(f"{name}{place.tolist()} = {found[tuple(place)]}: must be finite")
    return found
