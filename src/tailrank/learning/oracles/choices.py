"""Which model class a learner fits, by name: the oracles of every step for an environment.

Nothing heavy is imported here before an oracle is made (`tailrank train --help` reads the settings).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrank._system.settings import Checked, setting
from tailrank.checks import InputError

if TYPE_CHECKING:
    from tailrank.envs.protocols import CountableEnv
    from tailrank.learning.oracles.fit import MleOracle


def _finite_class(env: CountableEnv, rank: int | None) -> list[MleOracle]:
    from tailrank.learning.oracles.finite_class import FiniteClass

    if env.horizon > 1 and not env.candidates:
        raise InputError(f"model = 'class': {env.name} has no finite class of models; use counts, em or block")
    return [FiniteClass(models) for models in env.candidates]


def _counts(env: CountableEnv, rank: int | None) -> list[MleOracle]:
    from tailrank.learning.oracles.counts import TabularCounts

    return [TabularCounts()] * (env.horizon - 1)


def _latent_em(env: CountableEnv, rank: int | None) -> list[MleOracle]:
    from tailrank.learning.oracles.latent_em import LatentEM

    return [LatentEM(rank or 0)] * (env.horizon - 1)


def _block(env: CountableEnv, rank: int | None) -> list[MleOracle]:
    from tailrank.learning.oracles.block import BlockEM

    return [BlockEM(rank or 0)] * (env.horizon - 1)


MODELS: dict[str, Callable[[CountableEnv, int | None], list[MleOracle]]] = {
    "class": _finite_class,
    "counts": _counts,
    "em": _latent_em,
    "block": _block,
}
"""The classes of models by name, one row each: the H - 1 oracles for an environment and a rank (None: not given)."""


@dataclass(frozen=True)
class ModelChoice(Checked):
    """A class of models by name.

    "class": the environment's own finite class, seen through its known groups (|F| exact). "counts": every
    (state, action) for itself. "em": a free latent model of the given rank. "block": each state in one latent.
    Without a name: em where a rank is given, else the environment's class where it has one, else counts.

    >>> ModelChoice("class").name_for(None), ModelChoice(rank=3).name_for(None)
    ('class', 'em')
    """

    model: str | None = setting(
        None, words=MODELS, metavar="|".join(MODELS), help="What is fitted; the last four see observations."
    )
    rank: int | None = setting(None, kind=int, metavar="D", help="Rank of the model (the most latents of a step).")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model in ("em", "block") and self.rank is None:
            raise InputError(f"rank: must be given for model {self.model!r}")
        if self.model in ("class", "counts") and self.rank is not None:
            raise InputError(f"rank = {self.rank}: is only for the models em and block, not for {self.model!r}")

    def name_for(self, env: CountableEnv | None) -> str:
        """The name of the class of models that is fitted in this environment."""
        if self.model is not None or self.rank is not None:
            return self.model or "em"
        return "class" if env is not None and env.candidates else "counts"

    def sees_groups(self, env: CountableEnv) -> bool:
        """Whether states are seen through the environment's known groups, or one by one."""
        return self.name_for(env) == "class"

    @property
    def sparse(self) -> bool:
        """Tables of counts."""
        return False

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        if self.rank is not None and self.rank > env.n_states:
            raise InputError(f"rank = {self.rank}: must be at most the number of states, {env.n_states}")
        return MODELS[self.name_for(env)](env, self.rank)


@dataclass(frozen=True)
class SingleStates:
    """Relative frequencies of single states, however many: what tabular methods learn."""

    sparse: bool = True

    def sees_groups(self, env: CountableEnv) -> bool:
        """Never."""
        return False

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        from tailrank.learning.oracles.counts import EmpiricalCounts

        return [EmpiricalCounts()] * (env.horizon - 1)
