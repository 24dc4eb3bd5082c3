"""The text of ``--help``."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from oarlock.server.options.flags import flag_of
from oarlock.server.options.option import Option
from oarlock.server.options.types import BooleanType

__all__ = ["columns", "help_text", "paragraphs", "shown_default", "shown_flag"]

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
