"""Closures that read variables, fields, keys and items, from trees and from CEL values.

Each has variants for what the schema guarantees: a value known to be an object is read without a type check.
See also: `compiling`, which chooses. Source: cel-spec "Field Selection", "Indexing"; Kubernetes: a field that is null
is absent.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from oarlock.schema.cel.declared import Decl, unescape
from oarlock.schema.cel.native import NO_ARRAY, NO_MAP
from oarlock.schema.cel.problems import EvalError, OverBudget
from oarlock.schema.cel.values import NONE, Obj, Optional, from_key, no_overload, to_key

Env = list[Any]
"""What was spent, what may be spent, then the variables."""

Run = Callable[[Env], Any]


def over_budget() -> OverBudget:
    return OverBudget("operation cancelled: actual cost limit exceeded")


def _no_key(name: Any) -> EvalError:
    return EvalError(f"no such key: {name}")


def variable(slot: int) -> Run:
    return operator.itemgetter(slot)


def converted(run: Run, convert: Callable[[Any], Any] | None) -> Run:
    if convert is None:
        return run
    return lambda env: convert(run(env))


def computed(run: Run, name: str) -> Run:
    """A field of an object that computes its fields."""
    return lambda env: run(env).value_of(name)


def missing(name: str) -> Run:
    def read(env: Env) -> Any:
        raise _no_key(name)

    return read


def field(run: Run, name: str, slot: int | None) -> Run:
    """A field of an object in a tree; with a variable's `slot`, directly of that variable."""
    if slot is not None:

        def of_variable(env: Env) -> Any:
            try:
                value = env[slot].get(name)
            except AttributeError:  # no object; asking what it is first would take a tenth of the time of most rules
                raise no_overload() from None
            if value is None:
                raise _no_key(name)
            return value

        return of_variable

    def read(env: Env) -> Any:
        container = run(env)
        try:
            value = container.get(name)
        except AttributeError:
            raise no_overload() from None
        if value is None:
            raise _no_key(name)
        return value

    return read


def _object(value: Any) -> dict[str, Any]:
    """Check for an object where the schema has one."""
    if type(value) is not dict:
        raise no_overload()
    return value


_NO_NULL = "invalid data, got null for schema with nullable=false"
_FORMS: dict[str, tuple[type, str]] = {"array": (list, NO_ARRAY), "object": (dict, NO_MAP)}


def has_field(run: Run, name: str, child: Decl) -> Run:
    """``has(object.field)`` for an object in a tree. The field's value must fit the schema."""
    if child.node.int_or_string:
        return _has_converted(run, name, child.convert)
    form = _FORMS.get(child.node.type)
    if form is None:
        return lambda env: _object(run(env)).get(name) is not None
    type_, otherwise = form

    def has(env: Env) -> bool:
        value = _object(run(env)).get(name)
        if value is None:
            return False
        if type(value) is not type_:
            raise EvalError(otherwise)
        return True

    return has


def _has_converted(run: Run, name: str, convert: Callable[[Any], Any] | None) -> Run:
    assert convert is not None

    def has(env: Env) -> bool:
        return convert(_object(run(env)).get(name)) is not None

    return has


def map_key(run: Run, key: str) -> Run:
    """``map.key`` of a map in a tree; its value may be null."""

    def read(env: Env) -> Any:
        container = _object(run(env))
        if key not in container:
            raise _no_key(key)
        return container[key]

    return read


def has_key(run: Run, key: str) -> Run:
    return lambda env: key in _object(run(env))


def _select(value: Any, name: str) -> Any:
    """The field `name` of a value; KeyError when it is absent, as it is of any value that has no fields."""
    if type(value) is Obj:
        container = value.get(value.shown[name])
        if container is None:
            raise KeyError(name)
        return container
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list):
        raise EvalError("unsupported index type 'string' in list")
    raise KeyError(name)


def dynamic(run: Run, name: str) -> Run:
    """A field of a value whose type isn't known."""

    def read(env: Env) -> Any:
        value = run(env)
        if type(value) is Optional:
            return _maybe_select(value, name)
        try:
            return _select(value, name)
        except KeyError:
            raise _no_key(name) from None

    return read


def has_dynamic(run: Run, name: str) -> Run:
    def has(env: Env) -> bool:
        value = run(env)
        if type(value) is Optional:
            return _maybe_select(value, name).present
        try:
            _select(value, name)
        except KeyError:
            return False
        return True

    return has


