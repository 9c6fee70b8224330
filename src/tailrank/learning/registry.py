"""The learners by name: a row is a name and where its class stands, "module:class".

To add a learner, write its class in one file (see `learning/protocol.py`) and add a row here; or leave it in a package
of your own and name it in the same way: `tailrank train ... --algorithm my_package:MyLearner --import my_package`.
Its fields are its settings (`_system/settings.py`), the first line of its docstring is what `tailrank list` says.
"""

from __future__ import annotations

import importlib
from typing import Any

from tailrank import checks
from tailrank.checks import InputError

_ELA = "tailrank.learning.ela"
_STATES = "tailrank.learning.rivals.states"
_OBSERVATIONS = "tailrank.learning.rivals.observations"

COUNTABLE: dict[str, str] = {
    "ela": f"{_ELA}.ela:ELA",
    "ella": f"{_ELA}.ella:ELLA",
    "ela-bernstein": f"{_ELA}.bernstein:ELABernstein",
    "rep-ucb": f"{_ELA}.variants:RepUCB",
    "rep-ucb-augmented": f"{_STATES}.rep_ucb_augmented:RepUCBAugmented",
    "flambe": f"{_STATES}.flambe:Flambe",
    "olive": f"{_STATES}.olive:Olive",
    "witness": f"{_STATES}.witness:Witness",
    "greedy": f"{_ELA}.variants:Greedy",
    "uniform": f"{_ELA}.variants:Uniform",
    "cvar-ucbvi": f"{_STATES}.cvar_ucbvi:CvarUCBVI",
    "cvar-ucbvi-bernstein": f"{_STATES}.cvar_ucbvi:CvarUCBVIBernstein",
    "lsvi-ucb": f"{_STATES}.lsvi_ucb:LSVIUCB",
    "cvar-lsvi-ucb": f"{_STATES}.lsvi_ucb:CvarLSVIUCB",
    "icvar-rm": f"{_STATES}.icvar:ICVaRRM",
    "icvar-linear": f"{_STATES}.icvar:ICVaRLinear",
    "bastani": f"{_STATES}.bastani:Bastani",
    "cvar-q": f"{_STATES}.cvar_q:CvarQ",
    "policy-gradient": f"{_STATES}.policy_gradient:CvarGradient",
    "actor-critic": f"{_STATES}.policy_gradient:ActorCritic",
    "pcid": f"{_STATES}.pcid:PCID",
}
"""Learners where states can be counted."""

SIMULATED: dict[str, str] = {
    "ela": "tailrank.learning.lowrank.ela:LowRankELA",
    "ella": "tailrank.learning.lowrank.ella:LowRankELLA",
    "policy-gradient": f"{_OBSERVATIONS}.policy_gradient:PolicyGradient",
    "qr-dqn": f"{_OBSERVATIONS}.qr_dqn:QrDqn",
    "c51": f"{_OBSERVATIONS}.qr_dqn:C51",
    "bins": f"{_OBSERVATIONS}.bins:Bins",
    "kernel": "tailrank.learning.simulators.learners:KernelLearner",
    "shortfall-dqn": "tailrank.learning.simulators.learners:ShortfallLearner",
    "search": "tailrank.learning.simulators.learners:SearchLearner",
    "budget-ppo": "tailrank.learning.simulators.learners:GradientLearner",
    "auto": "tailrank.learning.simulators.learners:AutoLearner",
}
"""Learners on simulators."""


def learner_class(algorithm: str, kind: str = "countable") -> type[Any]:
    """The class of a learner by its name, or by "module:class"; the module is imported, and so run."""
    known = COUNTABLE if kind == "countable" else SIMULATED
    where = algorithm if ":" in str(algorithm) else known[checks.one_of(algorithm, "algorithm", known)]
    module, _, name = where.partition(":")
    if ":" in algorithm:
        from tailrank.envs.gymnasium.tables import load

        load((module,))  # quietly, and whatever goes wrong is an InputError
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type) or not hasattr(found, "__dataclass_fields__") or not hasattr(found, "kind"):
        raise InputError(
            f"algorithm = {algorithm!r:.80}: {module} has no learner {name!r} (see tailrank.learning.protocol)"
        )
    return found


def make_learner(algorithm: str, kind: str = "countable", **settings: Any) -> Any:
    """The learner with these settings by name.

    >>> make_learner("cvar-ucbvi", tau=0.2, alpha_scale=0.1).schedule.alpha_scale
    0.1
    """
    from tailrank._system.settings import make

    return make(learner_class(algorithm, kind), settings, algorithm)


def summary(algorithm: str, kind: str) -> str:
    """What a learner is, in one line."""
    return (learner_class(algorithm, kind).__doc__ or "").strip().splitlines()[0].removesuffix(".")
