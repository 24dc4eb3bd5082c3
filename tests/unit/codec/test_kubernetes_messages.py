"""Every message of Kubernetes' table, as the protobuf library reads and writes it by descriptors of the same table."""

from __future__ import annotations

import re
import time
import tracemalloc
from typing import Any

import pytest
from google.protobuf import unknown_fields
from hypothesis import given
from hypothesis import strategies as st
from kubernetes_descriptors import SCALARS, TYPES, Described, sample
from thoroughness import examples

from oarlock.codec.errors import DecodeError
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.codec.protobuf_values import MAX_DEPTH
from oarlock.codec.protowire import tagged, varint

TABLE = Described()
POD, SCHEMA = kubernetes_message("core.v1.Pod"), kubernetes_message("apiextensions.v1.JSONSchemaProps")
VALUES = sorted(name for name in TABLE.messages if sample(name) is not None)
OBJECTS = sorted(set(TABLE.messages) - set(VALUES))


def test_every_message_is_read_and_written_as_by_the_library() -> None:
    assert len(OBJECTS) > 650
    for name in OBJECTS:
        tree, message = TABLE.full(name), kubernetes_message(name)
        data = message.write(tree)
        assert message.read(data) == tree, name
        theirs = TABLE.classes[name]()
        theirs.ParseFromString(data)
        assert not unknown_fields.UnknownFieldSet(theirs), name
        assert TABLE.tree(name, theirs) == tree, name
        assert message.read(TABLE.message(name, tree).SerializeToString()) == tree, name


def scalars(kind: str, zero: bool) -> st.SearchStrategy[Any]:
    made: st.SearchStrategy[Any] = {
        "string": st.text(max_size=4),
        "bytes": st.sampled_from(["", "AA==", "AP8="]),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "bool": st.booleans(),
        "double": st.floats(allow_nan=False, allow_infinity=False),
    }[kind]
    return made if zero else made.filter(bool)


@st.composite
def trees(draw: st.DrawFn, name: str, depth: int = 0) -> Any:
    """What JSON may have for a message: a few of its fields, empty texts and zeros where they mean something."""
    if sample(name) is not None:
        return sample(name)
    if "PropsOr" in name:
        return {"type": "x"}
    tree: dict[str, Any] = {}
    fields = TABLE.messages[name]
    for one in draw(st.lists(st.sampled_from(fields), unique=True, max_size=5)) if fields else ():
        if one.kind not in TYPES and depth >= 3:
            continue
        single = scalars(one.kind, not one.omitted) if one.kind in TYPES else trees(one.kind, depth + 1)
        if not one.name:
            tree |= draw(single)
        elif one.many == "[]":
            tree[one.name] = draw(st.lists(single, min_size=1, max_size=2))
        elif one.many:
            tree[one.name] = draw(st.dictionaries(st.text(max_size=3), single, min_size=1, max_size=2))
        else:
            tree[one.name] = draw(single)
    return tree.get("items", []) if name in TABLE.lists else tree


@given(st.data())
@examples(60)
def test_any_tree_comes_back(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(OBJECTS))
    tree = data.draw(trees(name))
    message = kubernetes_message(name)
    written = message.write(tree)
    assert message.read(written) == tree
    theirs = TABLE.classes[name]()
    theirs.ParseFromString(written)
    assert TABLE.tree(name, theirs) == tree
    assert message.read(TABLE.message(name, tree).SerializeToString()) == tree


@given(st.sampled_from(OBJECTS), st.data())
@examples(60)
def test_damaged_messages_are_read_or_refused(name: str, data: st.DataObject) -> None:
    message = kubernetes_message(name)
    good = bytearray(message.write(TABLE.full(name)))
    for _ in range(data.draw(st.integers(1, 4))):
        if good:
            good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        message.read(bytes(good[: data.draw(st.integers(0, len(good)))]))
    except DecodeError:
        pass