def _maybe_select(value: Any, name: str) -> Optional:
    if type(value) is Optional:
        if not value.present:
            return NONE
        value = value.value
    try:
        container = _select(value, name)
    except KeyError:
        return NONE
    return container if type(container) is Optional else Optional(True, container)


def maybe_field(run: Run, name: str) -> Run:
    return lambda env: _maybe_select(run(env), name)


def item(run: Run, key: Run, inner: Decl) -> Run:
    """An item of a list of a tree."""
    nullable = inner.node.nullable

    def read(env: Env) -> Any:
        container, at = run(env), key(env)
        if type(container) is not list:
            raise EvalError(NO_ARRAY)
        value = _at(container, at)
        if value is None and not nullable:
            raise EvalError(_NO_NULL)
        return value

    return read


def _at(container: list[Any], at: Any) -> Any:
    if type(at) is float and at.is_integer():
        at = int(at)
    if not isinstance(at, int) or type(at) is bool:
        raise no_overload()
    if not 0 <= at < len(container):
        raise EvalError(f"index out of bounds: {at}")
    return container[at]


def entry(run: Run, key: Run, inner: Decl) -> Run:
    """The value of a key of a map of a tree."""
    nullable = inner.node.nullable

    def read(env: Env) -> Any:
        container, name = run(env), key(env)
        if type(container) is not dict:
            raise EvalError(NO_MAP)
        if type(name) is not str:
            raise _no_key(from_key(to_key(name)))
        if name not in container:
            raise _no_key(name)
        value = container[name]
        if value is None and not nullable:
            raise EvalError(_NO_NULL)
        return value

    return read


def _index(container: Any, at: Any) -> Any:
    if isinstance(container, list):
        return _at(container, at)
    if not isinstance(container, dict):
        raise no_overload()
    key = to_key(at)
    if type(container) is Obj:
        try:
            return _select(container, key)
        except KeyError:
            raise _no_key(at) from None
    if key not in container:
        raise _no_key(from_key(key))
    return container[key]


def index(run: Run, key: Run) -> Run:
    """``value[key]`` of a value whose type isn't known."""

    def read(env: Env) -> Any:
        container, at = run(env), key(env)
        return _maybe_index(container, at) if type(container) is Optional else _index(container, at)

    return read


def _maybe_index(container: Any, at: Any) -> Optional:
    if type(container) is Optional:
        if not container.present:
            return NONE
        container = container.value
    if not isinstance(container, dict | list):
        raise no_overload()
    try:
        value = _index(container, at)
    except EvalError:
        return NONE
    return value if type(value) is Optional else Optional(True, value)


def maybe_index(run: Run, key: Run) -> Run:
    return lambda env: _maybe_index(run(env), key(env))


def equals_text(run: Run, text: str, negated: bool) -> Run:
    """``value == 'text'``, charged by the shorter of both."""
    longest = len(text)

    def equal(env: Env) -> bool:
        value = run(env)
        if type(value) is not str:
            env[0] += 1
            return negated
        shorter = len(value)
        if shorter > longest:
            shorter = longest
        env[0] += (shorter + 9) // 10
        return (value == text) is not negated

    return equal


def priced(called: Callable[..., Any], runs: list[Run], price: Callable[..., int]) -> Run:
    """A call whose cost depends on its arguments; charged before the call."""

    def call(env: Env) -> Any:
        try:
            args = [run(env) for run in runs]
        except EvalError:
            env[0] += 1
            raise
        env[0] += price(*args)
        if env[0] > env[1]:
            raise over_budget()
        return called(*args)

    return call


def items_of(run: Run, decl: Decl) -> Run:
    """A list or map of a tree, for a loop."""
    type_, otherwise = _FORMS[decl.node.type]

    def items(env: Env) -> Any:
        container = run(env)
        if type(container) is not type_:
            raise EvalError(otherwise)
        return container

    return items


def message(fields: list[tuple[str, Run, bool]], name: str) -> Run:
    """An object of the type `name`; each field says whether it has a question mark. Its names are those in trees."""

    def made(env: Env) -> Obj:
        result: dict[str, Any] = {}
        shown: dict[str, str] = {}
        for written, run, maybe in fields:
            value = run(env)
            if maybe:
                if type(value) is not Optional:
                    raise no_overload()
                if not value.present:
                    continue
                value = value.value
            shown[written] = unescape(written)
            result[shown[written]] = value
        return Obj(result, shown, name)

    return made
