"""Commands of a command line, each with the options it takes, in groups of commands.

Must not know: which commands there are. See also: `flags`.
"""

from __future__ import annotations

import inspect
import pkgutil
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.file import read_file
from oarlock.server.options.flags import UnusedFlag, flag_of, merged, nearest, read_flags, warnings_about
from oarlock.server.options.option import ConfigError, Option, OptionGroup, options_of
from oarlock.server.options.types import BooleanType
from oarlock.storage.passwords import without_password

_COLUMN = 34
_WIDEST = 100


def help_text(name: str, about: str, options: Sequence[Option]) -> str:
    """The help of a command that is called `name`. Flags are shown by group, with their defaults."""
    arguments = [option for option in options if option.is_argument]
    words = [argument.flag if argument.required else f"[{argument.flag}]" for argument in arguments]
    usage = " ".join([*words, *(f"[{option.type.unit}]" for option in options if option.by_position)])
    rows = [
        (argument.flag, f"{argument.help} Or --{argument.also}." if argument.also else argument.help)
        for argument in arguments
    ]
    rows += [(option.type.unit, f"Instead of {flag_of(option)}.") for option in options if option.by_position]
    lines = [f"Usage: {name} [flags] {usage}".rstrip(), "", *paragraphs(about)]
    if rows:
        lines += ["", "Arguments:", *columns(rows)]
    groups: dict[str, list[tuple[str, str]]] = {"": []}
    for option in options:
        if not option.is_argument:
            default = shown_default(option)
            groups.setdefault(option.group, []).append(
                (shown_flag(option), option.help + (default and f" [default: {default}]"))
            )
    own = groups.pop("")
    lines += ["", "Flags:", *columns([*own, ("-h, --help", "Show this text.")])]
    for group, rows in groups.items():
        lines += ["", f"{group} flags:", *columns(rows)]
    return "\n".join(lines)


def shown_flag(declared: Option) -> str:
    """``-v, --v LEVEL``; a boolean's value is optional."""
    short = f"-{declared.short}, " if declared.short else ""
    value = f"[={declared.type.unit}]" if isinstance(declared.type, BooleanType) else f" {declared.type.unit}"
    return f"{short}{flag_of(declared)}{value}"


def shown_default(declared: Option) -> str:
    """The default as a flag takes it; empty if there is none, or if it is false."""
    return "" if declared.required or declared.default is False else declared.text(declared.default)


def _width() -> int:
    return max(60, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))


def paragraphs(text: str) -> Iterator[str]:
    """The lines of a docstring, indented and wrapped."""
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if number:
            yield ""
        yield from textwrap.wrap(paragraph, _width(), initial_indent="  ", subsequent_indent="  ")


def columns(rows: Iterable[tuple[str, str]], column: int = _COLUMN) -> Iterator[str]:
    """Rows of a name and what it is, the second from `column` on; a long name has a line of its own."""
    for name, text in rows:
        head = f"  {name}"
        lines = textwrap.wrap(text, _width() - column, break_on_hyphens=False) or [""]
        if len(head) + 2 > column:
            yield head
            head = ""
        yield f"{head:{column}}{lines[0]}".rstrip()
        yield from (" " * column + line for line in lines[1:])


G = TypeVar("G", bound=OptionGroup)
_HELP = ("-h", "--help")


class UsageError(Exception):
    """A command line that has no meaning. `lines` says why, and whose help to read."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(map(without_password, lines))
        super().__init__("; ".join(self.lines))


@dataclass(frozen=True, slots=True)
class Command:
    """`run` is called with an instance of `options`, and may return an exit code.

    `unused` flags are reported. `stray` is what to do with an argument that the command doesn't take.
    """

    name: str
    options: type[OptionGroup]
    run: Callable[[Any], int | None]
    about: str = ""
    unused: Sequence[UnusedFlag] = ()
    stray: str = ""

    @property
    def help(self) -> str:
        """What it does, by default its function's docstring."""
        return self.about or self.run.__doc__ or ""


@dataclass(frozen=True, slots=True)
class LaterCommand:
    """A command, or a group of them, that is loaded when it is named: each needs modules that others don't.

    `where` is ``module:ATTRIBUTE``.
    """

    name: str
    where: str

    def load(self) -> Command | CommandGroup:
        """Import its module."""
        loaded: Command | CommandGroup = pkgutil.resolve_name(self.where)
        return loaded


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


