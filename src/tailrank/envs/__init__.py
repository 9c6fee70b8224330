"""Finite MDPs from and to files (`read_mdp`, `write_mdp`) and environments for learners.

`make_episodic` makes those of this package, `open_simulator` opens any of Gymnasium's, `check_environment` tries one.
"""

from tailrank.envs.checking import Finding, check_environment
from tailrank.envs.draft import Source
from tailrank.envs.episodic import Episodic
from tailrank.envs.finite import from_mdp
from tailrank.envs.registry import ENVIRONMENTS, SIMULATORS, make_episodic, make_simulator
from tailrank.envs.simulator import GymSimulator, open_simulator
from tailrank.envs.sources import read_mdp, write_mdp

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


def register() -> None:
    """Register the environments with Gymnasium, which is only imported here."""
    from tailrank.envs import gym

    gym.register()
