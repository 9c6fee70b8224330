"""What is right and wrong with an environment before hours are spent in it: `check_environment`.

Random episodes are played and watched (`probing.py`), some are replayed with the same seed and actions, and
Gymnasium's own checker is run. An *error* would stop or spoil training; a *warning* may; a *note* is worth knowing.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import InputError
from tailrank.envs.gymnasium._passive_checker import gym_findings
from tailrank.envs.gymnasium._probing import Episode, Probe, blurred, difference, parts_wrong
from tailrank.envs.gymnasium.actions import Actions
from tailrank.envs.gymnasium.making import is_vector, limit_of, maker, name_of, spaces_of
from tailrank.envs.gymnasium.simulator import simulator_with
from tailrank.envs.gymnasium.spaces import Encoder, kind_of
from tailrank.envs.gymnasium.tables import foreign
from tailrank.envs.mdp_files.read_write import read_mdp

UNLIMITED = 1000
"""Steps after which an episode is cut if nobody says how long one may be."""

REPLAYED = 200
"""Most steps of an episode that is played again."""

ADVICE = {
    "reset": ("error", "`reset(seed=...)` must return (observation, info)"),
    "step": ("error", "`step(action)` must return (observation, reward, terminated, truncated, info)"),
    "observation": ("error", "every observation must be finite and of the shape of the space: training stops there"),
    "reward": ("error", "a reward must be one finite number: training stops there"),
    "flags": ("warning", "return bools"),
    "bounds": ("warning", "training goes on with such numbers; correct the bounds of the space"),
    "dtype": ("note", "harmless here: features are float64"),
    "shared": ("warning", "return a copy of it; harmless here, where observations are encoded at once"),
    "info": ("note", "return a new dict; harmless here, where masks are read from it at once"),
    "masks": ("error", "training stops there, unless masks are ignored (--ignore-masks, masks=False)"),
}
"""Level and advice for everything that a probe notes."""
RAISED = "correct what raises it: training stops there, or leaves a few such episodes out (--skip-bad, skip_bad=True)"
"""Advice where the environment raised an exception."""


@dataclass(frozen=True)
class Finding:
    """One thing found. level: error, warning, ok or note; advice: what to do about it."""

    level: str
    what: str
    advice: str = ""


@dataclass
class Report:
    """Findings about an environment and the plain facts behind them."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, level: str, what: str, advice: str = "") -> None:
        """Add a finding."""
        self.findings.append(Finding(level, what, advice))


def check_environment(
    source: Any,
    *,
    horizon: int | None = None,
    imports: Sequence[str] = (),
    levels: int | Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    episodes: int = 5,
    seconds: float = 20.0,
) -> list[Finding]:
    """What is worth knowing about the environment of `source` (as for `open_simulator`), most of it by playing.

    episodes: random episodes to play, fewer if they take longer than `seconds`.
    """
    return examine(
        source, horizon=horizon, imports=imports, levels=levels, settings=settings, episodes=episodes, seconds=seconds
    ).findings


def examine(
    source: Any,
    *,
    horizon: int | None = None,
    imports: Sequence[str] = (),
    levels: int | Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    episodes: int = 5,
    seconds: float = 20.0,
) -> Report:
    """`check_environment` with the facts as plain data."""
    n, limit = checks.whole(episodes, "episodes"), None if horizon is None else checks.whole(horizon, "horizon")
    make = maker(source, settings or {}, imports)
    env = source if make is None else make()
    twin, report = env, Report(name_of(env, source))
    with _quiet():
        try:
            space, moves = spaces_of(env)
            report.facts = {"observation_space": f"{space}", "action_space": f"{moves}"}
            encoder, actions = _encoder(space, report), _actions(moves, levels, report)
            if encoder is None or actions is None:
                return report
            if is_vector(env):
                _vector(env, limit, levels, report)
                return report
            stated = limit_of(env)
            probe = Probe(env, space, encoder, actions)
            played = _play_episodes(probe, limit or stated or UNLIMITED, n, seconds)
            _troubles(probe, report)
            _lengths(played, limit, stated, report)
            twin = env if make is None else make()
            if played and not probe.broken:
                _seeds(probe, Probe(twin, space, encoder, actions), played, report)
            if played:
                _digits(played, report)
                _money(played, report)
                _speed(probe, played, report)
            _gymnasium(twin, report)
        finally:
            for opened in (env, twin) if make is not None else ():
                _close(opened)
    if isinstance(source, str) and not settings:
        _table(source, limit or stated or UNLIMITED, imports, report)
    return report


