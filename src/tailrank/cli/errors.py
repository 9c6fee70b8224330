"""Errors of the command line: whatever goes wrong is one line on stderr and an exit code.

2 for bad input of any kind, 130 after an interrupt; a pipe closed by its reader is no error.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import click

OPTIONS = (
    "axis_order|baseline|columns|discount|episodes|fallback|horizon|imports|index_base|levels|max_episodes|memory|method|"
    "reward_range|seconds|start|states|tolerance|unit|what|width"
)
ARGUMENT = re.compile(rf"(?<![\w-])({OPTIONS})=(\.\.\.|\w[\w.-]*)")
FLAGS = {"imports": "--import", "columns": "--column"}


def flags(text: str) -> str:
    """The text with options where the library speaks of arguments.

    >>> flags("give horizon=...; or index_base=0")
    'give --horizon; or --index-base 0'
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        return FLAGS.get(name, "--" + name.replace("_", "-")) + ("" if value == "..." else f" {value}")

    return ARGUMENT.sub(flag, text)


def say(text: str, err: bool = False) -> None:
    """Print one line in which no name can do more than stand there."""
    from tailrank.checks import printable

    click.echo(printable(flags(text)), err=err)


class Failure(click.ClickException):
    """One line on stderr and an exit code."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code  # type: ignore[misc]

    def show(self, file: Any = None) -> None:
        """Print the line."""
        say(f"tailrank: error: {self.message}", err=True)


class Command(click.Command):
    """A command whose expected errors become a `Failure`.

    groups: headings of the help text and the options under each, by name; the first heading stands for the most used.
    """

    def __init__(self, *args: Any, groups: dict[str, tuple[str, ...]] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.groups = groups or {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under their headings; those that no heading claims are the last."""
        if not self.groups:
            super().format_options(ctx, formatter)
            return
        records = {param.name or "": param.get_help_record(ctx) for param in self.get_params(ctx)}
        claimed = {name for names in self.groups.values() for name in names}
        rest = tuple(name for name in records if name not in claimed)
        for heading, names in (*self.groups.items(), ("Other options", rest)):
            rows = [record for name in names if (record := records.pop(name, None)) is not None]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from tailrank._system.blas import claim_buffers
        from tailrank.checks import InputError

        try:
            claim_buffers()
            return super().invoke(ctx)
        except InputError as error:
            raise Failure(str(error)) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            where = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{where}{error.strerror or error}") from None
        except MemoryError as error:
            hint = "; lower --memory" if any(option.name == "memory" for option in self.params) else ""
            raise Failure(f"out of memory ({error or 'no more could be allocated'}){hint}") from None
        except ImportError as error:
            # A limit on memory shows when a library is loaded, too; so does a package that is half installed.
            raise Failure(f"{error.name or 'a package'}: cannot be imported ({error})") from None
        except KeyboardInterrupt:
            raise Failure("interrupted", 130) from None


class CommandGroup(click.Group):
    """The commands; usage errors are one line too."""

    command_class = Command

    def main(self, *args: Any, **options: Any) -> Any:
        """Run, and exit with the right code unless `standalone_mode` is off."""
        run: Callable[..., Any] = super().main
        if not options.pop("standalone_mode", True):
            return run(*args, standalone_mode=False, **options)
        try:
            code = run(*args, standalone_mode=False, **options)
        except click.UsageError as error:
            self._stop(_usage_line(error))
        except click.Abort:
            self._stop(Failure("interrupted", 130))
        except click.ClickException as error:
            self._stop(error)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command named first, or an error that suggests the nearest name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else f": must be one of {', '.join(self.commands)}"
            raise click.UsageError(f"no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    @staticmethod
    def _stop(error: click.ClickException) -> NoReturn:
        with suppress(OSError):  # the terminal may be gone, the disk of a log may be full
            error.show()
        sys.exit(error.exit_code)


def _usage_line(error: click.UsageError) -> Failure:
    command = error.ctx.command_path if error.ctx else "tailrank"
    return Failure(f"{error.format_message().rstrip('.')}; see {command} --help")
