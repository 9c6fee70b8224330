"""Finite MDPs from and to files (`read_mdp`, `write_mdp`) and environments for learners (`make_episodic`)."""

from tailrank.envs.draft import Source
from tailrank.envs.episodic import Episodic
from tailrank.envs.finite import from_mdp
from tailrank.envs.registry import ENVIRONMENTS, make_episodic
from tailrank.envs.sources import read_mdp, write_mdp

__all__ = ["ENVIRONMENTS", "Episodic", "Source", "from_mdp", "make_episodic", "read_mdp", "register", "write_mdp"]


def register() -> None:
    """Register the environments with Gymnasium, which is only imported here."""
    from tailrank.envs import gym

    gym.register()
