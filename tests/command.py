"""The command line, in this process or in one of its own, and how it refuses bad input."""

from __future__ import annotations

import sys

from click.testing import CliRunner

from tailrank.cli import main

TAILRANK = [sys.executable, "-m", "tailrank"]


def cli(*arguments):
    """The result of a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def fails(result, *words, code=2):
    """Nothing on stdout, one line on stderr that has all these words, and the right exit code."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("tailrank: error: ")
    for word in words:
        assert word in result.stderr, result.stderr
