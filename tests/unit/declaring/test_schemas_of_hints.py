"""What a class of typed fields becomes as a structural schema, and what has none."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

import annotated_types
import pytest

from oarlock.schema.definition import Rule
from oarlock.schema.types.declaring import DeclarationError, FieldNameError, HintError
from oarlock.schema.types.markers import (
    JSON,
    Atomic,
    Doc,
    Embedded,
    Format,
    Ge,
    Gt,
    IntOrString,
    Le,
    ListMap,
    ListSet,
    Lt,
    MaxItems,
    MaxLength,
    MinItems,
    MinLength,
    Name,
    Nullable,
    OmitEmpty,
    Pattern,
    Preserve,
    Quantity,
    Unique,
)
from oarlock.schema.types.reflect import schema_of
from oarlock.schema.types.shapes import Model, field


class Port(Model):
    """A port."""

    name: str
    number: int = 80


class Color(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Everything(Model):
    text: str
    count: Annotated[int, Ge(0), Le(100)] = 1
    small: Annotated[int, Format("int32"), Gt(0), Lt(9)] = 5
    ratio: float = 0.5
    on: bool = False
    when: datetime | None = None
    data: bytes = b"a"
    choice: Literal["a", "b"] = "a"
    color: Color = Color.RED
    code: Annotated[str, Pattern("^[a-z]+$"), MinLength(1), MaxLength(5), Doc("Said here.")] = "x"
    names: Annotated[list[str], MinItems(1), MaxItems(3), ListSet] = ["n"]
    ports: Annotated[list[Port], ListMap("name")] = []
    main: Port = Port(name="http")
    by_name: dict[str, Port] = {}
    labels: Annotated[dict[str, str], Atomic] = {}
    port: IntOrString = 1
    memory: Quantity = "1Gi"
    free: JSON = None
    loose: Annotated[dict[str, Any], Preserve] = {}
    template: Annotated[dict[str, Any], Embedded] = {}
    maybe: int | None
    three: int | None = 3
    nothing: Annotated[str | None, Nullable] = None
    zero: Annotated[int, OmitEmpty] = 0
    pod_cidr: Annotated[str, Name("podCIDR"), Rule("self != ''", message="say it")] = "0"
    foreign: Annotated[int, annotated_types.Ge(1), annotated_types.Lt(3)] = 1


WANTED: dict[str, Any] = {
    "text": {"type": "string"},
    "count": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 100, "default": 1},
    "small": {
        "type": "integer",
        "format": "int32",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": True,
        "default": 5,
    },
    "ratio": {"type": "number", "format": "double", "default": 0.5},
    "on": {"type": "boolean", "default": False},
    "when": {"type": "string", "format": "date-time"},
    "data": {"type": "string", "format": "byte", "default": "YQ=="},
    "choice": {"type": "string", "enum": ["a", "b"], "default": "a"},
    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "code": {
        "type": "string",
        "pattern": "^[a-z]+$",
        "minLength": 1,
        "maxLength": 5,
        "description": "Said here.",
        "default": "x",
    },
    "names": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": 3,
        "x-kubernetes-list-type": "set",
        "default": ["n"],
    },
    "ports": {
        "type": "array",
        "items": {
            "description": "A port.",
            "type": "object",
            "properties": {"name": {"type": "string"}, "number": {"type": "integer", "format": "int64", "default": 80}},
            "required": ["name"],
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    },
    "labels": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "x-kubernetes-map-type": "atomic",
    },
    "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, "default": 1},
    "free": {"x-kubernetes-preserve-unknown-fields": True},
    "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "maybe": {"type": "integer", "format": "int64", "nullable": True},
    "three": {"type": "integer", "format": "int64", "nullable": True, "default": 3},
    "nothing": {"type": "string", "nullable": True},
    "zero": {"type": "integer", "format": "int64", "x-oarlock-omit-empty": True},
    "podCIDR": {
        "type": "string",
        "default": "0",
        "x-kubernetes-validations": [{"rule": "self != ''", "message": "say it"}],
    },
    "foreign": {
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": 3,
        "exclusiveMaximum": True,
        "default": 1,
    },
}


@pytest.mark.parametrize("name", WANTED)
def test_each_hint_has_its_schema(name: str) -> None:
    assert schema_of(Everything)["properties"][name] == WANTED[name]


def test_only_fields_without_a_default_are_required() -> None:
    assert schema_of(Everything)["required"] == ["text", "maybe"]


def test_a_model_as_default_is_published_in_wire_form() -> None:
    assert schema_of(Everything)["properties"]["main"]["default"] == {"name": "http", "number": 80}
    assert "pattern" in schema_of(Everything)["properties"]["memory"]


def test_descriptions_are_a_class_s_own() -> None:
    class Bare(Port):
        pass

    assert schema_of(Port)["description"] == "A port."
    assert "description" not in schema_of(Bare)


def test_a_forward_reference_is_resolved_when_it_can_be() -> None:
    assert schema_of(Early)["properties"]["late"]["properties"] == {"x": {"type": "integer", "format": "int64"}}
    assert "pLATER" in schema_of(Early)["properties"]


class Early(Model):
    late: Late | None = None
    other: Annotated[Late | None, Name("pLATER")] = None


class Late(Model):
    x: int


def refused(error: type[DeclarationError], annotation: Any, default: Any = ..., **names: Any) -> str:
    """The message for a Model with this one field."""
    namespace: dict[str, Any] = {"__annotations__": {"x": annotation}, "__module__": __name__}
    if default is not ...:
        namespace["x"] = default
    with pytest.raises(error) as caught:
        type(Model)("M", (Model,), namespace)  # type: ignore[misc]
    assert __file__ in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Any, "M.x: Any says nothing about the field (write JSON"),
        (dict, "M.x: dict says nothing about its values (write dict[str, X]"),
        (list, "M.x: list says nothing about its items"),
        (int | str, "M.x: the union int | str has no structural schema (write IntOrString"),
        (set[str], "M.x: set[str] isn't JSON (write list[X], with Unique"),
        (tuple[int, ...], "isn't JSON"),
        (dict[int, str], "M.x: the keys of a JSON object are strings, not int"),
        (object, "M.x: object has no schema"),
        (list[Any], "M.x[]: Any says nothing"),
        (Annotated[str, Ge(1)], "M.x: Ge(ge=1) means nothing for a string"),
        (Annotated[list[Port], Unique], "only a list of scalars can be a set (write ListMap"),
        (Annotated[list[Port], ListMap("nam")], "not 'nam' (there are name, number)"),
        (Annotated[list[Port], ListMap()], "ListMap needs wire names"),
        (Annotated[str, ListSet], "belongs on a list"),
        (Annotated[str, Pattern("(?=x)")], "isn't an RE2 expression"),
        (Literal["a", 1], "aren't all strings or all integers"),
        (Annotated[str, OmitEmpty], "OmitEmpty without a default"),
    ],
)
def test_what_has_no_schema_is_refused_with_its_path(annotation: Any, said: str) -> None:
    assert said in refused(HintError, annotation)


def test_impossible_defaults_are_refused() -> None:
    assert "doesn't fit the hint" in refused(HintError, int, "x")
    assert "None doesn't fit int (write X | None = None)" in refused(HintError, int, None)
    assert "its default is the zero value" in refused(HintError, Annotated[int, OmitEmpty], 3)
    assert "a default is data" in refused(HintError, int, field(default_factory=lambda: 3))


def test_recursion_is_refused_unless_it_ends_in_free_json() -> None:
    with pytest.raises(HintError, match=r"Tree.kids\[\]: Tree contains itself \(Tree → Tree\)"):
        schema_of(Tree)
    assert schema_of(Free)["properties"]["kids"]["items"] == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }


class Tree(Model):
    kids: list[Tree] = []


class Free(Model):
    kids: list[Annotated[Free, Preserve]] = []


@pytest.mark.parametrize(
    ("name", "advice"),
    [("podCIDR", 'pod_cidr: Annotated[…, Name("podCIDR")]'), ("_hidden", "hidden"), ("a__b", ""), ("Upper", "upper")],
)
def test_a_field_name_that_camel_case_cannot_produce(name: str, advice: str) -> None:
    with pytest.raises(FieldNameError) as caught:
        type(Model)("M", (Model,), {"__annotations__": {name: int}, "__module__": __name__})  # type: ignore[misc]
    assert f"M.{name}: no name on the wire" in str(caught.value)
    assert advice in str(caught.value)


def test_two_fields_with_one_wire_name() -> None:
    with pytest.raises(FieldNameError, match=r"B.pod_ip: is 'podIp' on the wire, as 'other' is"):

        class B(Model):
            other: Annotated[int, Name("podIp")]
            pod_ip: int

    class Base(Model):
        pod_ip: int

    with pytest.raises(FieldNameError, match="is 'podIp' on the wire"):

        class Derived(Base):
            other: Annotated[int, Name("podIp")]
