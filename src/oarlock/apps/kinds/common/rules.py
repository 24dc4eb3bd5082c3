"""Rules that several kinds have: fields that stay as they are, counts.

Source: Kubernetes' validation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.trees import TreeCheck, at, go_value
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.names import regex_complaint

_PERCENT: Final = regex_complaint(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)

IMMUTABLE: Final = "field is immutable"


NON_NEGATIVE: Final = "must be greater than or equal to 0"


def shown(tree: Tree) -> Any:
    return tree or None


def immutable(*paths: str) -> TreeCheck:
    """These fields never change."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield Invalid(path, at(new, path), IMMUTABLE)

    return check


def unchanged(new: Tree, old: Tree, path: str, *fields: str, kind: str = "") -> Iterator[FieldError]:
    """Fields of an object at `path` that stay as they are; `kind` is what Go calls their type."""
    for name in fields:
        if new.get(name) != old.get(name):
            yield Invalid(f"{path}.{name}" if path else name, go_value(kind, new.get(name)), IMMUTABLE)


def check_int_or_percent(value: int | str | None, path: str) -> Iterator[FieldError]:
    """A number that isn't negative, or a percentage."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+%", value):
            yield Invalid(path, value, _PERCENT)
    elif (value or 0) < 0:
        yield Invalid(path, value, NON_NEGATIVE)


def check_at_most_all(value: int | str | None, path: str) -> Iterator[FieldError]:
    """A percentage of no more than a hundred, if it is one."""
    if isinstance(value, str) and re.fullmatch("[0-9]+%", value) and (len(value) > 5 or int(value[:-1]) > 100):
        yield Invalid(path, value, "must not be greater than 100%")


def is_none(value: int | str | None) -> bool:
    """Whether a number or a percentage is zero."""
    return value in (None, 0) or (isinstance(value, str) and value.rstrip("%").strip("0") == "")