def test_what_go_writes_for_nothing_is_nothing() -> None:
    """A field that is no pointer in Go is always written; in JSON its zero value is left out. A pointer's stays."""
    made = TABLE.message("apps.v1.DeploymentSpec", {"replicas": 0, "minReadySeconds": 0, "paused": False})
    assert kubernetes_message("apps.v1.DeploymentSpec").read(made.SerializeToString()) == {"replicas": 0}
    claim = TABLE.message("core.v1.PersistentVolumeClaimSpec", {"storageClassName": "", "volumeName": ""})
    assert kubernetes_message("core.v1.PersistentVolumeClaimSpec").read(claim.SerializeToString()) == {
        "storageClassName": ""
    }


def test_inlined_fields_are_beside_the_others() -> None:
    volume = {"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}
    message = kubernetes_message("core.v1.Volume")
    assert message.read(message.write(volume)) == volume
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 3}
    assert kubernetes_message("core.v1.Probe").read(kubernetes_message("core.v1.Probe").write(probe)) == probe


SCHEMAS: list[Any] = [
    {"items": {"type": "string"}},
    {"items": [{"type": "string"}, {"type": "integer"}]},
    {"additionalProperties": True},
    {"additionalProperties": False},
    {"additionalProperties": {"type": "object", "properties": {"a": {"default": {"x": [1]}}}}},
    {"dependencies": {"a": ["b"], "c": {"type": "string"}}},
    {"x-kubernetes-preserve-unknown-fields": False, "enum": ["a", 1]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_schemas_or_something_else(schema: Any) -> None:
    assert SCHEMA.read(SCHEMA.write(schema)) == schema


def test_what_comes_twice_is_merged() -> None:
    """As protobuf says: the later value counts, messages are united, lists joined."""
    parts = [
        {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"nodeName": "n", "tolerations": [{"key": "k"}]}},
        {"metadata": {"name": "b", "labels": {"y": "2"}}, "spec": {"tolerations": [{"key": "l"}]}},
    ]
    data = b"".join(POD.write(part) for part in parts)
    theirs = TABLE.classes["core.v1.Pod"]()
    theirs.ParseFromString(data)
    assert POD.read(data) == TABLE.tree("core.v1.Pod", theirs)
    assert POD.read(data)["spec"] == {"nodeName": "n", "tolerations": [{"key": "k"}, {"key": "l"}]}


def test_unknown_fields_are_skipped() -> None:
    group = varint(999 << 3 | 3) + tagged(1, b"x") + varint(5 << 3 | 3) + varint(5 << 3 | 4) + varint(999 << 3 | 4)
    strange = tagged(998, b"abc") + varint(997 << 3) + b"\x01" + varint(996 << 3 | 5) + b"1234" + group
    data = POD.write({"spec": {"nodeName": "n"}})
    assert POD.read(strange + data + strange) == {"spec": {"nodeName": "n"}}
    assert POD.read(tagged(2, strange)) == {"spec": {}}


def nested(levels: int) -> bytes:
    """A schema in the property ``not`` of a schema, and so on."""
    number = next(one.number for one in TABLE.messages["apiextensions.v1.JSONSchemaProps"] if one.name == "not")
    data = b""
    for _ in range(levels):
        data = tagged(number, data)
    return data


def test_nesting_has_a_bound() -> None:
    tree = SCHEMA.read(nested(MAX_DEPTH))
    assert SCHEMA.read(SCHEMA.write(tree)) == tree
    with pytest.raises(DecodeError, match="nested deeper than 100 messages"):
        SCHEMA.read(nested(MAX_DEPTH + 1))
    with pytest.raises(DecodeError, match="nested deeper than 100 messages"):
        SCHEMA.write({"not": tree})


HOSTILE = {
    "deep": nested(5_000),
    "groups": varint(999 << 3 | 3) * 100_000,
    "a huge length": b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "a huge length within": tagged(2, b"\x12\xff\xff\xff\xff\x0f"),
    "a length over the end of its message": tagged(2, b"\x52\x05ab") + b"cde",
    "a number over the end of its message": tagged(2, b"\x20\x80") + b"\x01",
    "a long number": b"\x10" + b"\xff" * 11,
    "another wire type": b"\x10\x01",
    "the end of no group": b"\x14",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused_at_once(data: bytes) -> None:
    message = SCHEMA if data is HOSTILE["deep"] else POD
    began = time.process_time()
    with pytest.raises(DecodeError):
        message.read(data)
    assert time.process_time() - began < 1


def test_many_empty_messages_take_no_more_than_in_json() -> None:
    """The smallest item is two bytes, as ``{}`` is in JSON."""
    number = next(one.number for one in TABLE.messages["core.v1.PodSpec"] if one.name == "containers")
    data = tagged(2, tagged(number, b"") * 20_000)
    tracemalloc.start()
    try:
        tree = POD.read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tree["spec"]["containers"]) == 20_000
    assert peak < 20_000 * 100


def test_a_wrong_type_is_told_with_its_place() -> None:
    for tree, why in (
        ({"spec": {"containers": {}}}, "Expected `array | null`, got `object` - at `$.spec.containers`"),
        ({"spec": {"nodeName": 5}}, "Expected `str | null`, got `int` - at `$.spec.nodeName`"),
        ({"metadata": {"labels": {"a": 1}}}, "Expected `str`, got `int` - at `$.metadata.labels[...]`"),
        ({"spec": 1}, "Expected `object | null`, got `int` - at `$.spec`"),
        ({"metadata": {"creationTimestamp": "today"}}, "it can't be written as Pod"),
        ([], "Expected `object`, got `array`"),
    ):
        with pytest.raises(DecodeError, match=re.escape(why)):
            POD.write(tree)


def test_what_is_remembered_of_other_objects_is_the_same() -> None:
    """Fields of list items are written once for the objects that have the same, until they are seen to differ."""
    alone = kubernetes_message("core.v1.Container")
    for number in range(600):
        env = [{"name": "A", "value": str(number // 3)}, {"name": "É", "value": ""}]
        state = {"containerPort": number + 1, "name": "web"}
        container = {
            "name": "c",
            "env": env,
            "ports": [state],
            "resources": {"limits": {"cpu": "1"}},
            "lifecycle": None,
        }
        data = POD.write({"spec": {"containers": [container, container], "nodeName": str(number)}})
        assert data == POD.write({"spec": {"containers": [container] * 2, "nodeName": str(number)}})
        assert tagged(2, alone.write(container)) * 2 in data


JSON_TEXTS: list[tuple[bytes, Any]] = [
    (b'{"metadata":{"labels":{"\xc3\xa9":"\xe2\x82\xac"}}}', {"metadata": {"labels": {"é": "€"}}}),
    (b'{"metadata":{"name":"\\u20ac\\u003c\\u00e9"}}', {"metadata": {"name": "€<é"}}),
    (b'{"metadata":{"name":"\\u0001"}}', {"metadata": {"name": "\x01"}}),
    (b'{"spec":{"priority":1e2,"terminationGracePeriodSeconds":5.0}}', None),
    (
        b'{"spec":null,"unknown":[1],"metadata":{"managedFields":[{"fieldsV1":null}]}}',
        {"metadata": {"managedFields": [{}]}},
    ),
]


@pytest.mark.parametrize(("text", "tree"), JSON_TEXTS, ids=lambda value: str(value)[:20])
def test_json_is_written_however_it_escapes_its_texts(text: bytes, tree: Any) -> None:
    tree = tree or {"spec": {"priority": 100, "terminationGracePeriodSeconds": 5}}
    theirs = TABLE.classes["core.v1.Pod"]()
    theirs.ParseFromString(POD.write_json(text))
    assert POD.read(POD.write_json(text)) == TABLE.tree("core.v1.Pod", theirs) == tree


def test_values_in_json_are_written_as_their_text() -> None:
    """As Go writes them, which keeps the bytes of managed fields."""
    fields = b'{"f:a\\u003c":{}}'
    data = POD.write_json(b'{"metadata":{"managedFields":[{"fieldsV1":%s}]}}' % fields)
    assert tagged(7, tagged(1, fields)) in data


def test_scalars_cover_the_kinds() -> None:
    assert set(SCALARS) == set(TYPES)
