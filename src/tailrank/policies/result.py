"""What every answer can do, whoever found it: `solve`, `learn`, `learn_logs` and `load` return a `Result`.

    result.predict(observation, state)   the action, in the shape of Stable-Baselines3
    result.evaluate()                    CVaR, VaR and mean, exact or with intervals
    result.save("shop.policy")           and tailrank.load reads it back
    result.report("shop.html")           a page that works offline
    result.to_frame()                    the policy as a data frame

The verbs are those of the package, so that this module needs nothing above it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrank.checks import InputError
from tailrank.policies import names
from tailrank.policies._picture import page
from tailrank.policies.predictor import Predictor, PredictorState
from tailrank.policies.rows import policy_columns
from tailrank.policies.tables import Policy
from tailrank.risk.law import ReturnLaw

FRAMES = ("pandas", "polars")


class Result:
    """A policy and what is known about it. Whoever inherits says how it looks (`facts`) and where it plays (`home`)."""

    if TYPE_CHECKING:

        @property
        def policy(self) -> Policy:
            """What is played."""
            ...

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return type(self).__name__

    @property
    def facts(self) -> dict[str, str]:
        """What a reader wants to know first: names and values, both short."""
        return {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed or should be known, a line each."""
        return ()

    @property
    def home(self) -> Any:
        """Where the policy plays if nobody says, None where that is not known."""
        return None

    @property
    def level(self) -> float | None:
        """The tail fraction that the policy was made for."""
        return getattr(self, "tau", None)

    @property
    def known_law(self) -> ReturnLaw | None:
        """The law of the return, as far as it is known."""
        return None

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions; empty where they are numbers from 0."""
        return (), ()

    def about(self) -> dict[str, Any]:
        """What a policy file keeps beside the policy: plain data."""
        return {}

    @cached_property
    def predictor(self) -> Predictor:
        """The policy in the shape of Stable-Baselines3."""
        return Predictor(self.policy)

    def predict(
        self,
        observation: Any,
        state: PredictorState | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, PredictorState | None]:
        """The action for an observation, or actions for a batch, and the state to hand in next time.

        observation: what the environment shows; a state of a finite MDP by number from 0 or by name, and who asks by
        name is answered by name. state: None in the first step of an episode, later what `reward` gave. episode_start,
        deterministic: as in Stable-Baselines3 (see `Predictor`).
        """
        if not names.is_named(observation):
            return self.predictor.predict(observation, state, episode_start, deterministic)
        states, moves = self.labels
        found, after = self.predictor.predict(names.numbered(observation, states), state, episode_start, deterministic)
        return names.named(found, moves), after

    def reward(self, state: PredictorState, rewards: Any) -> PredictorState:
        """The state after the rewards of the last actions: the budget that is left moves with them."""
        return self.predictor.reward(state, rewards)

    def evaluate(
        self, env: Any = None, tau: float | None = None, *, episodes: int | None = None, seed: int = 0, **options: Any
    ) -> Any:
        """An `Estimate`: CVaR, VaR and mean of the policy.

        Exact in a finite MDP, else from `episodes` played with `seed`. env: where to play, by default where the
        policy comes from. tau: by default that of the policy. options: those of `tailrank.evaluate`.
        """
        where = self.home if env is None else env
        if where is None:
            raise InputError(
                "env: must be given, a policy from a file does not bring its environment: evaluate(env=...)"
            )
        return _public("evaluate")(self, where, tau, episodes=episodes, seed=seed, **options)

    def save(self, path: str | Path) -> None:
        """Write the policy and what is known about it to a file, which `tailrank.load` reads."""
        _public("save")(self, path)

    def report(self, path: str | Path, **options: Any) -> int:
        """Write a page about it that works offline; the bytes written. options: those of `tailrank.report.write`."""
        return importlib.import_module("tailrank.report").write(self, path, **options)

    def to_frame(self) -> Any:
        """The policy as a data frame of pandas, or of Polars where there is no pandas: an action in each row."""
        return frame_of(policy_columns(self.policy, *self.labels))

    def __repr__(self) -> str:
        width = max(map(len, self.facts), default=0)
        lines = [f"  {name:<{width}}  {value}" for name, value in self.facts.items()]
        return "\n".join([self.title, *lines, *(f"  note: {line}" for line in self.remarks)])

    def _repr_html_(self) -> str:
        notes = {f"note {i}": line for i, line in enumerate(self.remarks, start=1)}
        return page(self.title, self.facts | notes, self.known_law, self.level)


def frame_of(columns: dict[str, Any]) -> Any:
    """A data frame with these columns."""
    for library in FRAMES:
        try:
            return importlib.import_module(library).DataFrame(columns)
        except ModuleNotFoundError:
            continue
    raise InputError(f"to_frame: needs {' or '.join(FRAMES)}; pip install 'tailrank[frames]'")


def number(value: float | None) -> str:
    """A number in at most six digits."""
    return "-" if value is None else f"{value + 0.0:.6g}"


def _public(name: str) -> Any:
    return getattr(importlib.import_module("tailrank"), name)
