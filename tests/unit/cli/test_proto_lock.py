"""The committed ``.proto`` file: read back, compared with what is declared, and written with what went reserved."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock import IntOrString, Model, Proto, Resource, served_from
from oarlock.cli.proto.lock import is_locked, locked_text, number_changes
from oarlock.cli.proto.reading import ProtoTextError, ProtoTextField, ProtoTextMessage, ReservedNumbers, read_proto
from oarlock.cli.proto.text import proto_text
from oarlock.schema.definition import ResourceDefinition


class Mast(Model):
    """A mast. message Fake { optional string no = 1; }"""

    name: Annotated[str, Proto(1)]
    sails: Annotated[int | None, Proto(2)] = None


class Fields(Model):
    masts: Annotated[list[Mast], Proto(1)] = []
    flags: Annotated[dict[str, Mast], Proto(2)] = {}
    notes: Annotated[dict[str, str], Proto(3)] = {}
    depth: Annotated[IntOrString, Proto(4)] = 1
    tags: Annotated[list[str], Proto(9)] = []


def ship(hints: dict[str, Any]) -> ResourceDefinition:
    """A resource whose spec has these fields."""
    given = {"__annotations__": dict(hints), "__module__": __name__}
    defaults = dict.fromkeys(hints)
    spec = type(Model)("Spec", (Model,), {**given, **defaults})  # type: ignore[misc]
    given = {"__annotations__": {"spec": Annotated[spec, Proto(2)]}, "__module__": __name__}
    cls = type(Resource)("Ship", (Resource,), given, group="lock.example.com", version="v1")  # type: ignore[misc]
    return served_from([cls])[0].definition


def numbered(hint: Any, number: int) -> Any:
    return Annotated[hint | None, Proto(number)]


SHIP = ship({"masts": numbered(list[Mast], 1), "name": numbered(str, 2), "crew": numbered(int, 3)})
LOCKED = proto_text(SHIP, "v1")


def changed(hints: dict[str, Any], locked: str = LOCKED) -> list[str]:
    return number_changes(ship(hints), "v1", locked)


KEPT = {"masts": numbered(list[Mast], 1), "name": numbered(str, 2)}


def test_what_is_printed_is_read_back():
    class Every(Resource, group="lock.example.com", version="v1"):
        """Every kind of message."""

        spec: Annotated[Fields, Proto(2)] = Fields()

    messages = read_proto(proto_text(served_from([Every])[0].definition, "v1"))
    assert list(messages) == ["Every", "EverySpec", "EverySpecMasts", "EverySpecFlags", "EveryList"]
    assert [(number, str(field)) for number, field in messages["EverySpec"].fields.items()] == [
        (1, "repeated EverySpecMasts"),
        (2, "map<string, EverySpecFlags>"),
        (3, "map<string, string>"),
        (4, "optional k8s.io.apimachinery.pkg.util.intstr.IntOrString"),
        (9, "repeated string"),
    ]


def test_layout_and_comments_make_no_difference():
    loose = LOCKED.replace("  optional", "/* a\n */ optional").replace(" = ", "=").replace(";", " ; // x")
    assert read_proto(loose) == read_proto(LOCKED)
    assert is_locked(SHIP, "v1", loose)
    assert not number_changes(SHIP, "v1", loose)


def test_reserved_numbers_are_read_and_kept():
    text = LOCKED.replace(
        "  optional int64 crew = 3;", '  reserved 3; // crew\n  reserved 10 to 12, 20, 30 to max;\n  reserved "old";'
    )
    assert read_proto(text)["ShipSpec"].reserved == (
        ReservedNumbers(3, 3, "crew"), ReservedNumbers(10, 12), ReservedNumbers(20, 20), ReservedNumbers(30, 2**29 - 1),
    )  # fmt: skip
    again = locked_text(ship(KEPT), "v1", text)
    assert read_proto(again) == read_proto(text)
    assert locked_text(ship(KEPT), "v1", again) == again
    assert changed({**KEPT, "rig": numbered(str, 11)}, text) == [
        "message ShipSpec, field rig: 11 was the number, which was removed: give it another"
    ]


def test_fields_may_come_and_go():
    assert changed({**KEPT, "crew": numbered(int, 3), "rig": numbered(str, 4)}) == []
    assert changed(KEPT) == []
    assert "  reserved 3;  // crew" in locked_text(ship(KEPT), "v1", LOCKED)
    # another type under another number is another field
    assert changed({**KEPT, "crew": numbered(list[str], 7)}) == []


@pytest.mark.parametrize(
    ("hints", "why"),
    [
        ({**KEPT, "crew": numbered(int, 4)}, "ShipSpec, field crew: its number was 3, now it is 4: give it 3 again"),
        ({**KEPT, "rig": numbered(int, 3)}, "ShipSpec, field rig: 3 is the number of crew: give it another, or if"),
        ({**KEPT, "crew": numbered(str, 3)}, "number 3 was optional int64, now it is optional string"),
        ({**KEPT, "crew": numbered(list[int], 3)}, "number 3 was optional int64, now it is repeated int64"),
        ({**KEPT, "masts": numbered(list[str], 1)}, "number 1 was repeated ShipSpecMasts, now it is repeated string"),
    ],
)
def test_what_breaks_clients_is_refused(hints: dict[str, Any], why: str):
    (change,) = changed(hints)
    assert why in change


def test_two_fields_that_exchange_their_numbers():
    said = changed({"masts": numbered(list[Mast], 1), "name": numbered(str, 3), "crew": numbered(int, 2)})
    assert said == [
        "message ShipSpec, field name: its number was 2, now it is 3: give it 2 again",
        "message ShipSpec, field crew: its number was 3, now it is 2: give it 3 again",
    ]


def test_inner_messages_are_compared_also_under_a_new_name():
    class Pole(Model):
        name: Annotated[str, Proto(2)]
        sails: Annotated[int | None, Proto(1)] = None

    (first, second) = changed({**KEPT, "masts": numbered(list[Pole], 1)})
    assert "message ShipSpecMasts, field name: its number was 1, now it is 2" in first
    assert "field sails: its number was 2, now it is 1" in second
    renamed = LOCKED.replace("masts = 1", "poles = 1")
    assert changed({"poles": numbered(list[Mast], 1), "name": numbered(str, 2)}, renamed) == []
    assert "message ShipSpecPoles, field name" in changed({"poles": numbered(list[Pole], 1)}, renamed)[0]


def test_messages_have_names_of_their_own():
    class Inner(Model):
        name: Annotated[str, Proto(1)] = ""

    class Outer(Model):
        b: Annotated[Inner, Proto(1)] = Inner()

    class Thing(Resource, group="lock.example.com", version="v1"):
        a_b: Annotated[Inner, Proto(2)] = Inner()
        a: Annotated[Outer, Proto(3)] = Outer()
        list: Annotated[Inner, Proto(4)] = Inner()

    text = proto_text(served_from([Thing])[0].definition, "v1")
    assert list(read_proto(text)) == ["Thing", "ThingAB", "ThingA", "ThingAB_", "ThingList_", "ThingList"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no message Ship in it"),
        ("message Ship {", "line 1: optional, repeated or map was expected, and there is 'the end'"),
        (
            "message Ship {\n  optional string a = 1;\n  optional string b = 1;\n}",
            "line 4: 1 is the number of a and of b",
        ),
        ("message Ship { optional string a = x; }", "a field number was expected, and there is 'x'"),
        ("message Ship { optional string = 1; }", "a name was expected, and there is '='"),
        ("message Ship { string a = 1; }", "optional, repeated or map was expected"),
        ("message Ship { map<int32, string> a = 1; }", "'string' was expected, and there is 'int32'"),
        ("message Ship { optional group G = 1 { } }", "';' was expected, and there is '{'"),
        ("message A {} message A {}", "message A is there twice"),
        ("enum A { B = 0; }", "'enum' isn't read here, only messages are"),
        ('syntax = "proto2"', "';' was expected, and there is the end of the file"),
        ("message A { § }", "line 1: '§' can't stand here"),
        ("\n\nmessage A { optional string a = 1 [b }", "']' was expected, and there is 'the end of the file'"),
        ("message A { reserved to 7; }", "a field number was expected, and there is 'to'"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, why: str):
    with pytest.raises(ProtoTextError) as refused:
        number_changes(SHIP, "v1", text)
    assert why in str(refused.value)


@pytest.mark.slow
@examples(300)
@given(st.data())
def test_damaged_files_are_read_or_refused(data: st.DataObject):
    text = LOCKED
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 12))
        put = data.draw(
            st.sampled_from(["", "{", "}", ";", "//", "/*", '"', "9", "message X {", "reserved 1 to max;", "é"])
        )
        text = text[:at] + put + text[at + gone :]
    try:
        changes = number_changes(SHIP, "v1", text)
    except ProtoTextError:
        return
    if not changes:
        assert is_locked(SHIP, "v1", locked_text(SHIP, "v1", text))


FIELDS = st.dictionaries(
    st.integers(1, 6),
    st.builds(
        ProtoTextField,
        st.sampled_from("abcdef"),
        st.sampled_from(["optional", "repeated", "map"]),
        st.sampled_from(["string", "int64"]),
    ),
    max_size=5,
)  # fmt: skip


@given(FIELDS)
def test_fields_are_read_as_they_are_shown(fields: dict[int, ProtoTextField]):
    lines = [f"{field} {field.name} = {number};" for number, field in fields.items()]
    assert read_proto("message M { " + " ".join(lines) + " }") == {"M": ProtoTextMessage(fields, ())}
