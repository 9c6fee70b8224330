"""MDPs from Gymnasium environments that expose their transition table.

Two forms are read: `P[s][a]`, a list of (probability, next state, reward, terminated), as in the toy-text
environments; and `dynamics` with tx_mat and r_mat [S, A, S], d_0 [S] and admissible_actions, as in
icu-sepsis. A terminated outcome ends the episode: it leads to its next state if that is absorbing with
reward 0 in the table, otherwise to one added state `end`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailrank import checks
from tailrank.checks import ImportFailed, InputError
from tailrank.envs.mdp_files.draft import Draft
from tailrank.envs.mdp_files.text import reason

EXTRA = ("icu_sepsis", "or_gym_inventory", "highway_env")
"""Packages that come with tailrank[envs]."""
RESETS = 10
"""How many seeds must agree on the first state of an environment that does not give its law."""


class NoTable(InputError):
    """An environment that does not say how it moves: it can be played, not solved."""


def read_environment(
    name: str, imports: Sequence[str], horizon: object, start: object, settings: Mapping[str, Any] | None = None
) -> Draft:
    """The draft of the environment with this id; `module:id` imports the module first."""
    module, _, env_id = name.rpartition(":")
    load((*imports, *([module] if module else [])))
    env = make(env_id, settings, kind="neither a .csv, .json or .npz file nor a Gymnasium environment")
    try:
        return environment_draft(env, env_id, horizon, start)
    finally:
        with foreign(f"{env_id}: closing it"):
            env.close()


def environment_draft(env: Any, env_id: str, horizon: object, start: object) -> Draft:
    """The draft of an environment, which stays open."""
    with foreign(f"{env_id}: reading its transition table"):
        base = env.unwrapped
        P, dynamics, law = (getattr(base, a, None) for a in ("P", "dynamics", "initial_state_distrib"))
        had = f"P is {_kind(P)}" if hasattr(base, "P") else "it has no attribute P"
    if isinstance(dynamics, Mapping) and {"tx_mat", "r_mat", "d_0"} <= dynamics.keys():
        draft = _from_matrices(dynamics)
    elif isinstance(P, Mapping | list | tuple) and len(P):
        draft = _from_table(P)
    else:
        raise NoTable(
            f"{env_id}: this environment exposes no transition table ({had}), so it cannot be solved; learn a policy "
            f"by playing it: tailrank train {env_id} --episodes 300 (in Python: tailrank.learn)"
        )
    draft = _with_horizon(draft, env, env_id, horizon)
    if start is None and draft.start is None:
        draft = replace(draft, start=_first_state(env, env_id, law, len(draft.labels)))
    # The law an environment comes with is a default, not a claim: another start is a fair question.
    return draft if start is None else replace(draft, start=None)


def load(packages: Sequence[str]) -> None:
    """Import these packages, which register environments."""
    for package in packages:
        try:
            with foreign(f"import {package}"):
                importlib.import_module(package)
        except InputError as error:
            missing = package in EXTRA and isinstance(error.__cause__, ModuleNotFoundError)
            hint = "; install it with: pip install 'tailrank[envs]'" if missing else ""
            raise ImportFailed(f"{error}{hint}") from error.__cause__


def make(env_id: str, settings: Mapping[str, Any] | None = None, kind: str = "no Gymnasium environment") -> Any:
    """The environment with this id and these settings, built without its own output."""
    import gymnasium

    if env_id not in gymnasium.registry:
        near = checks.did_you_mean(env_id, gymnasium.registry)
        raise InputError(
            f"{env_id!r:.80}: is {kind} that is known{near}; environments of other packages need imports=..."
        )
    with foreign(env_id):
        return gymnasium.make(env_id, disable_env_checker=True, **(settings or {}))


@contextlib.contextmanager
def foreign(what: str) -> Iterator[None]:
    """Run code of other packages quietly, whatever it raises becoming an `InputError`."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), _no_stdout():
            warnings.simplefilter("ignore")
            yield
    except KeyboardInterrupt:
        raise
    # An environment's constructor, import or reset may raise anything at all, and call sys.exit.
    except BaseException as error:
        raise InputError(f"{what}: failed with {type(error).__name__}: {reason(error)}") from error


def _no_stdout() -> contextlib.AbstractContextManager[object]:
    # With an encoding: pandas looks for one when it is imported, also at an input that may be closed.
    return contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))


def _from_table(P: Any) -> Draft:
    rows: list[tuple[int, int, int, float, float, bool]] = []
    n_states = 0
    for s, actions in _items(P, "P"):
        n_states = max(n_states, s + 1)
        for a, outcomes in _items(actions, f"P[{s}]"):
            if not isinstance(outcomes, list | tuple):
                raise InputError(f"P[{s}][{a}] is {_kind(outcomes)}: must be a list of outcomes")
            rows += [(s, a, *_outcome(x, f"P[{s}][{a}][{i}]")) for i, x in enumerate(outcomes)]
    if not rows:
        raise InputError("P: this transition table has no outcomes")
    state, action, t, p, r, done = (np.array(c) for c in zip(*rows, strict=True))
    n_states, n_actions = max(n_states, int(t.max()) + 1), int(action.max()) + 1
    if n_states * n_actions > 10**6 + 100 * state.size:
        raise InputError(f"P: {n_states} states and {n_actions} actions are too many for {state.size} outcomes")
    moves = np.bincount(state, weights=(t != state) | (r != 0), minlength=n_states) > 0
    ends = done & moves[t]
    labels: tuple[object, ...] = tuple(range(n_states))
    notes = []
    if ends.any():
        t = np.where(ends, n_states, t)
        labels += ("end",)
        notes.append(f"{int(ends.sum())} terminating outcomes lead to the added state end")
    return Draft(state, action, t, p, r, labels, tuple(range(n_actions)), notes=tuple(notes))