def _encoder(space: Any, report: Report) -> Encoder | None:
    try:
        encoder = Encoder.of(space)
    except InputError as error:
        report.add("error", str(error))
        return None
    image = f", an image {encoder.image_shape}" if encoder.image_shape else ""
    few = f", {encoder.n_values} distinct observations" if encoder.is_table else ""
    report.facts |= {"features": encoder.n_features, "image": encoder.image_shape, "values": encoder.n_values}
    report.add("ok", f"observations: {_short(space)}, encoded as {encoder.n_features} numbers{image}{few}")
    return encoder


def _actions(moves: Any, levels: int | Sequence[int] | None, report: Report) -> Actions | None:
    try:
        actions = Actions.of(moves, levels)
    except InputError as error:
        report.add("error", str(error))
        return None
    report.facts["actions"] = actions.n
    if kind_of(moves) == "Box":
        few = ", ".join(actions.labels[:3])
        report.add("note", f"actions: {_short(moves)}, divided into {actions.n} ({few}, ...)", "change with levels=...")
    else:
        report.add("ok", f"actions: {_short(moves)}, {actions.n} of them")
    return actions


def _play_episodes(probe: Probe, cap: int, n: int, seconds: float) -> list[Episode]:
    rng = np.random.default_rng(0)
    played: list[Episode] = []
    for k in range(n):
        if probe.broken or (played and probe.seconds > seconds):
            break
        episode = probe.play(2 * k, cap, rng=rng)
        if episode.rewards:
            played.append(episode)
        if episode.ended and probe.after is None and not probe.broken:
            probe.step_after_the_end()
    return played


def _troubles(probe: Probe, report: Report) -> None:
    for topic, (level, advice) in ADVICE.items():
        if topic in probe.troubles:
            seen = probe.troubles[topic]
            more = f" ({seen.times} times)" if seen.times > 1 else ""
            # A flag that is no truth value at all stops the episode.
            level = "error" if topic == "flags" and probe.broken else level
            report.add(level, f"{topic}: {seen.text}{more}", RAISED if ": raised " in seen.text else advice)
    if not {"observation", "bounds", "reset"} & probe.troubles.keys():
        report.add("ok", "observations lie in their space and are finite")
    if not {"reward", "step", "reset"} & probe.troubles.keys():
        report.add("ok", "rewards are finite numbers")
    if probe.allowed:
        report.facts["allowed"] = [min(probe.allowed), max(probe.allowed)]
        report.add(
            "note",
            f"masks: info says which actions are allowed, {min(probe.allowed)}..{max(probe.allowed)} of "
            f"{probe.actions.n} in what was seen",
            "no others are played; --ignore-masks (masks=False) plays all",
        )
    report.facts["after_end"] = probe.after
    if probe.after == "accepted":
        report.add("note", "a step after the end of an episode is accepted", "harmless here: none is played")
    elif probe.after is not None:
        report.add("ok", "a step after the end of an episode raises")


def _lengths(played: list[Episode], limit: int | None, stated: int | None, report: Report) -> None:
    report.facts |= {"horizon": limit or stated, "limit": stated}
    if not played:
        return
    steps = [len(episode.rewards) for episode in played]
    report.facts["steps"] = [min(steps), max(steps)]
    seen = f"{len(played)} random episodes of {min(steps)}..{max(steps)} steps"
    more = f"give horizon=..., at least {max(steps)}"
    if limit is None and stated is None:
        ended = "" if all(episode.ended for episode in played) else "not all "
        report.add("warning", f"horizon: no limit is stated; {seen}, {ended}ended by the environment", more)
    elif limit is not None and stated is not None and limit > stated:
        report.add(
            "warning",
            f"horizon {limit} is beyond the environment's own limit of {stated} steps; {seen}",
            "change it with the setting max_episode_steps",
        )
    else:
        cut = sum(not episode.ended for episode in played)
        report.add("ok", f"horizon {limit or stated}; {seen}{f', {cut} of them cut there' if cut else ''}")


