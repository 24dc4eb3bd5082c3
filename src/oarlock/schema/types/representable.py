"""Finds fields of the hub that a version can't represent: they don't survive a round trip through it.

Found by experiment: objects of the hub are generated from its schema, field by field, and converted to the version and
back by the classes' own methods. A field is representable when it survives in some object; each enum value, and
true and false, count separately. Fields that couldn't be tried (no value is known for the pattern, or a method
raised each time) are not reported. Ranges and dependencies between fields aren't tested.
Pure. Must not know: why it matters. See also: ``registry.declare``, which asks before a version is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from oarlock.meta.json_trees import Tree, copy_json
from oarlock.schema.definition import Schema
from oarlock.schema.types.classes_conversion import ClassConversion
from oarlock.schema.types.folding import same
from oarlock.schema.types.views import object_schema

MOST_TRIES = 10_000
"""Of a kind so large that it would take more, the rest is taken to be said."""

MOST_CHOICES = 32
MOST_WORDS = 16

_ITEM, _VALUE = "[]", "{}"
_KEY = "key"
_TEXTS = (
    *("made-up", "madeup", "m", "made up", "Made-Up", "MADE_UP", "a/b", "/a/b", "a.example.com", "a@example.com"),
    *("1", "12", "123", "1.5", "1.2.3", "v1", "10.0.0.1", "10.0.0.0/8", "::1", "5Mi", "100m", "1h", "10s", "50%"),
    *("2001-02-03", "12:30", "https://example.com/a", "c0ffee", "5d41402a-bc4b-4a76-b971-9d911017c592", "#c0ffee"),
)
_NUMBERS = (7, 3, 2, 1, 0, 11, 50, 1000, -1)
_ABSENT: Any = object()


class _Leaf(NamedTuple):
    """A place of a value: its steps (a field, an item of a list, a value of a map) and its possible values."""

    steps: tuple[str, ...]
    values: list[Any]
    each: bool  # whether every value has to come back, or one of them


class _Context(NamedTuple):
    """The other fields in a generated object: only the required ones, or all; of several choices the nth."""

    full: bool
    number: int
    word: str = ""


def unrepresentable(conversion: ClassConversion, hub: type, version: str, skipped: Sequence[str] = ()) -> list[str]:
    """The paths of the hub's fields that `version` can't represent; for an enum value, ``spec.size=big``.

    Paths in `skipped`, and below them, are skipped.
    """
    trial = _Trial(conversion, hub, version)
    paths: list[str] = []
    for leaf in _leaves(trial.schema, ()):
        path = _path(leaf.steps)
        if _is_below(path, skipped):
            continue
        outcomes = [trial.comes_back(leaf.steps, value) for value in leaf.values]
        if leaf.each and any(outcome is True for outcome in outcomes):
            values = [value for value, outcome in zip(leaf.values, outcomes, strict=True) if outcome is False]
            paths += [f"{path}={str(value).lower() if isinstance(value, bool) else value}" for value in values]
        elif outcomes and True not in outcomes and False in outcomes:
            paths.append(path)
    return [path for path in _joined(paths, trial.schema) if not _is_below(path, skipped)]


def _is_below(path: str, paths: Sequence[str]) -> bool:
    return any(path == parent or path.startswith((f"{parent}.", f"{parent}[", f"{parent}=")) for parent in paths)


class _Trial:
    """The hub and the version being compared, and the number of attempts."""

    def __init__(self, conversion: ClassConversion, hub: type, version: str) -> None:
        self.schema: Schema = dict(object_schema(hub))
        own = {k: v for k, v in self.schema["properties"].items() if k not in ("apiVersion", "kind", "metadata")}
        self.schema["properties"] = own
        self._conversion = conversion
        self._version = version
        self._hub = next(name for name, cls in conversion.classes.items() if cls is hub)
        self._tries = 0
        spoke = conversion.classes[version]
        words = list(dict.fromkeys((*_words(spoke.to_hub), *_words(spoke.from_hub))))[:MOST_WORDS]
        contexts = [_Context(full, number) for number in range(4) for full in (False, True)]
        contexts += [_Context(True, 0, word) for word in words]
        self._contexts = [(context, _made(self.schema, context)) for context in contexts]

    def comes_back(self, steps: tuple[str, ...], value: Any) -> bool | None:
        """Whether the value there survives in some object; None when none could be converted."""
        outcome: bool | None = None
        for context, around in self._contexts:
            self._tries += 1
            if self._tries > MOST_TRIES:
                return None
            tree: Tree = {"metadata": {"name": "made-up"}, **copy_json(around)}
            _put(tree, self.schema, steps, value, context)
            try:
                (there,) = self._conversion.convert_now([tree], self._hub, self._version)
                (back,) = self._conversion.convert_now([there], self._version, self._hub)
            except Exception:  # a user's method, given what it may never be given otherwise
                continue
            if same(_at(back, steps), value):
                return True
            outcome = False
        return outcome


def _words(method: Any) -> Iterator[str]:
    """The string constants in a method: values that it compares with are worth trying."""
    code = getattr(method, "__code__", None)
    waiting: list[Any] = [code] if isinstance(code, CodeType) else []
    while waiting:
        constant = waiting.pop()
        if isinstance(constant, CodeType):
            waiting += constant.co_consts[1 if constant.co_consts[:1] == (method.__doc__,) else 0 :]
        elif isinstance(constant, tuple | frozenset):
            waiting += constant
        elif isinstance(constant, str) and 0 < len(constant) < 64:
            yield constant


def _leaves(schema: Schema, steps: tuple[str, ...]) -> Iterator[_Leaf]:
    properties = schema.get("properties")
    if properties and "enum" not in schema:
        for name, child in properties.items():
            yield from _leaves(child, (*steps, name))
        return
    for key, step in (("items", _ITEM), ("additionalProperties", _VALUE)):
        if isinstance(schema.get(key), dict):
            yield from _leaves(schema[key], (*steps, step))
            return
    each = "enum" in schema or schema.get("type") == "boolean"
    values = _values(schema)
    if not each and len(values) > 1:
        values = [value for value in values if not same(value, schema.get("default", _ABSENT))]
    yield _Leaf(steps, values[:MOST_CHOICES] if each else values[:2], each)


def _values(schema: Schema) -> list[Any]:
    """Possible values of a field without subfields; empty when none is known."""
    if "enum" in schema:
        return [value for value in schema["enum"] if value is not None]
    if schema.get("x-kubernetes-int-or-string"):
        return [5, "5%"]
    match schema.get("type"):
        case "boolean":
            return [True, False]
        case "integer" | "number":
            return [number for number in (*_NUMBERS, *_bounds(schema)) if _in_bounds(number, schema)]
        case "string":
            return [text for text in _texts(schema) if _fits(text, schema)]
        case "object" | None if schema.get("x-kubernetes-preserve-unknown-fields"):
            return [{"made": "up"}]
    return []


def _bounds(schema: Schema) -> list[int]:
    return [int(schema[name]) + by for name in ("minimum", "maximum") if name in schema for by in (0, 1, -1)]


def _in_bounds(number: float, schema: Schema) -> bool:
    low, high = schema.get("minimum", number), schema.get("maximum", number)
    if (schema.get("exclusiveMinimum") and number == low) or (schema.get("exclusiveMaximum") and number == high):
        return False
    multiple = schema.get("multipleOf")
    return bool(low <= number <= high and not (multiple and number % multiple))


def _texts(schema: Schema) -> tuple[str, ...]:
    match schema.get("format"):
        case "date-time":
            return ("2001-02-03T04:05:06Z", "2002-02-03T04:05:06Z")
        case "byte":
            return ("YWI=", "YQ==")
    low = schema.get("minLength", 0)
    return (*_TEXTS, "m" * low) if low > 8 else _TEXTS


def _fits(text: str, schema: Schema) -> bool:
    if not schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text)):
        return False
    try:
        return "pattern" not in schema or re.search(schema["pattern"], text) is not None
    except re.error:  # the dialect is another
        return False


def _made(schema: Schema, context: _Context) -> Any:
    """A value for the schema. Never raises: when no valid one is known, it is an invalid one."""
    properties: Schema = schema.get("properties") or {}
    if properties and "enum" not in schema:
        names = properties if context.full else schema.get("required", ())
        return {name: _made(properties[name], context) for name in names if name in properties}
    if isinstance(schema.get("items"), dict):
        count = max(schema.get("minItems", 0), int(context.full))
        return [_made(schema["items"], context) for _ in range(count)]
    if isinstance(schema.get("additionalProperties"), dict):
        return {_KEY: _made(schema["additionalProperties"], context)} if context.full else {}
    if context.word and schema.get("type") == "string" and _is_free(schema) and _fits(context.word, schema):
        return context.word
    values = _values(schema)
    if not values:
        return copy_json(schema.get("default", ""))
    return copy_json(values[context.number % len(values)])


def _is_free(schema: Schema) -> bool:
    return "enum" not in schema and "format" not in schema


def _put(tree: Any, schema: Schema, steps: tuple[str, ...], value: Any, context: _Context) -> None:
    """Set `value` at the end of `steps`, creating containers on the way."""
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        child: Schema = _child(schema, step)
        where: Any = 0 if step == _ITEM else _KEY if step == _VALUE else step
        if isinstance(tree, list) and not tree:
            tree.append(None)
        if last:
            tree[where] = copy_json(value)
            return
        inside = tree[where] if isinstance(tree, list) else tree.get(where)
        if not isinstance(inside, dict | list):
            inside = tree[where] = _made(child, context)
        tree, schema = inside, child


def _child(schema: Schema, step: str) -> Schema:
    child: Schema
    if step == _ITEM:
        child = schema["items"]
    elif step == _VALUE:
        child = schema["additionalProperties"]
    else:
        child = schema["properties"][step]
    return child


def _at(tree: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        if isinstance(tree, list):
            tree = tree[0] if tree else _ABSENT
        elif isinstance(tree, dict):
            tree = tree.get(_KEY if step == _VALUE else step, _ABSENT)
        else:
            return _ABSENT
    return tree


def _path(steps: tuple[str, ...]) -> str:
    return ".".join(steps).replace(f".{_ITEM}", "[]").replace(f".{_VALUE}", "[]")


def _joined(paths: list[str], schema: Schema) -> list[str]:
    """The same with one path for an object of which no field is representable."""

    def look(at: Schema, steps: tuple[str, ...]) -> list[str]:
        here = _path(steps)
        children: Schema = {} if "enum" in at else dict(at.get("properties") or {})
        for key, step in (("items", _ITEM), ("additionalProperties", _VALUE)):
            if not children and isinstance(at.get(key), dict):
                children = {step: at[key]}
        if not children:
            return [path for path in paths if path == here or path.startswith(f"{here}=")]
        below = {_path((*steps, name)): look(child, (*steps, name)) for name, child in children.items()}
        if steps and all(paths_below == [path] for path, paths_below in below.items()):
            return [here]
        return [path for paths_below in below.values() for path in paths_below]

    return list(dict.fromkeys(look(schema, ())))
