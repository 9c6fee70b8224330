"""A fitted low-rank model with its support as arrays of a checkpoint, and whether arrays can be one.

Compiled code does not check its indices, so what is read is checked before it is used.
"""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from tailrank._system.arrays import Arrays, arrays_below, check_arrays
from tailrank.checks import InputError
from tailrank.learning.lowrank.function_class import KnownRewards
from tailrank.learning.lowrank.oracle import LowRankFit, Setting
from tailrank.learning.lowrank.planning import ObservedSupport
from tailrank.learning.lowrank.psi import KINDS, arrays_described
from tailrank.planning.observed.support import RewardKinds
from tailrank.policies.outcomes import ARRAYS as NETWORK
from tailrank.policies.outcomes import OutcomeNetwork
from tailrank.policies.units import PHI


def fit_to_arrays(fit: LowRankFit, support: ObservedSupport) -> dict[str, np.ndarray]:
    """The model and its support."""
    setting = fit.setting
    arrays = {f"network.{name}": x for name, x in fit.network.to_arrays().items()}
    arrays |= {f"member.{name}": x for name, x in fit.weights.items()}
    for i, psi in enumerate(fit.psi):
        arrays |= {f"psi.{i}.{name}": x for name, x in psi.to_arrays().items()}
    for i, (states, weights) in enumerate(zip(support.states, support.weights, strict=True)):
        arrays |= {f"states.{i}": states, f"weights.{i}": weights}
    arrays |= {
        "psi": np.frombuffer(fit.psi[0].name.encode(), dtype=np.uint8),
        "rewards": np.concatenate(fit.rewards.values),
        "laws": np.array([v.size for v in fit.rewards.values]),
        "spacing": np.array([fit.rewards.spacing, float(fit.rewards.exact)]),
        "setting": np.array([*astuple(setting)[:-1], PHI.index(setting.phi)], dtype=np.float64),
        "fit": np.array([float(fit.ends), fit.held_out, float(fit.searched)]),
        "first": support.first,
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def fit_from_arrays(arrays: Arrays, known: KnownRewards | None = None) -> tuple[LowRankFit, ObservedSupport]:
    """The model, with the known laws of rewards if there are any, and its support."""
    rank, decay, heads, psi, phi = arrays["setting"]
    kind = KINDS[arrays["psi"].tobytes().decode()]
    ends, held_out, searched = arrays["fit"]
    spacing, exact = arrays["spacing"]
    laws = tuple(np.split(arrays["rewards"], np.cumsum(arrays["laws"])[:-1]))
    parts = range(sum(name.startswith("states.") for name in arrays))
    fit = LowRankFit(
        OutcomeNetwork.from_arrays(arrays_below(arrays, "network.")),
        tuple(kind(**arrays_below(arrays, f"psi.{i}.")) for i in parts),
        RewardKinds(laws, float(spacing), bool(exact)),
        Setting(int(rank), float(decay), bool(heads), bool(psi), PHI[int(phi)]),
        bool(ends),
        float(held_out),
        int(searched),
        arrays_below(arrays, "member."),
        known,
    )
    states, weights = (tuple(arrays[f"{name}.{i}"] for i in parts) for name in ("states", "weights"))
    return fit, ObservedSupport(states, weights, arrays["first"])


def check_fit_arrays(arrays: Arrays, horizon: int, n_actions: int, n_features: int, where: str = "") -> None:
    """Raise unless these can be a model and its support; where: what stands before their names in errors."""
    sizes = {"H": horizon, "A": n_actions, "m": n_features}
    size = check_arrays(arrays_below(arrays, "network."), NETWORK, "network.", **sizes)
    own = {
        "hidden": "float32 [k, v]",
        "bias": "float32 [v]",
        "heads": f"float32 [1+k+v, {size['T'] * n_actions}, K]",
        "reward_heads": f"float32 [1+k+v, {size['T'] * n_actions}, L]",
        "tilt": "float32 [K, L]",
        "units": "float32 [2] >= 0",
    }
    check_arrays(arrays_below(arrays, "member."), own, "member.", **size)
    check_arrays({"setting": arrays["setting"]}, {"setting": "float64 [5] >= 0"})
    if arrays["setting"][4] >= len(PHI):
        raise InputError(f"setting: phi must be one of {len(PHI)}, found {arrays['setting'][4]:g}")
    kinds = int(arrays["setting"][0])
    described = {
        "rewards": "float64 [n]",
        "laws": f"whole [{size['L']}] > 0",
        "spacing": "float64 [2] >= 0",
        "fit": "float64 [3]",
        "first": f"float64 [*, {n_features}]",
    }
    parts = sum(name.startswith("states.") for name in arrays)
    psi = arrays_described(kinds, size["k"])[arrays["psi"].tobytes().decode()]
    found = check_arrays({name: arrays[name] for name in described}, described)
    if parts not in (1, horizon - 1) or int(arrays["laws"].sum()) != found["n"] or not arrays["spacing"][0] > 0:
        raise InputError(f"{where}states, laws: must fit the steps and the rewards")
    if not 0 < kinds <= size["K"]:
        raise InputError(f"{where}setting: rank = {kinds}, the network has {size['K']} kinds")
    for i in range(parts):
        both = {"states": f"float64 [N, {n_features}]", "weights": f"float64 [{kinds}, N] >= 0"}
        check_arrays({name: arrays[f"{name}.{i}"] for name in both}, both, f"{where}{i}.")
        check_arrays(arrays_below(arrays, f"psi.{i}."), psi, f"{where}psi.{i}.")