def _from_matrices(dynamics: Mapping[str, Any]) -> Draft:
    P, R = (_matrix(dynamics[name], name) for name in ("tx_mat", "r_mat"))
    S, A = (*P.shape, 0, 0)[:2]
    if P.ndim != 3 or P.shape != (S, A, S) or R.shape != P.shape:
        raise InputError(f"dynamics: tx_mat and r_mat must be [S, A, S], found {list(P.shape)} and {list(R.shape)}")
    allowed, notes = np.ones((S, A), dtype=bool), []
    admissible = dynamics.get("admissible_actions")
    if admissible is not None:
        allowed = np.zeros((S, A), dtype=bool)
        if not isinstance(admissible, list | tuple | np.ndarray) or len(admissible) != S:
            raise InputError(f"dynamics: admissible_actions must be {S} lists of actions, found {_kind(admissible)}")
        for s, actions in enumerate(admissible):
            if not isinstance(actions, list | tuple | np.ndarray):
                raise InputError(f"dynamics: admissible_actions[{s}] is {_kind(actions)}: must be a list of actions")
            chosen = [_whole(a, f"admissible_actions[{s}]") for a in actions]
            if max(chosen, default=0) >= A:
                raise InputError(f"dynamics: admissible_actions[{s}] holds {max(chosen)}, must lie in 0..{A - 1}")
            allowed[s, chosen] = True
        if not allowed.all():
            notes.append(f"{int((~allowed).sum())} of {S * A} state-action pairs are inadmissible and left out")
    where = np.nonzero((P != 0) & allowed[:, :, None])
    return Draft(
        where[0],
        where[1],
        where[2],
        P[where],
        R[where],
        tuple(range(S)),
        tuple(range(A)),
        start=checks.law(dynamics["d_0"], "d_0", S),
        notes=tuple(notes),
    )


def _with_horizon(draft: Draft, env: Any, env_id: str, option: object) -> Draft:
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if option is None:
        if limit is None:
            raise InputError(f"horizon: {env_id} has no limit on the steps of an episode; give horizon=...")
        note = f"horizon {limit}, the environment's own limit (change with horizon=...)"
        return replace(draft, horizon=limit, notes=(*draft.notes, note))
    if limit is not None and checks.whole(option, "horizon") > limit:
        note = f"horizon {option} is beyond the environment's own limit of {limit} steps"
        return replace(draft, notes=(*draft.notes, note))
    return draft


def _first_state(env: Any, env_id: str, law: object, n_states: int) -> object:
    if law is not None:
        values = _matrix(law, "initial_state_distrib").ravel()
        if values.size > n_states:
            raise InputError(f"initial_state_distrib: has {values.size} entries for {n_states} states; give start=...")
        return checks.law(np.pad(values, (0, n_states - values.size)), "initial_state_distrib", n_states)
    with foreign(f"{env_id}: reset"):
        seen = [env.reset(seed=seed)[0] for seed in range(RESETS)]
    if any(isinstance(x, dict | tuple | list) or np.ndim(x) > 0 for x in seen):
        raise InputError(f"{env_id}: reset gives {_kind(seen[0])}, not a state number; give start=...")
    states = sorted({_whole(x, "state after reset") for x in seen})
    if len(states) > 1:
        few = ", ".join(map(str, states[:5]))
        raise InputError(f"{env_id}: begins in different states ({few}) with a law it does not give; give start=...")
    return states[0]


def _items(table: Any, name: str) -> list[tuple[int, Any]]:
    if not isinstance(table, Mapping | list | tuple):
        raise InputError(f"{name} is {_kind(table)}: must be a table of outcomes by state and action")
    pairs = table.items() if isinstance(table, Mapping) else enumerate(table)
    return [(_whole(key, f"a key of {name}"), value) for key, value in pairs]


def _outcome(x: Any, name: str) -> tuple[int, float, float, bool]:
    """(next state, probability, reward, terminated)."""
    if not isinstance(x, list | tuple) or len(x) != 4:
        raise InputError(f"{name} = {x!r:.60}: must be (probability, next state, reward, terminated)")
    p, t, r, done = x
    if not isinstance(done, int | np.integer | np.bool_) or done not in (0, 1):
        raise InputError(f"{name}: terminated = {done!r:.40}, must be true or false")
    state = _whole(t, f"{name}, next state")
    return state, checks.number(p, f"{name}, probability"), checks.number(r, f"{name}, reward"), bool(done)


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int | float | np.number) and not (isinstance(value, np.ndarray) and value.ndim == 0):
        raise InputError(f"{name} = {value!r:.40}: must be a whole number")
    if not value < 10**9:
        raise InputError(f"{name} = {value!r:.40}: must be a whole number below {10**9}")
    return checks.whole(value, name, least=0)


def _matrix(values: object, name: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: must be an array of numbers, found {_kind(values)}") from None


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array of shape {list(value.shape)}"
    return f"a {type(value).__name__}" + (
        " without entries" if isinstance(value, Mapping | list | tuple) and not value else ""
    )
