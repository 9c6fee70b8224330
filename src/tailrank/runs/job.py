"""What a run does between its first and its last row: a learner, a judge, and what a checkpoint must hold.

One job serves all learners. Where states can be counted every plan is judged exactly, regret is counted, and a few
plans are kept for the output rule; on simulators fresh episodes judge, and a learner that keeps its episodes has them
in files of their own (episodes-*.safetensors, only what is new for each checkpoint), so that checkpoints stay small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tailrank._system.atomic import write_bytes
from tailrank._system.telling import doing
from tailrank.checks import InputError, whole
from tailrank.episodes.streams import Streams
from tailrank.learning.judge import ExactJudge, FreshJudge
from tailrank.learning.lowrank.state import LowRankState
from tailrank.learning.observed.doubts import doubts
from tailrank.learning.observed.state import ObservedState
from tailrank.learning.output import Iterates, OutputRule
from tailrank.learning.promise import broken_promise
from tailrank.learning.protocol import COUNTABLE, ReturnedPolicy
from tailrank.learning.train import iterate
from tailrank.planning.evaluate import return_range
from tailrank.runs import _episodes as shards
from tailrank.runs import folder as files
from tailrank.runs._restored import check_finite, check_lowrank, check_observed, restoring
from tailrank.runs.beside import Beside
from tailrank.runs.build import digest_of, environment
from tailrank.runs.config import RunConfig
from tailrank.runs.policy_files import storage

EVALUATION = "evaluation.safetensors"
FORESEEN = "{name} plans its episodes ahead: a run with this length from the beginning would have played others"
AGAIN = "{name} keeps no state of its own: the run went on by playing its first {rows} rows again"


@dataclass
class Job:
    """A learner in an environment.

    value: the CVaR of the last plan judged, or what another objective says; regret: the sum of what plans fell short of
    the best. total: the episodes after which it is over, if there is such a number.
    """

    config: RunConfig
    env: Any
    learner: Any
    rule: OutputRule
    streams: Streams
    digest: str
    total: int | None
    iterates: Iterates
    fresh: Any = None
    value: float | None = None
    regret: float = 0.0
    saved: int = 0
    skipped: int = 0
    found: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, config: RunConfig, env: Any = None) -> Job:
        """The job that the configuration describes; raises where it does not fit the environment."""
        learner = config.make_learner()
        env = environment(config) if env is None else env
        streams, run = Streams(config.seed), config.run
        total = run.episodes
        if total is None and learner.kind != COUNTABLE and not learner.keeps_episodes:
            total = run.iterations * learner.episodes_each(env.horizon)
        learner = learner.prepared(env, streams, total)
        rule = OutputRule(run.output, run.output_episodes)
        countable = learner.kind == COUNTABLE
        if countable:
            ExactJudge.check(learner, env)
        drawn = rule.drawn(run.iterations, streams, earlier=bool(config.written)) if countable else []
        job = cls(config, env, learner, rule, streams, digest_of(config, env), total, Iterates(frozenset(drawn)))
        if countable or not learner.keeps_episodes:
            job.fresh = learner.init(env, streams)  # nothing is played for it
        return job

    @property
    def star(self) -> float | None:
        """CVaR*, or the best of another objective, if it is known."""
        return self.judge.star

    @property
    def exact(self) -> bool:
        """Whether plans are judged exactly."""
        return bool(self.learner.kind == COUNTABLE)

    @property
    def notes(self) -> list[str]:
        """Those of the environment, which guarantee holds for an objective, and what the run found out."""
        survived = self.env.misfortunes(self.skipped) if hasattr(self.env, "misfortunes") else []
        return [*getattr(self.env, "notes", ()), *self._guarantee, *self.found, *survived]

    @property
    def _objective(self) -> Any:
        """The objective, None for CVaR."""
        return None if self.learner.goal.tail else self.learner.measure

    @property
    def _guarantee(self) -> tuple[str, ...]:
        goal, tau = self.learner.goal, self.learner.tau
        between = return_range(self.env)
        if between is None and not goal.tail:
            return (f"objective {self._objective}: no bound on the regret is known where returns have no known range",)
        return () if between is None else tuple(goal.said(tau, *between))

    @property
    def k(self) -> int:
        """Iterations done."""
        return int(self.state.k)

    def begin(self, out: Path, arrays: dict[str, np.ndarray] | None) -> None:
        """Stand at the first iteration, or where a checkpoint says; finds CVaR*, which may take a while."""
        learner, env, streams = self.learner, self.env, self.streams
        if arrays is not None:
            self.skipped = int(arrays.pop("job.skipped", np.zeros(1))[0])
        if arrays is None:
            with doing("playing the first episodes"):
                self.state: Any = learner.init(env, streams) if self.fresh is None else self.fresh
        elif self.exact:
            with restoring():
                check_finite(arrays, self.fresh, env, learner.sees_groups(env))
                self.state = self.fresh.from_arrays(arrays)
                self.iterates.restore(arrays)
            if self.iterates.missing(self.k) and self.rule.name == "uniform":
                raise InputError("output = 'uniform': the iterate that it draws was not kept; use best or greedy")
            if missing := self.iterates.missing(self.k):
                said = ", ".join(map(str, missing))
                self.found.append(f"output: iterates {said} were not kept by the rule before; chosen among the others")
        elif learner.keeps_episodes:
            with restoring():
                (check_lowrank if "lowrank.counters" in arrays else check_observed)(arrays, env)
            grid = arrays.get("grid", np.array([0.0, 1.0]))
            replay = shards.read(out, env, int(arrays["episodes"][0]), (float(grid[0]), float(grid[1])))
            self.saved = replay.n
            with restoring():
                self.state = learner.resumed(learner.state_from(arrays, replay), env)
        else:
            with restoring():
                rows = whole(arrays["job.k"][0], "job.k", least=0)
                self.state = learner.restored(arrays, env, streams) if rows else self.fresh
            if rows and not learner.stored:
                self.found.append(AGAIN.format(name=self.config.algorithm, rows=rows))
        run = self.config.run
        with doing("solving the problem, to know what is best"):
            self.judge: Any = (
                ExactJudge.of(learner, env)
                if self.exact
                else FreshJudge(learner.tau, env, streams, run.evaluation_episodes, run.evaluate_every, self._objective)
            )

    def lengthen(self, before: RunConfig) -> None:
        """Note where the run is not what it would be if it had had this length from the beginning."""
        mine, theirs = (
            (config.iterations if self.exact else (config.iterations, config.run.episodes))
            for config in (self.config, before)
        )
        if mine != theirs and self.learner.foresees:
            self.found.append(FORESEEN.format(name=self.config.algorithm))

    def over(self) -> bool:
        """After all iterations or episodes, or when the goal is reached."""
        enough = self.total is not None and self.state.episodes >= self.total
        return enough or self.k >= self.config.iterations or self._reached()

    def _reached(self) -> bool:
        goal = self._goal()
        return goal is not None and self.value is not None and self.value >= goal - 1e-12 * max(1.0, abs(goal))

    def _goal(self) -> float | None:
        """The value that ends the run: the lower one, if there are two."""
        within, star, goals = self.config.run.stop_within, self.star, []
        if within is not None and star is not None:
            goals.append(star - within * abs(star))
        if self.config.run.stop_cvar is not None:
            goals.append(self.config.run.stop_cvar)
        return min(goals, default=None)

    def advance(self) -> dict[str, Any]:
        """One iteration; its row."""
        with doing(f"iteration {self.k + 1}"):
            self.state, row = iterate(self.learner, self.state, self.env, self.streams, self.judge)
        if not self.exact:
            found = row.get("value", row["cvar"])
            self.value = self.value if found is None else found
            return row
        self.value = float(row.get("value", row["cvar"]) or 0.0)
        self.regret += self.judge.star - self.value
        if self.state.plan is not None:
            self.iterates.see(self.k, self.state.plan, self.value)
        return row | {"regret": self.regret}

    def arrays(self, out: Path) -> dict[str, np.ndarray]:
        """What a checkpoint needs; episodes that are kept are written here."""
        if not self.exact and self.learner.keeps_episodes:
            shards.write(out, self.state.replay, self.saved)
            self.saved = self.state.replay.n
        arrays: dict[str, np.ndarray] = self.state.to_arrays()
        if skipped := self.skipped + getattr(self.env, "counts", {}).get("skipped", 0):
            arrays["job.skipped"] = np.array([skipped])
        return arrays | self.iterates.to_arrays()

    def finish(self, out: Path) -> dict[str, Any]:
        """Write the policy that the output rule chooses, judged; the result."""
        config, state = self.config, self.state
        with doing("choosing what is returned"):
            choice = self._choice()
        with doing("judging what is returned"):
            verdict = self.judge.verdict(choice.policy, self.k)
        returns = verdict.pop("returns", None)
        about: dict[str, Any] = {"algorithm": config.algorithm, "tau": config.tau, "iterations": state.k}
        about |= {"episodes": state.episodes, "steps": state.steps} | verdict
        about |= {"cvar_star": self.star} if self._objective is None else self._objective_about()
        if self.exact:
            about["regret"] = self.regret
        else:
            self.value = verdict.get("value", verdict["cvar"])
            about["evaluation_episodes"] = returns.size
        about |= choice.about | {"returned": choice.returned, "why": choice.why}
        if not self.exact and "promise" in choice.about:
            limits = (verdict[name] for name in ("cvar", "cvar_low", "cvar_high"))
            said = broken_promise(choice.about["promise"], *limits)
            about["promise_kept"] = not said
            self.found += [said] if said else []
        source = {"source": self.env.name, "seed": config.seed, "config": config.checksum}
        if self.exact:
            self.found += [said] if (said := getattr(state, "said", "")) else []
            self._save_plans(out, choice, about, source)
            return about
        self._doubt(verdict)
        kept: dict[str, Any] = getattr(self.env, "about", dict)()
        storage.save(choice.policy, out / files.PLAN, info=about | source | kept, inside=True)
        write_returns(out / EVALUATION, returns)
        seeds = self.streams.evaluation_seeds(0, config.run.evaluation_episodes)
        neutral = self.learner.neutral(state, self.env)
        Beside.of(choice.policy, neutral, self.env, seeds, self.streams.evaluation(self.k, 3)).save(out)
        return about

    @property
    def _name(self) -> str:
        return "CVaR" if self._objective is None else str(self._objective.name)

    def _objective_about(self) -> dict[str, Any]:
        return {"objective": str(self._objective), "value_star": self.star}

    def _choice(self) -> ReturnedPolicy:
        if not self.exact:
            found: ReturnedPolicy = self.learner.choose(
                self.state, self.env, self.streams, self.rule.name, self.rule.episodes
            )
            return found
        if self._reached() and self.state.plan is not None:
            return ReturnedPolicy(self.state.plan, f"iterate {self.k}", f"its {self._name} reached {self._goal():g}")
        return self.rule.choose(self.learner, self.env, self.state, self.iterates.kept, self.streams)

    def _save_plans(self, out: Path, choice: ReturnedPolicy, about: dict[str, Any], source: dict[str, Any]) -> None:
        judge = self.judge
        source = source | {"states": judge.labels, "actions": self.env.truth.action_labels}
        if self.iterates.best is not None:
            value, plan = self.iterates.best
            named = {"cvar": value} if self._objective is None else {"value": value} | self._objective_about()
            best = {"tau": self.config.tau, "returned": f"the iterate with the best exact {self._name}"} | named
            storage.save(judge.policy(plan), out / files.BEST, info=best | source, inside=True)
        storage.save(judge.policy(choice.policy), out / files.PLAN, info=about | source, inside=True)

    def _doubt(self, judged: dict[str, Any]) -> None:
        """Note what should make a reader doubt the result, where a model was learned from observations."""
        state = self.state
        if not isinstance(state, ObservedState | LowRankState):
            return
        rng = self.streams.planner(self.k, 1)
        self.found.append(state.rewards_said)
        key = "value" if "value" in judged else "cvar"
        self.found += doubts(self.learner, state, self.env, (judged[f"{key}_low"], judged[f"{key}_high"]), rng)


def write_returns(path: Path, returns: np.ndarray) -> None:
    """The returns that the result was judged by."""
    from safetensors.numpy import save

    data = save({"returns": np.ascontiguousarray(returns)}, metadata={"format": "tailrank-returns"})
    write_bytes(path, data, inside=True)
