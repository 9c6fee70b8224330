"""The command line, a module for each command; `root` puts them together."""

from tailrank.cli.root import NEXT, main

__all__ = ["NEXT", "main"]