def _owners(group: CommandGroup, flag: str, path: str) -> Iterator[tuple[str, Command]]:
    """The commands of a group, and of those in it, that have a flag, and how they are typed."""
    for inner in group.loaded():
        if isinstance(inner, CommandGroup):
            yield from _owners(inner, flag, f"{path} {inner.name}")
        elif any(flag == flag_of(declared) for declared in options_of(inner.options)):
            yield f"{path} {inner.name}", inner


_MOST_OWNERS = 3
"""A flag of more commands than this says nothing of which one was meant."""


def run_command(
    command: Command | CommandGroup, words: Sequence[str], path: str = "", root: CommandGroup | None = None
) -> int:
    """Run what `words` name, and return the exit code. `path` is what was typed before them, `root` what begins there.

    Raises `UsageError`, `ConfigError`, and what the command raises.
    """
    path = f"{path} {command.name}".lstrip()
    if isinstance(command, Command):
        if any(word in _HELP for word in words[: words.index("--") if "--" in words else None]):
            print(help_text(path, command.help, options_of(command.options)))  # noqa: T201
            return 0
        owners = partial(_few_owners, root) if root is not None else None
        read = read_options(command.options, words, path, command.unused, owners, command.stray)
        return command.run(read) or 0
    root = root or command
    if not words or words[0] in _HELP:
        print(_group_help(command, path))  # noqa: T201
        return 0
    first, *rest = words
    if command.version and first == "--version":
        print(f"{command.name} {command.version}")  # noqa: T201
        return 0
    for inner in command.commands:
        if inner.name == first:
            return run_command(_loaded(inner), rest, path, root)
    what = "flag" if first.startswith("-") else "command"
    raise UsageError([f"No such {what}: {first}{_hint(command, words, path)}; see {path} --help"])


def _few_owners(root: CommandGroup, flag: str) -> list[str]:
    shortest: dict[int, str] = {}
    for path, command in _owners(root, flag, root.name):
        shortest[id(command)] = min(path, shortest.get(id(command), path), key=len)
    owners = sorted(shortest.values())
    return owners if len(owners) <= _MOST_OWNERS else []


def _hint(group: CommandGroup, words: Sequence[str], path: str) -> str:
    """What may have been meant by words that begin with no command of a group."""
    names = [inner.name for inner in group.commands]
    flag = words[0].partition("=")[0]
    owners = list(_owners(group, flag, path)) if flag.startswith("--") else []
    near = [] if owners else nearest(words[0], [*names, "--help", *(["--version"] if group.version else [])])
    if near:
        return f" (did you mean {' or '.join(near)}?)"
    named = next((word for word in words[1:] if word in names), "")
    if named:
        return f" (the command comes first: {path} {named} …)"
    return f" (it follows the command: {owners[0][0]} {flag})" if owners else ""


def _group_help(group: CommandGroup, path: str) -> str:
    rows = [(inner.name, " ".join(inner.help.partition("\n\n")[0].split())) for inner in group.loaded()]
    flags = [*([("--version", "Show the version.")] if group.version else []), ("-h, --help", "Show this text.")]
    lines = [f"Usage: {path} COMMAND", "", *paragraphs(group.help)]
    return "\n".join([*lines, "", "Commands:", *columns(rows, 16), "", "Flags:", *columns(flags, 16)])


def read_options(
    group: type[G],
    words: Sequence[str],
    path: str,
    unused: Sequence[UnusedFlag] = (),
    owners: Callable[[str], Sequence[str]] | None = None,
    stray: str = "",
) -> G:
    """The options in a command line, and in the file of its ``--config`` if it has one.

    `unused` flags are reported on stderr as without effect. For `owners` and `stray` see `read_flags`.
    Raises one `UsageError` or `ConfigError` with every problem; `path` is the command whose help is named.
    """
    options = options_of(group)
    flags, mistakes = read_flags(options, words, unused, owners, stray)
    layers = [flags]
    file = flags.values.get("config")
    if isinstance(file, Path):
        layers.append(read_file([option for option in options if option.in_file], file))
    usage = [f"{mistake}; see {path} --help" for mistake in mistakes]
    try:
        found = merged(group, layers)
    except ConfigError as error:
        arguments = tuple(f"{option.flag}: " for option in options if option.is_argument)
        reported = [f"{line}; see {path} --help" if line.startswith(arguments) else line for line in error.lines]
        raise ConfigError([*usage, *reported]) from None
    if usage:
        raise UsageError(usage)
    for line in warnings_about(flags.unused):
        print(f"{path.partition(' ')[0]}: {line}", file=sys.stderr)  # noqa: T201
    return found
