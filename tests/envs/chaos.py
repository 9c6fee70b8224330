"""A small simulator that misbehaves at one point, in any of many ways. Importing this registers it with Gymnasium.

`PLAN` says how and when; without one it behaves. It is kept outside the environment, so that a run goes on with the
same configuration once the environment behaves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

NAME = "chaos/Lock-v0"


@dataclass
class Plan:
    """At which call of step (or reset) which thing happens; where it happened is written to `log`, if that is given."""

    kind: str
    at: int
    log: Path | None = None


PLAN: Plan | None = None
CALLS = {"step": 0, "reset": 0, "close": 0}


class ChaoticLock(gymnasium.Env):
    """Three steps; the first two should be action 0, then action 1 pays 1 or -1 and action 0 pays a half."""

    buffer = np.zeros(2, dtype=np.float32)  # of all copies

    def __init__(self):
        self.observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
        self.action_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.kind = PLAN.kind if PLAN else ""
        self.leak = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.h, self.good = seed, 0, True
        seen, info = self.seen(), {}
        return self.bent((seen, info), "reset", "reset")

    def step(self, action):
        right = bool(action[0] > 0.5) == (self.h == 2)
        self.good = self.good and (right or self.h == 2)
        reward = 0.0
        if self.h == 2 and self.good:
            reward = (1.0 if self.np_random.random() < 0.8 else -1.0) if right else 0.5
        self.h += 1
        return self.bent((self.seen(), reward, self.h == 3, False, {}), "step", f"step {self.h - 1}", action)

    def seen(self):
        noise = self.np_random.normal(0, 0.05, 2)
        return (np.array([3.0 * self.good, self.h]) + noise).astype(np.float32)

    def bent(self, result, call, place, action=None):
        """The result, or what the plan makes of it at its call."""
        CALLS[call] += 1
        always = (ALWAYS | ODD).get(self.kind)
        if always is not None:
            return always(self, result, action)
        wanted = "reset" if self.kind.startswith("reset") else "step"
        if not self.kind or call != wanted or CALLS[call] - 1 != PLAN.at:
            return result
        if PLAN.log:
            PLAN.log.write_text(json.dumps([self.seed, place]))
        return FAULTS[self.kind](self, result)

    def close(self):
        CALLS["close"] += 1
        if self.kind == "close raises":
            raise RuntimeError("cannot close")


def raising(error):
    def fault(env, result):
        raise error

    return fault


def put(place, value):
    """The result with another value at this place."""
    return lambda env, result: (*result[:place], value, *result[place + 1 :])


def dies(env, result):
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(number):
    """A step that does not return; somebody sends a signal, waits in vain, and sends it again."""

    def fault(env, result):
        for _ in range(2):
            time.sleep(0.01)
            os.kill(os.getpid(), number)
        time.sleep(600)

    return fault


FAULTS = {
    "nan reward": put(1, float("nan")),
    "infinite reward": put(1, -np.inf),
    "huge reward": put(1, 1e300),
    "reward outside its range": put(1, 7.0),
    "text as reward": put(1, "much"),
    "two rewards": put(1, np.ones(2)),
    "no reward": put(1, None),
    "nan observation": put(0, np.array([0.0, np.nan], dtype=np.float32)),
    "infinite observation": put(0, np.array([np.inf, 0.0], dtype=np.float32)),
    "huge observation": put(0, np.array([1e39, 0.0])),
    "observation of another shape": put(0, np.zeros(3, dtype=np.float32)),
    "observation of texts": put(0, np.array(["a", "b"])),
    "observation of objects": put(0, np.array([None, {}])),
    "ragged observation": put(0, [[1.0], [1.0, 2.0]]),
    "no observation": put(0, None),
    "two flags": put(2, np.array([True, False])),
    "four values": lambda env, result: (*result[:3], {}),
    "nothing": lambda env, result: None,
    "raises": raising(ZeroDivisionError("no more fuel\nnor patience")),
    "raises without a word": raising(RuntimeError()),
    "raises memory error": raising(MemoryError()),
    "raises stop iteration": raising(StopIteration(3)),
    "raises os error": raising(OSError(5, "Input/output error", "/dev/simulator")),
    "raises broken pipe": raising(BrokenPipeError(32, "Broken pipe")),
    "raises generator exit": raising(GeneratorExit()),
    "recursion": lambda env, result: FAULTS["recursion"](env, result),
    "exits": lambda env, result: sys.exit(0),
    "reset raises": raising(ConnectionResetError("gone")),
    "reset exits": lambda env, result: sys.exit("bye"),
    "reset gives one value": lambda env, result: result[0],
    "reset gives nan": put(0, np.array([np.nan, 0.0], dtype=np.float32)),
    "interrupts": raising(KeyboardInterrupt()),
    "hangs until Ctrl-C": hangs(signal.SIGINT),
    "hangs until SIGTERM": hangs(signal.SIGTERM),
    "leaves": lambda env, result: os._exit(0),
    "dies": dies,
}
"""By name: a function of the environment and the right result."""


def shared(env, result, action):
    env.buffer[:] = result[0]
    return (env.buffer, *result[1:])


def prints(env, result, action):
    print("step", end="")
    sys.stdout.flush()
    return result


def changes_action(env, result, action):
    if action is not None:
        action[:] = 0.3
    return result


def moves(env, result, action):
    os.chdir("/")
    return result


def leaks(env, result, action):
    env.leak.append((os.pipe(), np.zeros(1000)))
    return result


ALWAYS = {
    "one buffer": shared,
    "prints": prints,
    "changes its action": changes_action,
    "changes the folder": moves,
    "leaks": leaks,
    "info is a list": lambda env, result, action: (*result[:-1], []),
    "float64": lambda env, result, action: (result[0].astype(np.float64), *result[1:]),
    "numpy scalars": lambda env, result, action: (
        result
        if len(result) == 2
        else (result[0], np.float64(result[1]), np.bool_(result[2]), np.array(result[3]), None)
    ),
    "another action space": lambda env, result, action: setattr(env, "action_space", spaces.Discrete(9)) or result,
    "close raises": lambda env, result, action: result,
}
"""What must not matter, in every call."""

ODD = {
    "ends at once": lambda env, result, action: result if len(result) == 2 else (*result[:2], True, False, {}),
    "never ends": lambda env, result, action: result if len(result) == 2 else (*result[:2], False, False, {}),
    "has its own dice": lambda env, result, action: (
        result[0] + np.random.default_rng().normal(0, 0.05, 2).astype(np.float32),
        *result[1:],
    ),
}
"""What makes other episodes, in every call."""

gymnasium.register(NAME, entry_point=ChaoticLock, max_episode_steps=3, disable_env_checker=True)
