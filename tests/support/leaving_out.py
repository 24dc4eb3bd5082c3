"""Tests that need what isn't on this machine: one of each kind is skipped and says what is missing, the rest isn't run.

A suite that skips two hundred tests for three reasons hides the two hundred and first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

__all__ = ["leave_out", "tables_read_by"]

_TABLE = re.compile(r'"([\w-]+\.json)"')


def leave_out(config: pytest.Config, items: list[pytest.Item], missing: Callable[[pytest.Item], str | None]) -> None:
    """Keep one test for each reason that `missing` gives, skipped with it; `items` loses the others."""
    without: dict[str, list[pytest.Item]] = {}
    for item in items:
        reason = missing(item)
        if reason is not None:
            without.setdefault(reason, []).append(item)
    gone: set[pytest.Item] = set()
    for reason, found in without.items():
        first, *others = found
        also = f" (nor are {len(others)} others run that need it)" if others else ""
        first.add_marker(pytest.mark.skip(reason=reason + also))
        gone.update(others)
    if gone:
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]


def tables_read_by(item: pytest.Item) -> str:
    """The tables whose names are in the source of a test, else of its module, for the reason it isn't run."""
    function = getattr(item, "function", None)
    names = set(_TABLE.findall(inspect.getsource(function))) if function else set()
    return ", ".join(sorted(names or set(_TABLE.findall(inspect.getsource(inspect.getmodule(function))))))
