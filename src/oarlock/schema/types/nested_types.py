"""`NestedTypes`: the classes that a declared class is made of, by the paths of what they describe in its schema.

They are looked for when somebody asks for them: nothing but OpenAPI documents does.
Must not know: documents. See also: `reflect`, which makes the schema.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from oarlock.schema.definition import NestedType
from oarlock.schema.types.markers import IntOrStringMark, QuantityMark
from oarlock.schema.types.reflect import fields_of, take_apart

__all__ = ["NestedTypes"]


class NestedTypes(Mapping[str, NestedType]):
    """Those of one class: ``.spec``, ``.spec.items[]``. Metadata isn't looked into."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __getitem__(self, path: str) -> NestedType:
        return self._found[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def _found(self) -> Mapping[str, NestedType]:
        return dict(_of_class(self._cls, "", ()))


def _of_class(cls: Any, path: str, inside: tuple[type, ...]) -> Iterator[tuple[str, NestedType]]:
    for field in fields_of(cls):
        if path or field.wire != "metadata":
            yield from _of_hint(field.hint, f"{path}.{field.wire}", (*inside, cls))


def _of_hint(hint: Any, path: str, inside: tuple[type, ...]) -> Iterator[tuple[str, NestedType]]:
    apart = take_apart(hint)
    base: Any = apart.base
    if any(isinstance(marker, IntOrStringMark | QuantityMark) for marker in apart.markers):
        return
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        if base not in inside:  # where a class may contain itself, the schema ends
            yield path, _type(base)
            yield from _of_class(base, path, inside)
        return
    arguments = typing.get_args(base)
    if typing.get_origin(base) in (list, dict) and arguments:
        yield from _of_hint(arguments[-1], f"{path}[]", inside)


def _type(cls: Any) -> NestedType:
    name = re.sub(r"[^A-Za-z0-9]", "", cls.__qualname__.rpartition("<locals>.")[2])
    fields = " ".join(field.wire for field in fields_of(cls))  # a function that makes classes gives all the same name
    return NestedType(
        name, f"{cls.__module__}.{cls.__qualname__}: {fields}", inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    )
