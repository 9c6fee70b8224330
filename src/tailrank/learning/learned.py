"""What `learn` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tailrank.learning.protocol import COUNTABLE
from tailrank.models.mdp import FiniteMDP
from tailrank.policies import names
from tailrank.policies.predictor import Predictor
from tailrank.policies.result import Result, frame_of, number
from tailrank.policies.tables import Policy
from tailrank.risk.intervals import ConfidenceInterval

JUDGED = 1000
"""Fresh episodes that say what a policy earns."""


@dataclass(frozen=True, repr=False)
class Learned(Result):
    """A policy that was learned.

    promise: the CVaR (or other objective) that the learner's model promises, nan where it has none: a belief, which
    `evaluate` tests.
    returns [n]: of the episodes on the way, none where the learner keeps none. state, learner: for going on.
    doubt: why the promise is not to be believed, where fresh episodes say so.
    """

    policy: Policy
    tau: float
    promise: float
    episodes: int
    returns: np.ndarray
    state: Any = field(compare=False)
    learner: Any = field(compare=False)
    env: Any = field(compare=False)
    doubt: str = ""

    @property
    def encoder(self) -> Any:
        """How a Gymnasium environment's observations become features."""
        return getattr(self.env, "encoder", None)

    @property
    def actions(self) -> Any:
        """How a Gymnasium environment's actions are numbered."""
        return getattr(self.env, "actions", None)

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        goal = f"the CVaR at tau = {self.tau:g}" if self.learner.goal.tail else str(self.learner.measure)
        return f"Policy learned in {self.env.name} for {goal}"

    @property
    def facts(self) -> dict[str, str]:
        """What is known about it."""
        found = {"learner": type(self.learner).__name__, "episodes": str(self.episodes)}
        if self.known_law is not None:
            law = self.known_law
            if not self.learner.goal.tail:
                found["value"] = f"{number(self.learner.measure.of_law(law))} (exact)"
            found |= {"CVaR": f"{number(law.cvar(self.tau))} (exact)", "mean": number(law.mean)}
        else:
            if "estimate" in self.__dict__:  # asked for before; printing alone plays no episodes
                span = self.interval
                found["CVaR"] = f"{number(self.cvar)}, {number(span.lower)} to {number(span.upper)} ({JUDGED} episodes)"
            if not math.isnan(self.promise):
                found["model promises"] = (
                    f"{self.learner.goal.said_as} {number(self.promise)}; test it with evaluate(episodes=1000)"
                )
            if self.returns.size:
                last = self.returns[-min(100, self.returns.size) :]
                found["last returns"] = f"mean {number(float(last.mean()))} over {last.size} episodes while learning"
        return found

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed about the environment, what went wrong there, and why the promise is in doubt."""
        survived = self.env.misfortunes() if hasattr(self.env, "misfortunes") else []
        return (*getattr(self.env, "notes", ()), *survived, *([self.doubt] if self.doubt else []))

    @property
    def home(self) -> Any:
        """The true MDP where states are counted, few, and have rewards on the grid, else the environment."""
        if self.learner.kind != COUNTABLE or getattr(self.env, "real", None) is not None:
            return self.env
        plain = all(np.array_equal(g, np.arange(self.env.truth.n_states)) for g in self.env.group)
        return self.env.truth if plain or self.learner.sees_groups(self.env) else self.env

    @cached_property
    def known_law(self) -> Any:
        """The exact law of the return where the true MDP is at hand, else None."""
        return self.estimate.law if isinstance(self.home, FiniteMDP) else None

    @cached_property
    def estimate(self) -> Any:
        """What the policy earns, an `Estimate`: exact where the true MDP is at hand, else from `JUDGED` fresh episodes,
        which are played when this is asked for, once."""
        exact = isinstance(self.home, FiniteMDP)
        return self.evaluate() if exact else self.evaluate(episodes=JUDGED)

    @property
    def cvar(self) -> float:
        """The CVaR of the policy, see `estimate`."""
        return float(self.estimate.cvar)

    @property
    def interval(self) -> ConfidenceInterval:
        """Where the CVaR of the policy lies with confidence 0.95; where it is exact, that point."""
        return self.estimate.cvar_interval

    @property
    def labels(self) -> tuple[Sequence[object], Sequence[object]]:
        """Names of the states and of the actions."""
        truth = self.home
        return (truth.labels, truth.action_labels) if isinstance(truth, FiniteMDP) else ((), ())

    @cached_property
    def predictor(self) -> Predictor:
        """The policy in the shape of Stable-Baselines3, for the environment's own observations and actions."""
        return Predictor(self.policy, self.encoder, actions=self.actions)

    def about(self) -> dict[str, Any]:
        """What a policy file keeps beside the policy."""
        own = [names.own_names(labels) for labels in self.labels]
        found = {name: labels for name, labels in zip(("states", "actions"), own, strict=True) if labels}
        promise = {} if math.isnan(self.promise) else {"promise": self.promise}
        head = {"source": self.env.name, "tau": self.tau, "episodes": self.episodes} | promise
        return head | found | (self.env.about() if hasattr(self.env, "about") else {})

    def to_frame(self) -> Any:
        """The policy where it is a table, else the returns of the episodes on the way."""
        if self.learner.kind == COUNTABLE:
            return super().to_frame()
        return frame_of({"episode": np.arange(self.returns.size), "return": self.returns})
