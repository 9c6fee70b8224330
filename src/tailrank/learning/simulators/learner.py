"""Learning from a simulator with candidates side by side.

Episodes are shared: every candidate explores a part of each batch and learns from all of them. Batches and fits grow
with what was played, so that there are about log(total) fits. Where there are more than two candidates, they are tried
after a third of the learning: what each would hand out plays the same seeds, and the worst is given up. Not more of
them: a model that is planned in may need more data than there are by then, and be the best in the end.

What is handed out is chosen by fresh episodes (`choosing`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from tailrank import checks
from tailrank._system.arrays import arrays_below
from tailrank._system.lazy import has_jax
from tailrank._system.settings import setting
from tailrank._system.telling import doing
from tailrank.checks import InputError
from tailrank.envs.protocols import Simulator
from tailrank.episodes.rollout import Observed, play_simulator
from tailrank.episodes.streams import Streams
from tailrank.learning.images.seeing import SeeingCandidate, images_of, on_seen, restored_training, seen_by, trained_for
from tailrank.learning.images.training import NUMBERS, EncoderTraining
from tailrank.learning.search.judging import imagined_returns
from tailrank.learning.simulators.candidates import FitData, FittedCandidate, LearningCandidate, practising
from tailrank.learning.simulators.choosing import EARLIER, ChoosingLearner
from tailrank.learning.simulators.played import PlayedEpisodes
from tailrank.learning.simulators.recalling import RecallingCandidate, needed_recall
from tailrank.learning.simulators.refining import RefiningCandidate, uniform_on
from tailrank.learning.simulators.sharing import bare, joined, portions, shared_seeds
from tailrank.learning.simulators.state import (
    CandidatesInfo,
    CandidatesState,
    EarlierFit,
    all_outputs,
    check_candidates,
    fit_prefix,
)
from tailrank.learning.simulators.trial import all_but_the_worst, tried_outputs
from tailrank.policies.images import ImageLayout
from tailrank.policies.recall import Recall
from tailrank.policies.tables import Policy

ASKED = 10_000
"""Steps of the first episodes that say what of the past counts: candidates begin afresh when that changes."""


@dataclass(frozen=True)
class CandidatesLearner(ChoosingLearner):
    """The base of learners with candidates; a subclass says which (`candidates`).

    Without total or total_steps there is no choice, and the first output is the policy.
    """

    foresees: ClassVar[bool] = True
    refines: ClassVar[bool] = True
    recall: str = setting(
        "auto",
        words=("auto", "none"),
        metavar="auto|none",
        help="Whether the last observations and action count as observed where what follows depends on them.",
    )
    images: str = setting(
        "auto",
        words=("auto", "none"),
        metavar="auto|none",
        help="Whether images are seen through an encoder (extra `neural`), or as their pixels.",
    )

    @abstractmethod
    def candidates(self, env: Simulator) -> tuple[LearningCandidate, ...]:
        """The candidates that can learn here, at least one."""

    def layout(self, env: Simulator) -> ImageLayout | None:
        """Where the images are that are seen through an encoder, or None."""
        return images_of(env) if self.images == "auto" else None

    def n_seen(self, env: Simulator) -> int:
        """The numbers of an observation as candidates see it."""
        layout = self.layout(env)
        return env.n_features if layout is None else NUMBERS + layout.others.size

    def _learning(
        self,
        env: Simulator,
        played: PlayedEpisodes,
        training: EncoderTraining | None,
        going: tuple[int, ...],
        random: bool = False,
    ) -> tuple[tuple[LearningCandidate, ...], FitData]:
        """The candidates that go on, with what of the past they need, with the actions they need of a grid, and with
        the encoder of images; and what they are fitted to."""
        seen, grid = seen_by(training, played), getattr(env, "grid", None)
        recall, found = self._recalled(env, seen), self.candidates(env)
        found = tuple(RecallingCandidate(found[i], recall) for i in going)
        found = found if grid is None else tuple(RefiningCandidate(one, grid) for one in found)
        found = found if training is None else tuple(SeeingCandidate(one, training) for one in found)
        return found, replace(self._data(seen, env), random=random)

    def _recalled(self, env: Simulator, played: PlayedEpisodes) -> Recall:
        """What of the past counts as observed."""
        if self.recall == "none":
            return Recall()
        asked = int(np.searchsorted(np.cumsum(played.lengths), ASKED)) + 1
        return needed_recall(played.head(asked), env.n_actions)

    def _data(self, played: PlayedEpisodes, env: Simulator) -> FitData:
        numbered = bool(getattr(getattr(env, "encoder", None), "is_table", False))
        return FitData(played, env.n_actions, self.tau, numbered, self._done(played, env.horizon))

    def init(self, env: Simulator, streams: Streams) -> CandidatesState:
        """Nothing played; where images are shown, JAX must be there."""
        if self.layout(env) is not None and not has_jax():
            raise InputError(f"{env.name}: shows images, which need jax and optax; install tailrank[neural]")
        return CandidatesState(0, self._nothing(env), ())

    def step(self, state: CandidatesState, env: Simulator, streams: Streams) -> tuple[CandidatesState, CandidatesInfo]:
        """A batch of episodes and a fit to all; or the trial of the candidates; or a round of the choice."""
        if state.fitted and self._left(state, env.horizon, self._learning_share(env.horizon)) <= 0:
            return self._compare(state, env, streams)
        if len(state.going) == len(self.candidates(env)) and self._tried(state, env):
            return self._try_out(state, env, streams)
        k, fitted, new, parts = state.k + 1, list(state.fitted), list[PlayedEpisodes](), list[Observed]()
        seeds = streams.train_seeds(k, self._batch(state, env))
        for i, part in enumerate(shared_seeds(seeds, fitted)):
            rng = streams.planner(k, i)
            policy = (fitted[i].explorer(rng) if fitted else uniform_on(env, rng)) if part.size else None
            for some in portions(part, fitted[i] if fitted else None, env):
                batch = play_simulator(cast(Policy, policy), env, some, keep_features=True, may_be_none=True)
                new, parts = [*new, self._of(batch, env)], [*parts, bare(batch)]
                learning = practising(fitted[i]) if fitted and batch.seeds.size else None
                if learning is not None:
                    fitted[i] = learning.practised(new[-1], rng)
                    policy = fitted[i].explorer(rng)
        played = state.played.with_more(new)
        return self._fitted(replace(state, k=k), played, fitted, joined(parts, env).returns, env, streams)

    def _fitted(
        self,
        state: CandidatesState,
        played: PlayedEpisodes,
        before: Sequence[FittedCandidate],
        returns: np.ndarray,
        env: Simulator,
        streams: Streams,
    ) -> tuple[CandidatesState, CandidatesInfo]:
        """The fits to all that was played, going on from those of before; returns [n]: of what is new."""
        k, going = state.k, state.going or tuple(range(len(self.candidates(env))))
        training = trained_for(
            self.layout(env), played, env.n_actions, before[0] if before else None, streams.oracle(k, 0, 1)
        )
        candidates, data = self._learning(env, played, training, going, random=not before)
        fitted = tuple(
            candidate.fit(data, streams.oracle(k, i), before[i] if before else None)
            for i, candidate in enumerate(candidates)
        )
        last = (EarlierFit(state.fitted_at, state.played.n, state.fitted),) if state.fitted else ()
        earlier = (*last, *state.earlier)[:EARLIER]
        # A choice that was made before belongs to a shorter run.
        state = replace(state, played=played, fitted=fitted, fitted_at=k, earlier=earlier, going=going)
        state = replace(state, finalists=(), before=np.zeros((0, 0)), chosen=False, choosing=False)
        about = "; ".join(one.about() for one in fitted)
        return state, CandidatesInfo(returns, self.tau, fitted[0].promise, about)

    def _nothing(self, env: Simulator) -> PlayedEpisodes:
        """No episodes yet."""
        layout = self.layout(env)
        if layout is None:
            return PlayedEpisodes.none(env.horizon, env.n_features)
        return PlayedEpisodes.none(env.horizon, layout.width, np.uint8)

    def _of(self, batch: Observed, env: Simulator) -> PlayedEpisodes:
        """The episodes of a rollout that kept its features."""
        return self._nothing(env).with_played(batch, self.layout(env))

    def _try_out(
        self, state: CandidatesState, env: Simulator, streams: Streams
    ) -> tuple[CandidatesState, CandidatesInfo]:
        """The trial: what every candidate would hand out, on the same seeds; the episodes are learned from."""
        seeds, new, batches = streams.train_seeds(state.k + 1, self._trial(state, env)), list[PlayedEpisodes](), []
        tried = tried_outputs(state.fitted)
        for _, output in tried:
            parts = list[Observed]()
            with doing(f"trying {output.name}"):
                for some in portions(seeds, None, env):
                    batch = play_simulator(output.policy, env, some, keep_features=True, may_be_none=True)
                    new, parts = [*new, self._of(batch, env)], [*parts, bare(batch)]
            batches.append(joined(parts, env))
        owners, n = [i for i, _ in tried], len(state.fitted)
        best, scores = all_but_the_worst(owners, batches, seeds.size, self.tau, n)
        going, before = tuple(state.going[i] for i in best), [state.fitted[i] for i in best]
        state = replace(state, k=state.k + 1, going=going, fitted=(), earlier=())
        played = state.played.with_more(new)
        state, info = self._fitted(state, played, before, batches[int(np.argmax(scores))].returns, env, streams)
        scored = ", ".join(f"{one.name} {score:.4g}" for (_, one), score in zip(tried, scores, strict=True))
        return state, replace(info, about=f"trial of {seeds.size} episodes each ({scored}); {info.about}")

    def _imagined(self, state: CandidatesState, env: Simulator, streams: Streams) -> np.ndarray:
        """Returns [outputs, n] in a model; n = 0 where it would not know the simulator: it has no past, needs data of
        every action, and draws trees through observations that repeat, which counts know better."""
        outputs, grid = all_outputs(state), getattr(env, "grid", None)
        nothing, policies = np.zeros((len(outputs), 0)), on_seen([output.policy for output in outputs])
        if policies is None or grid is not None or state.played.repeats:
            return nothing
        played = seen_by(getattr(state.fitted[0], "training", None), state.played)
        if self._recalled(env, played) != Recall():
            return nothing
        return imagined_returns(played, env.n_actions, policies, streams.oracle(state.k + 1, len(policies)))

    def neutral(self, state: CandidatesState, env: Simulator) -> Policy | None:
        """The plan for the mean of the first candidate that has one."""
        plans = [fitted.neutral for fitted in state.fitted if hasattr(fitted, "neutral")]
        return plans[0]() if plans else None

    def restored(self, arrays: dict[str, np.ndarray], env: Simulator, streams: Streams) -> CandidatesState:
        """The state in a checkpoint."""
        fresh = self.init(env, streams)
        check_candidates(arrays, env, len(self.candidates(env)))
        played = fresh.played.from_arrays(arrays)
        k, fitted_at, episodes, steps, chosen, choosing = (
            checks.whole(x, "counters", least=0) for x in arrays["counters"]
        )
        going, fitted = tuple(checks.whole(i, "going", least=0) for i in arrays["going"]), []
        for place, (at, episodes_then) in enumerate([(fitted_at, played.n), *arrays["earlier"].tolist()]):
            fits: list[FittedCandidate] = []
            if at:
                first = arrays_below(arrays, fit_prefix(place, 0))
                training = restored_training(self.layout(env), first, env.n_actions)
                candidates, data = self._learning(env, played.head(episodes_then), training, going)
                own = (arrays_below(arrays, fit_prefix(place, i)) for i in range(len(candidates)))
                each = enumerate(zip(candidates, own, strict=True))
                fits = [candidate.restored(x, data, streams.oracle(at, i)) for i, (candidate, x) in each]
            fitted.append(EarlierFit(at, episodes_then, tuple(fits)))
        finalists = tuple(int(i) for i in arrays["finalists"])
        now, *earlier = fitted
        about = (finalists, arrays["returns"], episodes, steps, bool(chosen), tuple(earlier), bool(choosing))
        state = CandidatesState(k, played, now.fitted, fitted_at, *about, arrays["imagined"], arrays["before"], going)
        outputs = len(all_outputs(state)) if finalists else 0
        if any(i >= outputs for i in finalists) or (finalists and len(state.imagined) != outputs):
            raise InputError("finalists: are not outputs of the fits in the checkpoint")
        return state
