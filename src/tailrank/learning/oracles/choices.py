"""Which model class a learner fits, by name: the oracles of every step for an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.protocols import CountableEnv
from tailrank.learning.oracles.block import BlockEM
from tailrank.learning.oracles.counts import EmpiricalCounts, TabularCounts
from tailrank.learning.oracles.finite_class import FiniteClass
from tailrank.learning.oracles.fit import MleOracle
from tailrank.learning.oracles.latent_em import LatentEM

MODELS = ("class", "counts", "em", "block")


@dataclass(frozen=True)
class ModelChoice:
    """A class of models by name.

    "class": the environment's own finite class, seen through its known groups (|F| exact). "counts": every
    (state, action) for itself. "em": a free latent model of the given rank. "block": each state in one latent.

    >>> ModelChoice("class").decoder, ModelChoice("em", rank=3).decoder
    (True, False)
    """

    name: str
    rank: int | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.name, "model", MODELS)
        if self.name in ("em", "block"):
            if self.rank is None:
                raise InputError(f"rank: must be given for model {self.name!r}")
            checks.whole(self.rank, "rank")
        elif self.rank is not None:
            raise InputError(f"rank = {self.rank}: is only for the models em and block, not for {self.name!r}")

    @property
    def decoder(self) -> bool:
        """Whether states are seen through the environment's known groups."""
        return self.name == "class"

    @property
    def sparse(self) -> bool:
        """Tables of counts."""
        return False

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        return _make(self, env)


@dataclass(frozen=True)
class SingleStates:
    """Relative frequencies of single states, however many: what tabular methods learn."""

    decoder: bool = False
    sparse: bool = True

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles."""
        return [EmpiricalCounts()] * (env.horizon - 1)


@lru_cache(maxsize=8)
def _make(choice: ModelChoice, env: CountableEnv) -> list[MleOracle]:
    if choice.name == "class":
        if env.horizon > 1 and not env.candidates:
            raise InputError(f"model = 'class': {env.name} has no finite class of models; use counts, em or block")
        return [FiniteClass(models) for models in env.candidates]
    rank = choice.rank or 0
    if rank > env.n_states:
        raise InputError(f"rank = {rank}: must be at most the number of states, {env.n_states}")
    makers: dict[str, Callable[[], MleOracle]] = {
        "counts": TabularCounts,
        "em": lambda: LatentEM(rank),
        "block": lambda: BlockEM(rank),
    }
    oracle = makers[choice.name]()
    return [oracle] * (env.horizon - 1)
