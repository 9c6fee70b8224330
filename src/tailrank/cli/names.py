"""Names that the command line knows: what the Tab key offers, and what a misspelt source may have meant.

Values of options come from what `--help` shows for them: `best|greedy` offers two words, DIR folders, FILE files. A
source is a file or an environment.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from tailrank.cli.errors import Failure

T = TypeVar("T")
SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TAILRANK_COMPLETE"
WORDS = re.compile(r"[a-z][a-z_-]*(\|[a-z][a-z_-]*)+")
FILES = ("FILE", "PATH")
SOURCES = ("source", "sources", "policy", "path")
FEW, CLOSE = 3, 0.1
"""Suggestions at most, and how much worse than the best one the others may be."""


class Completed(click.ParamType):  # type: ignore[type-arg]
    """The type of a value, with what the Tab key offers for it."""

    def __init__(self, inner: Any, offer: Callable[[str], list[CompletionItem]]) -> None:
        self.inner, self.offer, self.name = inner, offer, inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, as the type inside reads it."""
        return self.inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What may follow."""
        return self.offer(incomplete)


def completed(group: click.Group) -> None:
    """Teach the commands of a group what their arguments and options may be."""
    for command in group.commands.values():
        for parameter in command.params:
            offer = _offer(parameter, command.name == "train")
            if offer is not None and isinstance(parameter.type, type(click.STRING)):
                parameter.type = Completed(parameter.type, offer)


def _offer(parameter: click.Parameter, learning: bool) -> Callable[[str], list[CompletionItem]] | None:
    metavar = parameter.metavar or ""
    if isinstance(parameter, click.Argument):
        return (lambda text: _sources(text, learning)) if parameter.name in SOURCES else None
    if parameter.name == "algorithm":
        return _algorithms
    if WORDS.fullmatch(metavar):
        return lambda text: [CompletionItem(word) for word in metavar.split("|") if word.startswith(text)]
    if metavar == "DIR":
        return lambda text: [CompletionItem(text, type="dir")]
    return (lambda text: [CompletionItem(text, type="file")]) if metavar in FILES else None


def _algorithms(text: str) -> list[CompletionItem]:
    """Names of learners."""
    from tailrank.learning.registry import COUNTABLE, SIMULATED

    return [CompletionItem(name) for name in dict.fromkeys([*COUNTABLE, *SIMULATED]) if name.startswith(text)]


def _sources(text: str, learning: bool) -> list[CompletionItem]:
    """Names of environments for learners where they are allowed, else files."""
    from tailrank.envs import ENVIRONMENTS, SIMULATORS

    names = dict.fromkeys([*ENVIRONMENTS, *SIMULATORS]) if learning else []
    found = [CompletionItem(name) for name in names if name.startswith(text)]
    # Not both: bash forgets the names as soon as it is told to look for files.
    return found or [CompletionItem(text, type="file")]


def script(shell: str, command: click.Command) -> str:
    """What a shell must run to complete `tailrank` on the Tab key."""
    kind = get_completion_class(shell)
    if kind is None:
        raise Failure(f"--show-completion {shell}: must be one of {', '.join(SHELLS)}")
    return str(kind(command, {}, "tailrank", VARIABLE).source())


def known(make: Callable[[], T], source: str, others: Sequence[str] = ()) -> T:
    """What `make` gives; where it fails because nobody knows `source`, an error that says which names are near."""
    from tailrank.checks import ImportFailed, InputError

    try:
        return make()
    except ImportFailed:
        raise
    except InputError:
        unknown = unknown_source(source, others)
        if unknown is None:
            raise
        raise Failure(unknown) from None


def unknown_source(source: str, others: Sequence[str] = ()) -> str | None:
    """What to say of a source that is neither a file nor an environment; None if it is one of them.

    others: names that count as sources here, beside those of Gymnasium.
    """
    import gymnasium

    from tailrank.envs.mdp_files.formats import formats_text, suffixes

    module, _, name = source.rpartition(":")
    if module or name in others or name in gymnasium.registry:
        return None
    if os.path.exists(source) or source.lower().endswith(suffixes()):
        return None
    near = near_names(source, [*others, *gymnasium.registry])
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    kinds = "a file, an environment of tailrank" if others else f"a file ({formats_text()})"
    return f"{source!r:.80}: is neither {kinds} nor one of Gymnasium{hint}; --import PACKAGE brings in those of others"


def near_names(word: str, known: Sequence[str]) -> list[str]:
    """The names that `word` is most like, whatever the case of their letters; none where nothing is like it."""
    lower: dict[str, str] = {}
    for name in known:
        lower.setdefault(name.lower(), name)
    found = difflib.get_close_matches(word.lower(), lower, n=FEW)
    like = [difflib.SequenceMatcher(None, name, word.lower()).ratio() for name in found]
    return [lower[name] for name, ratio in zip(found, like, strict=True) if ratio >= like[0] - CLOSE]
