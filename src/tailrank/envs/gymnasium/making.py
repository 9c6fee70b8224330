"""From what a user names to a Gymnasium environment, and what can be asked of one before it is played."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailrank.checks import InputError
from tailrank.envs.gymnasium import tables
from tailrank.envs.gymnasium.tables import foreign, load

OWN_IDS = "tailrank/"


def maker(source: Any, settings: Mapping[str, Any], imports: Sequence[str] = ()) -> Callable[[], Any] | None:
    """A function that makes the environment of `source`, or None if `source` is one itself."""
    import gymnasium

    load(imports)
    if isinstance(source, str):
        return lambda: _make(source, settings)
    if isinstance(source, gymnasium.Env | gymnasium.vector.VectorEnv):
        if settings:
            raise InputError(f"{', '.join(settings)}: settings belong to an id or a function, not to an environment")
        return None
    if not callable(source):
        raise InputError(
            f"environment = {source!r:.60}: must be an id, a function that makes an environment, or an environment"
        )
    return lambda: _built(source, settings)


def _make(name: str, settings: Mapping[str, Any]) -> Any:
    module, _, env_id = name.rpartition(":")
    load([module] if module else ["tailrank.envs.gymnasium.registered"] if env_id.startswith(OWN_IDS) else [])
    return tables.make(env_id, settings)


def _built(source: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    import gymnasium

    name = getattr(source, "__name__", type(source).__name__)
    with foreign(name):
        env = source(**settings)
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise InputError(f"{name}: made {env!r:.60}, must make a gymnasium.Env")
    return env


def is_vector(env: Any) -> bool:
    """Whether it is a vector environment."""
    import gymnasium

    return isinstance(env, gymnasium.vector.VectorEnv)


def spaces_of(env: Any) -> tuple[Any, Any]:
    """The observation and the action space of one episode."""
    if is_vector(env):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def name_of(env: Any, source: Any) -> str:
    """What to call it: the id, else the class."""
    if isinstance(source, str):
        return source.rpartition(":")[2]
    found = getattr(getattr(env, "spec", None), "id", None)
    base = getattr(env, "unwrapped", env)
    if found is None and is_vector(env) and getattr(base, "envs", None):
        return name_of(base.envs[0], None)
    return str(found or type(base).__name__)


def limit_of(env: Any) -> int | None:
    """The most steps of an episode that the environment states, if it does."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    if limit is None and is_vector(env):
        return _limit_of_parts(env.unwrapped)
    if limit is None and not is_vector(env):
        # A time limit around an environment that is not registered.
        with contextlib.suppress(AttributeError):
            limit = env.get_wrapper_attr("_max_episode_steps")
    return None if limit is None else int(limit)


def _limit_of_parts(env: Any) -> int | None:
    if getattr(env, "envs", None):
        return limit_of(env.envs[0])
    if getattr(env, "env_fns", None):
        # Parts in other processes are not asked: a question that fails ends the process.
        with foreign("a part of the vector environment"):
            part = env.env_fns[0]()
        limit = limit_of(part)
        with foreign("a part of the vector environment"):
            part.close()
        return limit
    return None
