"""Commands of a command line, each with the options it takes, in groups of commands.

Must not know: which commands there are. See also: `flags`, `help`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.file import read_file
from oarlock.server.options.flags import read_flags
from oarlock.server.options.help import columns, help_text, paragraphs
from oarlock.server.options.layers import merged
from oarlock.server.options.option import ConfigError, OptionGroup, options_of
from oarlock.server.options.unused import UnusedFlag, warnings_about
from oarlock.storage.passwords import without_password

__all__ = ["Command", "CommandGroup", "LaterCommand", "UsageError", "read_options", "run_command"]

G = TypeVar("G", bound=OptionGroup)
_HELP = ("-h", "--help")


class UsageError(Exception):
    """A command line that has no meaning. `lines` says why, and whose help to read."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(map(without_password, lines))
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True, slots=True)
class Command:
    """`run` is called with an instance of `options`, and may return an exit code. `unused` flags are told about."""

    name: str
    options: type[OptionGroup]
    run: Callable[[Any], int | None]
    about: str = ""
    unused: Sequence[UnusedFlag] = ()

    @property
    def help(self) -> str:
        """What it does, by default its function's docstring."""
        return self.about or self.run.__doc__ or ""


@dataclass(frozen=True, slots=True)
class LaterCommand:
    """A command, or a group of them, that is loaded when it is named: each needs modules that others don't."""

    name: str
    load: Callable[[], Command | CommandGroup]


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands below a common name. `version` is what ``--version`` shows."""

    name: str
    help: str
    commands: tuple[Command | CommandGroup | LaterCommand, ...]
    version: str = ""

    def loaded(self) -> list[Command | CommandGroup]:
        """All of its commands."""
        return [_loaded(command) for command in self.commands]


def _loaded(command: Command | CommandGroup | LaterCommand) -> Command | CommandGroup:
    return command.load() if isinstance(command, LaterCommand) else command


def run_command(command: Command | CommandGroup, words: Sequence[str], path: str = "") -> int:
    """Run what `words` name, and return the exit code. `path` is what was typed before them.

    Raises `UsageError`, `ConfigError`, and what the command raises.
    """
    path = f"{path} {command.name}".lstrip()
    if isinstance(command, Command):
        if any(word in _HELP for word in words[: words.index("--") if "--" in words else None]):
            print(help_text(path, command.help, options_of(command.options)))  # noqa: T201
            return 0
        return command.run(read_options(command.options, words, path, command.unused)) or 0
    if not words or words[0] in _HELP:
        print(_group_help(command, path))  # noqa: T201
        return 0
    first, *rest = words
    if command.version and first == "--version":
        print(f"{command.name} {command.version}")  # noqa: T201
        return 0
    for inner in command.commands:
        if inner.name == first:
            return run_command(_loaded(inner), rest, path)
    what = "flag" if first.startswith("-") else "command"
    near = difflib.get_close_matches(first, [inner.name for inner in command.commands], n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise UsageError([f"No such {what}: {first}{hint}; see {path} --help"])


def _group_help(group: CommandGroup, path: str) -> str:
    rows = [(inner.name, " ".join(inner.help.partition("\n\n")[0].split())) for inner in group.loaded()]
    flags = [*([("--version", "Show the version.")] if group.version else []), ("-h, --help", "Show this text.")]
    lines = [f"Usage: {path} COMMAND", "", *paragraphs(group.help)]
    return "\n".join([*lines, "", "Commands:", *columns(rows, 16), "", "Flags:", *columns(flags, 16)])


def read_options(group: type[G], words: Sequence[str], path: str, unused: Sequence[UnusedFlag] = ()) -> G:
    """The options in a command line, and in the file of its ``--config`` if it has one.

    Of `unused` flags it is told on stderr that they have no effect.
    Raises one `UsageError` or `ConfigError` with every problem; `path` is the command whose help is named.
    """
    options = options_of(group)
    flags, mistakes = read_flags(options, words, unused)
    layers = [flags]
    file = flags.values.get("config")
    if isinstance(file, Path):
        layers.append(read_file([option for option in options if option.in_file], file))
    usage = [f"{mistake}; see {path} --help" for mistake in mistakes]
    try:
        found = merged(group, layers)
    except ConfigError as error:
        raise ConfigError([*usage, *error.lines]) from None
    if usage:
        raise UsageError(usage)
    for line in warnings_about(flags.unused):
        print(f"{path.partition(' ')[0]}: {line}", file=sys.stderr)  # noqa: T201
    return found
