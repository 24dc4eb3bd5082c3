"""A field that holds one of several Models, told apart by a field with another literal in each.

Type checkers see the union. msgspec can't read one of Structs that have fields for their tags, so a class made here
stands for it in the hint (`ChoiceType`), and `read_choice` reads its values.
See also: `shapes`, which finds unions; `reflect`, which makes their schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ChoiceType(type):
    """The class of the classes that stand for unions. `tag` is the wire name that tells the choices apart."""

    tag: str
    by_value: Mapping[str, Any]
    classes: tuple[Any, ...]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.classes)

    def __repr__(cls) -> str:
        return cls.__name__


def choice_type(tag: str, by_value: Mapping[str, Any]) -> ChoiceType:
    """What stands for a union of these classes, by the values of their tag."""
    classes = tuple(dict.fromkeys(by_value.values()))
    made = ChoiceType(" | ".join(cls.__name__ for cls in classes), (), {})
    made.tag, made.by_value, made.classes = tag, by_value, classes
    return made


def read_choice(kind: Any, value: Any) -> Any:
    """For msgspec: a tree as the choice that its tag names. Raises ValueError, ValidationError."""
    if not isinstance(kind, ChoiceType):
        raise TypeError(f"{kind!r} is read by nobody")
    if type(value) is not dict:
        raise ValueError("expected an object")
    named = value.get(kind.tag)
    cls = kind.by_value.get(named) if isinstance(named, str) else None
    if cls is None:
        raise ValueError(f"{kind.tag} is one of {', '.join(kind.by_value)}")
    return msgspec.convert(value, cls, dec_hook=read_choice)
