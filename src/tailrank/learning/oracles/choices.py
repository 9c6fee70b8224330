"""Which model class a learner fits, by name: the oracles of every step for an environment.

Nothing heavy is imported here before an oracle is made (`tailrank train --help` reads the settings).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tailrank._system.settings import Checked, setting
from tailrank.checks import InputError

if TYPE_CHECKING:
    from tailrank.envs.protocols import CountableEnv
    from tailrank.learning.oracles.fit import MleOracle
    from tailrank.learning.oracles.held_out import Menu


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

CHOICES: Mapping[str, Any] = ChainMap(MODELS, {"auto": None})
"""What may be asked for: also rows that are added to `MODELS` later."""

RANKS = (2, 4, 8)
"""Ranks of the models that are tried where nobody says one; those below the number of states."""
MOST_CELLS = 2_000_000
"""Cells (s, a, s') of a step up to which models of low rank are tried."""


@dataclass(frozen=True)
class ModelChoice(Checked):
    """A class of models by name, or chosen.

    "class": the environment's own finite class, seen through its known groups (|F| exact). "counts": every
    (state, action) for itself. "em": a free latent model of the given rank. "block": each state in one latent.
    "auto", the default: the simplest that held-out likelihood does not refute (`learning/oracles/held_out.py`). Where
    there is a class, among it and the counts of its groups; else among counts, em and block, by step and with all steps
    as one; with a rank, among em and block of that rank.

    >>> ModelChoice(rank=3).model
    'auto'
    """

    model: str = setting(
        "auto",
        words=CHOICES,
        metavar="|".join(CHOICES),
        help="What is fitted; those after block see observations.",
    )
    rank: int | None = setting(None, kind=int, metavar="D", help="Rank of the model (the most latents of a step).")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model in ("em", "block") and self.rank is None:
            raise InputError(f"rank: must be given for model {self.model!r}")
        if self.model in ("class", "counts") and self.rank is not None:
            raise InputError(f"rank = {self.rank}: is only for the models em and block, not for {self.model!r}")

    def sees_groups(self, env: CountableEnv) -> bool:
        """Whether states are seen through the environment's known groups, or one by one."""
        return self.model == "class" or (self.model == "auto" and self.rank is None and bool(env.candidates))

    @property
    def sparse(self) -> bool:
        """Tables of counts."""
        return False

    def make(self, env: CountableEnv) -> list[MleOracle]:
        """The H - 1 oracles of a class with a name."""
        if self.rank is not None and self.rank > env.n_states:
            raise InputError(f"rank = {self.rank}: must be at most the number of states, {env.n_states}")
        return MODELS[self.model](env, self.rank)

    def menu(self, env: CountableEnv, share: bool | None) -> Menu:
        """The candidates; share: whether all steps are fitted as one (None: where that is chosen, both)."""
        from tailrank.learning.oracles.held_out import Candidate, Menu

        if self.model != "auto":
            return Menu((Candidate(self.model, tuple(self.make(env)), bool(share)),))
        if self.sees_groups(env):
            known = [Candidate(name, tuple(MODELS[name](env, None)), bool(share)) for name in ("class", "counts")]
            return Menu(tuple(known))
        ways = (False, True) if share is None and env.horizon > 2 else (bool(share),)
        chosen: list[tuple[str, int | None]] = [] if self.rank else [("counts", None)]
        if self.rank or env.n_states**2 * env.n_actions <= MOST_CELLS:
            ranks = (self.rank,) if self.rank else tuple(rank for rank in RANKS if rank < env.n_states)
            chosen += [(name, rank) for name in ("block", "em") for rank in ranks]
        return Menu(
            tuple(
                Candidate(
                    name if rank is None else f"{name} of rank {rank}",
                    tuple(_quicker(oracle) for oracle in ModelChoice(name, rank).make(env)),
                    way,
                )
                for name, rank in chosen
                for way in ways
            )
        )


def _quicker(oracle: Any) -> Any:
    """The same oracle with few fresh starts: it is fitted again and again, and begins where it ended."""
    return replace(oracle, restarts=2) if getattr(oracle, "restarts", 1) > 2 else oracle


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


def menu_of(oracles: Any, env: CountableEnv, share: bool | None) -> Menu:
    """What may be fitted: what a `ModelChoice` offers, else the one thing that the oracles fit."""
    from tailrank.learning.oracles.held_out import Candidate, Menu

    if isinstance(oracles, ModelChoice):
        return oracles.menu(env, share)
    return Menu((Candidate("", tuple(oracles.make(env)), bool(share)),))
