"""Finite MDPs from and to files (`read_mdp`, `write_mdp`) and environments for learners.

`make_episodic` makes those of this package, `open_simulator` opens any of Gymnasium's, `check_environment` tries one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrank._system.lazy import lazy_names

if TYPE_CHECKING:
    from tailrank.envs.built_in.episodic import Episodic
    from tailrank.envs.built_in.from_mdp import from_mdp
    from tailrank.envs.gymnasium.checking import Finding, check_environment
    from tailrank.envs.gymnasium.simulator import GymSimulator, open_simulator
    from tailrank.envs.mdp_files.draft import Source
    from tailrank.envs.mdp_files.read_write import read_mdp, write_mdp
    from tailrank.envs.registry import ENVIRONMENTS, SIMULATORS, make_episodic, make_simulator

_HOMES = {
    "ENVIRONMENTS": "registry",
    "Episodic": "built_in.episodic",
    "Finding": "gymnasium.checking",
    "GymSimulator": "gymnasium.simulator",
    "SIMULATORS": "registry",
    "Source": "mdp_files.draft",
    "check_environment": "gymnasium.checking",
    "from_mdp": "built_in.from_mdp",
    "make_episodic": "registry",
    "make_simulator": "registry",
    "open_simulator": "gymnasium.simulator",
    "read_mdp": "mdp_files.read_write",
    "write_mdp": "mdp_files.read_write",
}

__all__ = [
    "ENVIRONMENTS",
    "SIMULATORS",
    "Episodic",
    "Finding",
    "GymSimulator",
    "Source",
    "check_environment",
    "from_mdp",
    "make_episodic",
    "make_simulator",
    "open_simulator",
    "read_mdp",
    "register",
    "write_mdp",
]

__getattr__ = lazy_names("tailrank.envs", _HOMES)


def register() -> None:
    """Register the environments with Gymnasium, which is only imported here."""
    from tailrank.envs.gymnasium import registered

    registered.register()
