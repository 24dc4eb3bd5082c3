"""An option is declared once and completely, and something reads it."""

from __future__ import annotations

import ast
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from source_trees import source_trees

from oarlock.cli.commands import COMMANDS
from oarlock.server.config import ServerConfig
from oarlock.server.options import types
from oarlock.server.options.commands import Command, CommandGroup
from oarlock.server.options.option import Option, OptionGroup, options_of

SERVERS = options_of(ServerConfig)
PYTHON: dict[type[types.OptionType], Any] = {
    types.BooleanType: bool,
    types.DurationType: float,
    types.FractionType: float,
    types.IntegerType: int,
    types.PathListType: tuple[Path, ...],
    types.PathType: Path,
    types.SizeType: int,
    types.StringListType: tuple[str, ...],
    types.SeparateListType: tuple[str, ...],
    types.StringType: str,
    types.URLType: str,
}


def groups(command: Command | CommandGroup) -> list[type[OptionGroup]]:
    if isinstance(command, Command):
        return [command.options]
    return [group for inner in command.loaded() for group in groups(inner)]


GROUPS = [ServerConfig, *groups(COMMANDS)]
EVERY = {(group.__name__, one.field): one for group in GROUPS for one in options_of(group)}


@pytest.mark.parametrize("declared", EVERY.values(), ids=map(":".join, EVERY))
def test_an_option_has_a_flag_a_unit_and_a_help_text(declared: Option) -> None:
    assert re.fullmatch(r"[A-Z].*[.]", declared.help), declared.help
    assert re.fullmatch(r"[A-Z:/|.]+|MODULE(:ATTRIBUTE)?\|FILE\.py", declared.type.unit)
    if not declared.is_argument:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", declared.flag)
        assert declared.required or declared.problem(declared.default) == ""
        assert re.fullmatch(r"-?[a-z]?", declared.short)


@pytest.mark.parametrize("declared", SERVERS, ids=[one.field for one in SERVERS])
def test_an_option_of_the_server_has_a_group_and_is_of_the_type_it_is_read_as(declared: Option) -> None:
    assert declared.group
    assert declared.in_file
    python = PYTHON[type(declared.type)]
    expected = python | None if declared.default is None else python
    assert typing.get_type_hints(ServerConfig)[declared.field] == expected


@pytest.mark.parametrize("group", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_names_are_unique(group: type[OptionGroup]) -> None:
    declared = options_of(group)
    for names in (
        [one.flag for one in declared],
        [one.short for one in declared if one.short],
        [one.file_field for one in declared if one.in_file],
    ):
        assert len(set(names)) == len(names)


def test_every_option_of_the_server_is_read() -> None:
    read = {
        node.attr
        for tree in source_trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    read |= {f"audit_{sink}_{name}" for sink in ("log", "webhook") for name in read}  # as `SinkOptions` has them
    assert {one.field for one in SERVERS} - read == set()
