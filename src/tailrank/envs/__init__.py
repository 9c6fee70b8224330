"""Finite MDPs from and to files and Gymnasium environments: `read_mdp`, `write_mdp`, `Source`."""

from tailrank.envs.draft import Source
from tailrank.envs.sources import read_mdp, write_mdp

__all__ = ["Source", "read_mdp", "write_mdp"]
