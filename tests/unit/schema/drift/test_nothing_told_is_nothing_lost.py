"""Random schemas and objects: where nothing is told of two schemas, objects of the older one fit the newer one."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from thoroughness import examples, rounds

from oarlock.meta.json_trees import copy_json
from oarlock.schema.compiled import CompiledVersion, SchemaError, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.drift import canonical, narrowings

ROUNDS = int(os.environ.get("OARLOCK_DRIFT_ROUNDS", rounds(400, 100)))
NAMES = ("a", "b", "c")
Schema = dict[str, Any]

small = st.integers(-3, 5)
texts = st.sampled_from(["", "a", "b", "ab", "1", "2020-01-01T00:00:00Z"])


def options(**given: Any) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=given)


def with_default(schemas: st.SearchStrategy[Schema], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.tuples(schemas, st.none() | values).map(
        lambda two: two[0] if two[1] is None else {**two[0], "default": two[1]}
    )


flag = st.just(True)
of_text = st.builds(
    lambda rest: {"type": "string", **rest},
    options(
        minLength=st.integers(0, 2), maxLength=st.integers(0, 3), pattern=st.sampled_from(["^a", "b", "^[ab]*$"]),
        enum=st.lists(texts, min_size=1, max_size=3), nullable=flag, format=st.sampled_from(["date-time", "x"]),
        **{"x-oarlock-omit-empty": flag},
    ),
)  # fmt: skip
of_number = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(["integer", "number"]),
    options(
        minimum=small, maximum=small, exclusiveMinimum=flag, exclusiveMaximum=flag, multipleOf=st.integers(1, 3),
        nullable=flag, enum=st.lists(small, min_size=1, max_size=3), format=st.sampled_from(["int32", "int64"]),
    ),
)  # fmt: skip
of_others = st.sampled_from(
    [
        {"type": "boolean"},
        {"x-kubernetes-int-or-string": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True},
    ]
)
scalars = with_default(of_text, texts) | with_default(of_number, small) | of_others


def lists(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda inner, rest: {"type": "array", "items": inner, **rest},
        items,
        options(
            minItems=st.integers(0, 2), maxItems=st.integers(0, 3), uniqueItems=flag, nullable=flag,
            **{"x-kubernetes-list-type": st.sampled_from(["atomic", "set"])},
        ),
    )  # fmt: skip


def maps(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(
        lambda inner, rest: {"type": "object", "additionalProperties": inner, **rest},
        items,
        options(minProperties=st.integers(0, 2), maxProperties=st.integers(0, 3)),
    )


RULES = ("has(self.a)", "!has(self.b)", "has(self.a) || has(self.b)")


def objects(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def made(fields: Schema, required: list[str], rest: Schema, rule: str | None) -> Schema:
        schema = {
            "type": "object",
            "properties": fields,
            "required": [one for one in required if one in fields],
            **rest,
        }
        if rule is not None and all(f"self.{name}" not in rule or name in fields for name in NAMES):
            schema["x-kubernetes-validations"] = [{"rule": rule}]
        return schema

    return st.builds(
        made,
        st.dictionaries(st.sampled_from(NAMES), items, max_size=3),
        st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
        options(
            minProperties=st.integers(0, 2), maxProperties=st.integers(0, 3), nullable=flag,
            **{"x-kubernetes-preserve-unknown-fields": flag},
        ),
        st.none() | st.none() | st.sampled_from(RULES),
    )  # fmt: skip


schemas = st.recursive(scalars, lambda inner: lists(inner) | maps(inner) | objects(inner), max_leaves=5)
values = st.recursive(
    st.none() | st.booleans() | small | st.floats(-2, 4).map(lambda x: round(x, 1)) | texts | st.just(2**40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def fitting(draw: st.DrawFn, schema: Schema) -> Any:
    """A value that is likely to fit."""
    if draw(st.integers(0, 14)) == 0:
        return draw(values)
    if schema.get("nullable") and draw(st.integers(0, 3)) == 0:
        return None
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema.get("type"):
        case "string":
            return draw(texts)
        case "integer":
            return draw(small | st.just(2**40))
        case "number":
            return draw(small | st.sampled_from([0.5, 1.0, 2.5]))
        case "boolean":
            return draw(st.booleans())
        case "array":
            return [draw(fitting(schema["items"])) for _ in range(draw(st.integers(0, 3)))]
        case "object":
            fields = schema.get("properties", {})
            made = {name: draw(fitting(child)) for name, child in fields.items() if draw(st.booleans())}
            other = schema.get("additionalProperties")
            if other is not None:
                made |= {name: draw(fitting(other)) for name in NAMES[: draw(st.integers(0, 3))]}
            elif schema.get("x-kubernetes-preserve-unknown-fields") and draw(st.booleans()):
                made.setdefault(draw(st.sampled_from(NAMES)), draw(values))
            return made
    return draw(values)


@st.composite
def changed(draw: st.DrawFn, schema: Schema) -> Schema:
    """A schema that differs in a place or two."""
    if draw(st.integers(0, 4)) == 0:
        return draw(schemas)
    new = copy_json(schema)
    inner = [key for key in ("items", "additionalProperties") if isinstance(new.get(key), dict)]
    if inner and draw(st.booleans()):
        new[inner[0]] = draw(changed(new[inner[0]]))
    elif new.get("properties") and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(new["properties"])))
        new["properties"][name] = draw(changed(new["properties"][name]))
    else:
        other = draw(schemas)
        for key in draw(st.lists(st.sampled_from(sorted({*new, *other})), max_size=2)):
            if key in other:
                new[key] = copy_json(other[key])
            elif key != "type":
                new.pop(key, None)
    return new


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, Schema, Any, bool]:
    old = draw(schemas)
    new = draw(changed(old))
    return whole(old), whole(new), draw(fitting(old)), draw(st.booleans())


def whole(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"f": schema}}


def compiled(schema: Schema, typed: bool) -> CompiledVersion | None:
    version = VersionDefinition("v1", schema)
    definition = ResourceDefinition("g", Names("ks", "K"), "Cluster", (version,), hub="v1", stored_as="v1", typed=typed)
    try:
        return compile_version(definition, "v1")
    except SchemaError:
        return None


def survives(tree: Any, schema: CompiledVersion) -> bool:
    """Whether a stored object can be written as it is."""
    tree = copy_json(tree)
    if schema.type_errors(tree) or schema.prune(tree):
        return False
    schema.normalize(tree)
    schema.default(tree)
    return not schema.validate(tree)


SEEN = {"told": 0, "silent": 0}


@examples(ROUNDS, ROUNDS, suppress_health_check=list(HealthCheck))
@given(cases())
def check(case: tuple[Schema, Schema, Any, bool]) -> None:
    old, new, value, typed = case
    before, after = compiled(old, typed), compiled(new, typed)
    assume(before is not None and after is not None)
    assert before is not None
    assert after is not None
    tree = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "f": value}
    found = list(narrowings(canonical(old), canonical(new)))
    if not sound_defaults(new, after):
        return
    assume(survives(tree, before))
    SEEN["told" if found else "silent"] += old != new
    if not found:
        assert survives(tree, after), (before, after)


def sound_defaults(schema: Schema, made: CompiledVersion) -> bool:
    """Whether its own defaults fit it, as those of declared classes must."""
    for key, value in schema.items():
        if key == "properties":
            for child in value.values():
                if "default" in child:
                    alone = compiled(whole({k: v for k, v in child.items() if k != "default"}), typed=True)
                    if alone is None or not survives({"metadata": {"name": "a"}, "f": child["default"]}, alone):
                        return False
                if not sound_defaults(child, made):
                    return False
        elif key in ("items", "additionalProperties") and isinstance(value, dict) and not sound_defaults(value, made):
            return False
    return True


def test_an_object_survives_every_change_of_which_nothing_is_told() -> None:
    check()
    assert SEEN["silent"] > ROUNDS / 50, SEEN
    assert SEEN["told"] > ROUNDS / 50, SEEN
