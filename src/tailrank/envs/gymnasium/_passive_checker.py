"""Gymnasium's own checker, and which of its findings matter here."""

from __future__ import annotations

import re
import warnings
from typing import Any

from tailrank.envs.mdp_files.text import reason

HARMLESS = {
    r"render|metadata|fps": "nothing is rendered",
    r"share an object": "observations are encoded at once and info is not used",
    r"seed|determinis|np_random|random": "what counts is whether an episode can be played again, see seed",
    r"not within the observation space": "training goes on if they are finite, see bounds",
    r"infinity|dtype|precision|cast|Box observation|flatten|pixel|numpy array": "observations are encoded as float64",
    r"symmetric and normalized|action space": "actions are listed, see actions",
    r"reward": "an array of one number will do, see reward",
    r"truncates after 1 step": "short episodes are fine",
    r"options|return_info|deprecat|\bspec\b": "not used",
    r"\binfos?\b": "info is not used",
}
"""What the checker says (a pattern) and why it does not matter, or what decides it."""


def gym_findings(env: Any) -> list[tuple[str, str | None]]:
    """What `gymnasium.utils.env_checker.check_env` says, each with the reason why it does not matter, or None.

    The checker stops at the first thing that it holds to be an error; `env` is neither rendered nor closed.
    """
    from gymnasium.utils.env_checker import check_env

    stopped = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env, skip_render_check=True, skip_close_check=True)
        except KeyboardInterrupt:
            raise
        # It asserts, and the environment may raise anything at all.
        except BaseException as error:
            stopped = reason(error)
    lines = [f"says: {_plain(str(w.message))}" for w in caught if issubclass(w.category, UserWarning)]
    lines = [line for line in dict.fromkeys(lines) if "different from the unwrapped version" not in line]
    if stopped is not None:
        lines.append(f"stops with: {_plain(stopped)}")
    return [(line, _why_harmless(line)) for line in lines]


def _why_harmless(line: str) -> str | None:
    return next((why for pattern, why in HARMLESS.items() if re.search(pattern, line, re.IGNORECASE)), None)


def _plain(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return " ".join(re.sub(r"^\s*WARN:\s*", "", text).split())[:300]
