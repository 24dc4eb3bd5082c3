"""Prints options as a configuration file, with comments; the effective configuration is then a file to begin with."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oarlock.codec import yaml
from oarlock.server.options.file import API_VERSION, KIND
from oarlock.server.options.option import ConfigError, Option, OptionGroup, options_of

__all__ = ["as_file"]

WIDTH = 100


def as_file(options: OptionGroup) -> str:
    """The options as a configuration file. Shows no secret; relative paths become absolute.

    Raises `ConfigError` for a path that isn't UTF-8, which no such file can have.
    """
    return "\n".join(_lines(options)) + "\n"


def _lines(options: OptionGroup) -> Iterator[str]:
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    group = ""
    for declared in options_of(type(options)):
        if not declared.in_file:
            continue
        if declared.group != group:
            group = declared.group
            yield from ("", f"# {group}")
        yield ""
        yield from textwrap.wrap(declared.help, WIDTH, initial_indent="# ", subsequent_indent="# ")
        value = _tree(declared, getattr(options, declared.field))
        try:
            yield yaml.encode({declared.file_field: value}).decode().removesuffix("\n")
        except UnicodeEncodeError:
            raise ConfigError([f"--{declared.flag}: is not UTF-8, and can't be in a configuration file"]) from None


def _tree(declared: Option, value: Any) -> Any:
    if isinstance(value, Path):
        value = value.absolute()
    return None if value is None else declared.type.tree(value)
