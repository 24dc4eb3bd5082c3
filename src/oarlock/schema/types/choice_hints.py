"""Finds unions of Models in hints, and puts a `ChoiceType` in their place."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union

import msgspec

from oarlock.schema.types.choices import choice_type
from oarlock.schema.types.reflect import Unresolved, fields_of, take_apart


def with_choices(hint: Any) -> Any:
    """The hint, with what stands for each union of Models; the same hint if it has none."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        inner = with_choices(hint.__origin__)
        return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]
    if origin in (list, dict) and args:
        changed = [with_choices(arg) for arg in args]
        return hint if all(a is b for a, b in zip(args, changed, strict=True)) else origin[tuple(changed)]
    if origin not in (Union, types.UnionType):
        return hint
    rest = [arg for arg in args if arg is not type(None)]
    made = _of_models(rest) if len(rest) > 1 else with_choices(rest[0])
    if made is None or made is rest[0]:
        return hint
    return Union[made, None] if len(rest) < len(args) else made  # noqa: UP007  (made at run time)


def _of_models(choices: Sequence[Any]) -> Any:
    """What stands for a union of these; None if they aren't Models, or nothing tells them apart."""
    if not all(isinstance(cls, type) and issubclass(cls, msgspec.Struct) for cls in choices):
        return None
    try:
        fields = [{f.wire: take_apart(f.hint).base for f in fields_of(cls)} for cls in choices]
    except Unresolved:
        return None
    for wire in fields[0]:
        values = [_literals(of_class.get(wire)) for of_class in fields]
        every = [value for some in values for value in some]
        if all(values) and len({*every}) == len(every):
            return choice_type(wire, {v: cls for cls, some in zip(choices, values, strict=True) for v in some})
    return None


def _literals(hint: Any) -> Sequence[str]:
    if typing.get_origin(hint) is not Literal:
        return ()
    values = typing.get_args(hint)
    return values if all(isinstance(value, str) for value in values) else ()
