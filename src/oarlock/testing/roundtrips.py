"""`assert_round_trips`: checks that conversion to the hub and back loses nothing.

Generates objects of every declared version from its schema, small ones first, and shows the smallest that fails. Needs
hypothesis.
Must not know: servers. See also: ``schema.types.classes_conversion``, which is tested.
"""

from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Iterable
from random import Random
from typing import Any

from oarlock.meta.context import Context
from oarlock.meta.json_trees import Tree
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Served
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Schema
from oarlock.schema.types.classes_conversion import ClassConversion
from oarlock.schema.types.folding import same
from oarlock.schema.types.views import view, wire


def missing(part: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise instead of `error`: which package is missing, and how to install it."""
    text = f"{part} needs {error.name}, which isn't installed: pip install 'oarlock[testing]'"
    return ModuleNotFoundError(text, name=error.name)


try:
    from hypothesis import HealthCheck, assume, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample
except ModuleNotFoundError as error:
    raise missing("assert_round_trips", error) from None


FIRST = 25
"""How many examples are tried before the next look at the time."""


class LossyRoundTrip(AssertionError):
    """A version loses data. `tree` is the smallest object found, `came_back` the result of the round trip."""

    def __init__(self, served: Served, version: str, tree: Tree, came_back: Tree | Exception) -> None:
        self.tree = tree
        self.came_back = came_back
        definition = served.definition
        what = f"{definition.api_version(version)} {definition.names.kind} → {definition.hub} → {version}"
        if isinstance(came_back, Exception):
            why = f"raises {type(came_back).__name__}: {came_back}\n  {_shown(tree)}"
        else:
            lines = "\n".join(f"  {line}" for line in _differences(tree, came_back))
            why = f"loses something\n{lines}\n  of {_shown(tree)}"
        super().__init__(f"{what} {why}")


def assert_round_trips(*classes: Any, examples: int = 200, limit_s: float = 2.0) -> None:
    """Fail if an object of any version differs after conversion to the hub and back.

    `classes` are those of ``APIServer(serve=[…])``: hubs, spokes, collections. At most `examples` objects of each
    version are tried, and no new ones after `limit_s` seconds for all versions together; `FIRST` of each are tried in
    any case. They are the same in each run.

    Generated objects obey the schema, but not CEL rules or `validate`. The schema's defaults and ``default()`` are
    applied. A null, empty list or empty map that is its field's default equals a missing one. Raises `LossyRoundTrip`.
    """
    pairs = [
        (served, version.name)
        for served in served_from(classes)
        for version in served.definition.versions
        if version.name != served.definition.hub
    ]
    begun = time.monotonic()
    for position, (served, version) in enumerate(pairs, 1):
        _check(served, version, examples, begun + limit_s * position / len(pairs))


def _check(served: Served, version: str, examples: int, until: float) -> None:
    compiled = compile_version(served.definition, version)
    schema = served.definition.version(version).schema

    def lossy(tree: Tree) -> bool:
        before = _defaulted(served, compiled, version, tree)
        assume(not compiled.validate(before))
        after = _there_and_back(served, version, json.loads(json.dumps(before)))
        return isinstance(after, Exception) or not same(before, after)

    trees, tried = trees_of(schema), 0
    while tried < examples and (not tried or time.monotonic() < until):
        limits = settings(
            max_examples=min(FIRST, examples - tried),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        try:
            worst = find(trees, lossy, settings=limits, random=Random(tried))
        except NoSuchExample:
            tried += FIRST
        else:
            break
    else:
        return
    before = _defaulted(served, compiled, version, worst)
    raise LossyRoundTrip(served, version, before, _there_and_back(served, version, json.loads(json.dumps(before))))


def _defaulted(served: Served, compiled: CompiledVersion, version: str, tree: Tree) -> Tree:
    """The object as the server defaults and prunes it before conversion."""
    definition = served.definition
    whole: Tree = {"apiVersion": definition.api_version(version), "kind": definition.names.kind, **tree}
    compiled.normalize(whole)
    compiled.default(whole)
    default = served.hooks.default.get(version)
    if compiled.validate(whole):
        return whole
    if default is not None:
        whole = default(whole, Context.for_test())
    conversion = served.converter
    if isinstance(conversion, ClassConversion):
        distinguishable: Tree = _without_empty(whole, wire(view(whole, conversion.classes[version])))
        return distinguishable
    return whole


def _without_empty(tree: Any, written: Any) -> Any:
    """`tree` without the nulls, empty lists and empty maps that its class can't tell from nothing.

    `written` is what the class makes of the tree. The empty list of a field that may also be None stands there.
    """
    if isinstance(tree, dict) and isinstance(written, dict):
        return {
            key: _without_empty(value, written.get(key))
            for key, value in tree.items()
            if key in written or value not in ([], {}, None)
        }
    if isinstance(tree, list) and isinstance(written, list) and len(tree) == len(written):
        return list(map(_without_empty, tree, written))
    return tree


def _there_and_back(served: Served, version: str, tree: Tree) -> Tree | Exception:
    hub = served.definition.hub
    try:
        in_hub = served.converter.convert_now([tree], version, hub) or []
        back = served.converter.convert_now(in_hub, hub, version) or []
        return back[0]
    except Exception as error:
        return error


def _differences(before: Any, after: Any, path: str = "") -> Iterable[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differences(before.get(key, ...), after.get(key, ...), f"{path}.{key}".lstrip("."))
    elif not same(before, after):
        yield f"{path}: {_shown(before)} → {_shown(after)}"


def _shown(value: Any) -> str:
    return "nothing" if value is ... else json.dumps(value, ensure_ascii=False)


_NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=5)
_TEXTS = st.text(max_size=8).filter(lambda t: t.isprintable())
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_METADATA = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={
        "labels": st.dictionaries(_NAMES, _NAMES, min_size=1, max_size=2),
        "annotations": st.dictionaries(_NAMES, _TEXTS, min_size=1, max_size=2),
    },
)


def trees_of(schema: Schema) -> st.SearchStrategy[Tree]:
    """Objects that a schema describes, as a hypothesis strategy; apiVersion and kind are left to the caller.

    Not everything is obeyed (uniqueness, CEL), so filter them by validation.
    """
    fields = {k: v for k, v in schema.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")}
    own = _object({**schema, "properties": fields})
    return st.builds(lambda metadata, rest: {"metadata": metadata, **rest}, _METADATA, own)


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    values = _values_not_null(schema)
    return values | st.none() if schema.get("nullable") else values


def _values_not_null(schema: Schema) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 9) | st.sampled_from(["1", "5Mi"])
    match schema.get("type"):
        case "string":
            return _strings(schema)
        case "integer":
            low, high = schema.get("minimum", -1000), schema.get("maximum", 100000)
            return st.integers(
                int(low) + bool(schema.get("exclusiveMinimum")), int(high) - bool(schema.get("exclusiveMaximum"))
            )
        case "number":
            return st.floats(schema.get("minimum", -1000), schema.get("maximum", 1000), width=16).map(_number)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(
                _values(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=schema.get("maxItems", 3)
            )
        case "object":
            return _object(schema)
    return _JSON


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _strings(schema: Schema) -> st.SearchStrategy[str]:
    low, high = schema.get("minLength", 0), schema.get("maxLength", max(8, schema.get("minLength", 0)))
    if "pattern" in schema:
        found: st.SearchStrategy[str] = st.from_regex(re.compile(schema["pattern"]))
        return found.filter(lambda t: low <= len(t) <= high and t.isprintable())
    match schema.get("format"):
        case "date-time":
            return st.datetimes().map(lambda t: t.replace(microsecond=0).isoformat() + "Z")
        case "byte":
            return st.sampled_from(["", "YQ==", "YWI="])
    return st.text(min_size=low, max_size=high).filter(lambda t: t.isprintable())


def _object(schema: Schema) -> st.SearchStrategy[Tree]:
    properties = {name: _values(inner) for name, inner in schema.get("properties", {}).items()}
    if not properties:
        values = schema.get("additionalProperties")
        if values is None and not schema.get("x-kubernetes-preserve-unknown-fields"):
            return st.just({})
        return st.dictionaries(_NAMES, _values(values) if isinstance(values, dict) else _JSON, max_size=2)
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: inner for name, inner in properties.items() if name in required},
        optional={name: inner for name, inner in properties.items() if name not in required},
    )
