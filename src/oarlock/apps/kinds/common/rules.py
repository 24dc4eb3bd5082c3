"""Rules that several kinds have: fields that stay as they are, counts.

Source: Kubernetes' validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oarlock.apps.kinds.common.trees import Check, Tree, at
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid

__all__ = ["IMMUTABLE", "NON_NEGATIVE", "forbidden_updates", "immutable", "non_negative", "shown"]

IMMUTABLE: Final = "field is immutable"


NON_NEGATIVE: Final = "must be greater than or equal to 0"


def non_negative(tree: Tree, *paths: str) -> Iterator[FieldError]:
    for path in paths:
        number = at(tree, path, 0)
        if number < 0:
            yield Invalid(path, number, NON_NEGATIVE)


def shown(tree: Tree) -> Any:
    return tree or None


def immutable(*paths: str) -> Check:
    """These fields never change."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield Invalid(path, at(new, path), IMMUTABLE)

    return check


def forbidden_updates(texts: Mapping[str, str]) -> Check:
    """The same, with texts of their own."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path, text in texts.items() if old is not None else ():
            if at(new, path) != at(old, path):
                yield Forbidden(path, text)

    return check
