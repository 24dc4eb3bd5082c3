"""Numbers of fields: all of a type or none, each once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest

from oarlock import JSON, DeclarationError, IntOrString, Model, OmitEmpty, Proto, Quantity, Resource, served_from
from oarlock.endpoints.in_protobuf import message_of
from oarlock.schema.structural.proto_numbers import NUMBER, proto_fields
from oarlock.schema.types.reflect import schema_of


class Inner(Model):
    """What is in it.

    And more.
    """

    name: Annotated[str, Proto(1)]
    size: Annotated[int | None, Proto(2)] = None


class EverySpec(Model):
    text: Annotated[str, Proto(1)] = "x"
    data: Annotated[bytes, Proto(2)] = b""
    flag: Annotated[bool, Proto(4)] = False
    part: Annotated[float | None, Proto(5)] = None
    when: Annotated[datetime | None, Proto(6)] = None
    amount: Annotated[Quantity, Proto(7)] = "1"
    port: Annotated[IntOrString, Proto(8)] = 80
    free: Annotated[JSON, Proto(9)] = None
    inner: Annotated[Inner | None, Proto(10)] = None
    inners: Annotated[list[Inner], Proto(11)] = []
    named: Annotated[dict[str, Inner], Proto(12)] = {}
    words: Annotated[list[str], Proto(13)] = []
    count: Annotated[int, OmitEmpty, Proto(3)] = 0


class Every(Resource, group="proto.example.com", version="v1"):
    """Every kind of field."""

    spec: Annotated[EverySpec, Proto(2)] = EverySpec()


def test_fields_by_number():
    fields = proto_fields(schema_of(EverySpec), root=False)
    assert fields is not None
    assert [(one.name, one.number, one.kind, one.many) for one in fields] == [
        ("text", 1, "string", ""),
        ("data", 2, "bytes", ""),
        ("count", 3, "int64", ""),
        ("flag", 4, "bool", ""),
        ("part", 5, "double", ""),
        ("when", 6, "Time", ""),
        ("amount", 7, "Quantity", ""),
        ("port", 8, "IntOrString", ""),
        ("free", 9, "JSON", ""),
        ("inner", 10, "message", ""),
        ("inners", 11, "message", "list"),
        ("named", 12, "message", "map"),
        ("words", 13, "string", "list"),
    ]
    assert [one.name for one in fields if one.omitted] == ["text", "count"]


def test_what_is_written_is_read():
    definition = served_from([Every])[0].definition
    message = message_of(definition.versions[0].schema, "Every")
    assert message is not None
    spec: dict[str, Any] = {
        "text": "é",
        "data": "AAE=",
        "count": -5,
        "flag": False,
        "part": 0.5,
        "when": "2026-11-20T13:11:09Z",
        "amount": "100m",
        "port": "http",
        "free": {"a": [1, None, "x"]},
        "inner": {"name": "", "size": 2**53},
        "inners": [{"name": "a"}, {"name": "b", "size": 0}],
        "named": {"k": {"name": "c"}},
        "words": ["", "w"],
    }
    tree = {"metadata": {"name": "a", "labels": {"k": "v"}}, "spec": spec}
    assert message.read(message.write(tree)) == tree


class Plain(Model):
    name: str = ""


class Unnumbered(Resource, group="proto.example.com", version="v1"):
    """No numbers."""

    spec: Plain = Plain()


def test_without_numbers_there_is_nothing():
    definition = served_from([Unnumbered])[0].definition
    assert message_of(definition.versions[0].schema, "Unnumbered") is None


@pytest.mark.parametrize(
    ("hints", "why"),
    [
        ({"a": Annotated[int, Proto(1)], "b": int}, r"M\.b: has no field number, but others have"),
        ({"a": Annotated[int, Proto(1)], "b": Annotated[int, Proto(1)]}, r"M\.b: has the field number 1, as 'a' has"),
        ({"a": Annotated[int, Proto(0)]}, r"M\.a: 0 is no field number"),
        ({"a": Annotated[int, Proto(19_500)]}, r"M\.a: 19500 is no field number"),
        ({"a": Annotated[int, Proto(2**29)]}, r"M\.a: 536870912 is no field number"),
        ({"a": Annotated[Plain, Proto(1)]}, r"M\.a: has a field number, but the fields of its type have none"),
        ({"a": Annotated[list[list[int]], Proto(1)]}, r"M\.a: protobuf has no lists or maps of lists"),
        ({"a": Annotated[dict[str, list[int]], Proto(1)]}, r"M\.a: protobuf has no lists or maps of lists"),
    ],
)
def test_mistakes_are_told_at_the_class(hints: dict[str, Any], why: str):
    with pytest.raises(DeclarationError, match=why):
        type(Model)("M", (Model,), {"__annotations__": hints, "__module__": __name__})  # type: ignore[misc]


def test_metadata_is_field_one():
    with pytest.raises(DeclarationError, match="has the field number 1, as 'metadata' has"):

        class Wrong(Resource, group="proto.example.com", version="v1"):
            spec: Annotated[Inner, Proto(1)]


def test_a_part_may_have_a_field_called_metadata():
    class Part(Model):
        name: Annotated[str, Proto(1)]
        metadata: Annotated[dict[str, str], Proto(2)] = {}

    class Whole(Resource, group="proto.example.com", version="v1"):
        spec: Annotated[Part, Proto(2)]

    message = message_of(served_from([Whole])[0].definition.versions[0].schema, "Whole")
    assert message is not None
    tree = {"spec": {"name": "a", "metadata": {"k": "v"}}}
    assert message.read(message.write(tree)) == tree


@pytest.mark.parametrize("number", ["1", None, -1, True, 1.5, {}])
def test_numbers_in_a_schema_that_are_none(number: Any):
    schema = {"type": "object", "properties": {"a": {"type": "string", NUMBER: number}, "b": {"type": "string"}}}
    assert proto_fields(schema) is None
    assert proto_fields({"properties": []}) is None
    assert proto_fields({"properties": {"a": 1, "b": {NUMBER: 1}}}) is None
    assert proto_fields({"properties": {"a": {"type": "string", NUMBER: 1}}}) is None  # which is metadata's
    assert proto_fields(None) is None
