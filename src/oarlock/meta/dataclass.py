"""`dataclass`: the standard library's, made in a quarter of the time.

A server has some 300 dataclasses, and the standard library compiles five or six functions for each of them: a third of
the time from a process's start to its first answer. Here one is compiled, ``__init__``; the others are shared by all
classes. What comes out is a dataclass: ``fields``, ``replace``, ``asdict``, ``match`` and type checkers know it as one.
See also: decision 54.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, init=True, repr=True, eq=True, order=False, frozen=False, slots=False, kw_only=False):
        """As ``dataclasses.dataclass``; the options of it that aren't here aren't used."""
        if order or not init:
            return dataclasses.dataclass(
                cls, init=init, repr=repr, eq=eq, order=order, frozen=frozen, slots=slots, kw_only=kw_only
            )

        def make(cls: type) -> type:
            return _made(cls, repr, eq, frozen, slots, kw_only)

        return make if cls is None else make(cls)


def _made(cls: type, shows: bool, compares: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    own = dict(cls.__dict__)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else it is made of the signature, which takes longer than all the rest
    inherits_frozen = any(getattr(base, "__dataclass_params__", _NOT_FROZEN).frozen for base in cls.__mro__[1:])
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=inherits_frozen and frozen, slots=slots, kw_only=kw_only
    )(cls)
    fields = dataclasses.fields(made)
    methods: dict[str, Any] = {"__init__": _initializer(made, frozen)}
    if shows:
        methods["__repr__"] = _repr
    if compares:
        methods["__eq__"] = _equality(tuple(field.name for field in fields if field.compare))
    if compares and "__eq__" not in own:
        names = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
        methods["__hash__"] = _hashing(names) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        made.__dataclass_params__.frozen = True
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


class _NotFrozen:
    frozen = False


_NOT_FROZEN = _NotFrozen()
_UNSET = object()


def _initializer(cls: Any, frozen: bool) -> Callable[..., None]:
    """``__init__`` of a dataclass, which is compiled: it runs for each object."""
    given = ["self"]
    by_name: list[str] = []
    lines: list[str] = []
    values: dict[str, Any] = {"_set": object.__setattr__, "_unset": _UNSET}
    fields = dataclasses.fields(cls)
    for field in fields:
        name, value = field.name, field.name
        parameter = name
        if field.default_factory is not dataclasses.MISSING:
            values[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_unset"
            value = f"_make_{name}() if {name} is _unset else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            values[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            (by_name if field.kw_only else given).append(parameter)
        lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ", ".join([*given, "*", *by_name] if by_name else given)
    exec("\n".join([f"def __init__({parameters}):", *(lines or [" pass"])]), values)
    made: Any = values["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made  # type: ignore[no-any-return]


def _values_of(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Something that gives the attributes `names` of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return lambda object: (get(object),)


def _equality(names: tuple[str, ...]) -> Callable[[Any, object], Any]:
    values = _values_of(names)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values_of(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _is_fixed(self: Any, name: str) -> bool:
    return name in self.__dataclass_fields__ or "__dataclass_fields__" in type(self).__dict__


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    if _is_fixed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if _is_fixed(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