def _seeds(probe: Probe, twin: Probe, played: list[Episode], report: Report) -> None:
    """Play an episode again, here and in a fresh copy, and its actions with other seeds."""
    one = max(played, key=lambda episode: (min(len(episode.rewards), REPLAYED), -episode.seed))
    steps = min(len(one.rewards), REPLAYED)
    for who, place in ((probe, ""), (twin, " in a fresh copy")):
        parted = difference(one, who.play(one.seed, steps, actions=one.actions), steps)
        report.facts["reproducible"] = parted is None
        if parted is not None:
            advice = "draw from self.np_random, seeded by super().reset(seed=seed), and keep nothing between episodes"
            report.add("error", f"seed: the same seed and actions gave different episodes{place} ({parted})", advice)
            return
    report.add("ok", f"seed: the same seed and {steps} actions gave the same episode")
    others = [probe.play(one.seed + 2 * k, steps, actions=one.actions) for k in (101, 202, 303)]
    report.facts["deterministic"] = all(difference(one, other, steps) is None for other in others)
    if report.facts["deterministic"]:
        advice = "if nothing is random every plan has one return, and its CVaR is its mean"
        report.add("note", "seed: other seeds with the same actions gave the same episode", advice)


def _digits(played: list[Episode], report: Report) -> None:
    for i in blurred(played)[:3]:
        seen = played[0].features[0][i]
        advice = "subtract what is constant: learners keep about seven digits, and would not see what changes"
        report.add("warning", f"observation[{i}] is {seen:.6g} and changes in its last digits", advice)


def _money(played: list[Episode], report: Report) -> None:
    rewards = np.concatenate([episode.rewards for episode in played])
    totals = np.array([episode.total for episode in played])
    if np.isfinite(rewards).all():
        report.facts |= {
            "rewards": [float(rewards.min()), float(rewards.max())],
            "returns": [float(totals.min()), float(totals.max())],
        }
        report.add(
            "ok", f"rewards {rewards.min():.6g}..{rewards.max():.6g}, returns {totals.min():.6g}..{totals.max():.6g}"
        )


def _speed(probe: Probe, played: list[Episode], report: Report) -> None:
    steps = float(np.mean([len(episode.rewards) for episode in played]))
    each = probe.seconds / max(probe.steps, 1)
    report.facts |= {"steps_per_second": 1.0 / max(each, 1e-9)}
    report.add(
        "ok", f"{1 / max(each, 1e-9):,.0f} steps per second: {_duration(1000 * steps * each)} for 1,000 such episodes"
    )


def _table(source: str, horizon: int, imports: Sequence[str], report: Report) -> None:
    try:
        mdp = read_mdp(source, horizon=horizon, imports=imports).mdp
    except InputError:
        report.facts["table"] = False
        return
    report.facts["table"] = True
    report.add(
        "note",
        f"the transition table is known ({mdp.n_states} states, {mdp.prob.size} rows)",
        f"`tailrank solve {source}` finds the best policy without playing",
    )


def _vector(env: Any, horizon: int | None, levels: int | Sequence[int] | None, report: Report) -> None:
    """A vector environment is played through the simulator: are its parts seeded one by one?"""
    stated = limit_of(env)
    report.facts |= {"horizon": horizon or stated, "limit": stated, "width": int(env.num_envs)}
    if horizon is None and stated is None:
        report.add("warning", "horizon: no limit is stated", "give horizon=...")
    try:
        simulator = simulator_with(env, {}, horizon=horizon or stated or UNLIMITED, levels=levels)
        wrong = parts_wrong(simulator, REPLAYED)
    except InputError as error:
        report.add("error", str(error))
        return
    if wrong is None:
        report.add("ok", f"seed: each of {simulator.width} parts plays by its own seed")
    else:
        report.add("error", f"seed: {wrong}", "give the id of the environment or a function that makes it, with width")


def _gymnasium(env: Any, report: Report) -> None:
    found = gym_findings(env)
    report.facts["check_env"] = [line for line, _ in found]
    for line, why in found:
        report.add(
            "warning" if why is None else "note", f"Gymnasium's check_env {line}", why or "may matter: see what it is"
        )
    if not found:
        report.add("ok", "Gymnasium's check_env finds nothing")


def _close(env: Any) -> None:
    with contextlib.suppress(InputError), foreign("close"):
        env.close()


@contextlib.contextmanager
def _quiet() -> Any:
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def _short(space: Any) -> str:
    text = " ".join(str(space).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"
