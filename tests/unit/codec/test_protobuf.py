"""Protobuf: what is written can be read by others, what others write can be read, nothing hostile gets through."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.codec import protobuf
from oarlock.codec.errors import DecodeError
from oarlock.codec.kubernetes_messages import META_KINDS, Message, kubernetes_message, meta_message
from oarlock.codec.protobuf_values import MessageField
from oarlock.codec.protowire import fields_in, tagged, varint

DELETE_OPTIONS = kubernetes_message("meta.v1.DeleteOptions")

METADATA: dict[str, Any] = {
    "name": "a",
    "namespace": "default",
    "uid": "0b7a",
    "resourceVersion": "12",
    "generation": 3,
    "creationTimestamp": "2026-11-20T13:11:09Z",
    "deletionTimestamp": "1969-12-31T23:59:59Z",
    "deletionGracePeriodSeconds": 0,
    "labels": {"b": "2", "a": "é"},
    "annotations": {"k": ""},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True, "blockOwnerDeletion": False}
    ],
    "finalizers": ["one/a", "two/b"],
    "managedFields": [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": "x/v1",
            "time": "2026-11-20T13:11:09Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:a": {}, 'k:{"name":"x"}': {".": {}}}},
            "subresource": "status",
        }
    ],
}


def partial(**metadata: Any) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}


@pytest.mark.parametrize(
    "tree",
    [
        partial(**METADATA),
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "7", "continue": "x", "remainingItemCount": 2**40},
            "items": [{"metadata": METADATA}, {"metadata": {}}],
        },
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "no",
            "reason": "Invalid",
            "details": {
                "name": "a",
                "group": "g",
                "kind": "K",
                "uid": "u",
                "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}],
                "retryAfterSeconds": 1,
            },
            "code": 422,
        },
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": "g/v1",
            "resources": [
                {
                    "name": "foos",
                    "singularName": "foo",
                    "namespaced": True,
                    "kind": "Foo",
                    "verbs": ["get", "list"],
                    "shortNames": ["fo"],
                    "categories": ["all"],
                    "storageVersionHash": "x=",
                }
            ],
        },
        {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "g",
            "versions": [{"groupVersion": "g/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "g/v1", "version": "v1"},
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "a:1"}],
        },
    ],
    ids=lambda tree: tree["kind"],
)
def test_what_is_written_is_read(tree):
    data = protobuf.encode(tree)
    assert data.startswith(protobuf.MAGIC)
    assert protobuf.decode(data, meta_message(tree["kind"])) == tree


def test_the_recorded_status():
    recorded = base64.b64decode(
        "azhzAAoMCgJ2MRIGU3RhdHVzEp8BCgYKABIAGgASB0ZhaWx1cmUaem9iamVjdCAqdjFhbHBoYTEuRmx1bmRlciBkb2VzIG5vdCBpbXBsZW1l"
        "bnQgdGhlIHByb3RvYnVmIG1hcnNoYWxsaW5nIGludGVyZmFjZSBhbmQgY2Fubm90IGJlIGVuY29kZWQgdG8gYSBwcm90b2J1ZiBtZXNzYWdl"
        "Ig1Ob3RBY2NlcHRhYmxlMJYDGgAiAA=="
    )
    tree = protobuf.decode(recorded, meta_message("Status"))
    assert tree == {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "object *v1alpha1.Flunder does not implement the protobuf marshalling interface "
        "and cannot be encoded to a protobuf message",
        "reason": "NotAcceptable",
        "code": 406,
    }
    empty = tagged(1, b"\x0a\x00\x12\x00\x1a\x00")  # Go writes the empty text of list metadata, too
    assert protobuf.encode(tree) == recorded.replace(empty, tagged(1, b"")).replace(b"\x12\x9f\x01", b"\x12\x99\x01")


def test_a_frame_has_its_length_before_it():
    shown = protobuf.encode(partial(name="a"))
    data = protobuf.frame("ADDED", shown)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    (_, _, event), (_, _, raw) = fields_in(data[4:])
    assert event == b"ADDED"
    assert list(fields_in(raw)) == [(1, 2, shown)]


def test_a_list_is_joined_of_messages():
    items = [protobuf.message_of(b'{"kind":"PartialObjectMetadata","metadata":{"name":"%d"}}' % n) for n in range(3)]
    listed = protobuf.listed(items)
    before, after = protobuf.list_ends(
        "meta.k8s.io/v1", "PartialObjectMetadataList", {"resourceVersion": "4"}, len(listed)
    )
    data = before + listed + after
    tree = protobuf.decode(data, meta_message("PartialObjectMetadataList"))
    assert tree["metadata"] == {"resourceVersion": "4"}
    assert [item["metadata"]["name"] for item in tree["items"]] == ["0", "1", "2"]


def test_delete_options():
    body = tagged(1, tagged(1, b"v1") + tagged(2, b"DeleteOptions"))
    options = b"\x08\x00" + tagged(2, tagged(1, b"u")) + b"\x18\x01" + tagged(4, b"Foreground") + tagged(5, b"All")
    assert protobuf.decode(protobuf.MAGIC + body + tagged(2, options), DELETE_OPTIONS) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "orphanDependents": True,
        "propagationPolicy": "Foreground",
        "dryRun": ["All"],
    }
    assert protobuf.decode(protobuf.MAGIC, DELETE_OPTIONS) == {}


EVERYTHING = Message(
    "Everything",
    (
        MessageField("text", 1),
        MessageField("bytes", 2, "bytes"),
        MessageField("whole", 3, "int64"),
        MessageField("small", 4, "int32"),
        MessageField("flag", 5, "bool"),
        MessageField("part", 6, "double"),
        MessageField("when", 7, "Time"),
        MessageField("any", 8, "JSON"),
        MessageField("quantity", 9, "Quantity"),
        MessageField("port", 10, "IntOrString"),
        MessageField("wholes", 11, "int64", "list"),
        MessageField("parts", 12, "double", "list"),
        MessageField("named", 13, kubernetes_message("meta.v1.ObjectMeta"), "map"),
        MessageField("numbers", 536870911, "int64", "map"),
    ),
)

_texts = st.text(max_size=5)
_wholes = st.integers(-(2**63), 2**63 - 1)
_small = st.integers(-(2**31), 2**31 - 1)
_parts = st.floats(allow_nan=False, allow_infinity=False)
_trees = st.fixed_dictionaries(
    {},
    optional={
        "text": _texts,
        "bytes": st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode()),
        "whole": _wholes,
        "small": _small,
        "flag": st.booleans(),
        "part": _parts,
        "when": st.just("2026-11-20T13:11:09Z"),
        "any": st.dictionaries(_texts, _wholes, max_size=2),
        "quantity": st.just("1500m"),
        "port": _small | _texts,
        "wholes": st.lists(_wholes, min_size=1, max_size=3),
        "parts": st.lists(_parts, min_size=1, max_size=3),
        "named": st.dictionaries(_texts, st.just({"name": "x"}), min_size=1, max_size=2),
        "numbers": st.dictionaries(_texts, _wholes, min_size=1, max_size=2),
    },
)


@pytest.mark.slow
@given(_trees)
@examples(200)
def test_every_kind_of_field_comes_back(tree):
    assert EVERYTHING.read(EVERYTHING.write(tree)) == tree


def test_packed_numbers_and_unknown_fields():
    packed = tagged(11, varint(1) + varint(300)) + tagged(12, b"\x00" * 16)
    later = (
        tagged(99, b"x") + varint(98 << 3) + b"\x05" + varint(97 << 3 | 5) + b"1234" + varint(96 << 3 | 1) + b"8" * 8
    )
    assert EVERYTHING.read(later + packed) == {"wholes": [1, 300], "parts": [0.0, 0.0]}


def test_an_entry_may_lack_its_value():
    assert EVERYTHING.read(tagged(536870911, tagged(1, b"a"))) == {"numbers": {"a": 0}}
    assert EVERYTHING.read(tagged(13, b"")) == {"named": {"": {}}}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05abc", "unexpected EOF"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "unexpected EOF"),
        (b"\xff" * 11, "integer overflow"),
        (b"\x00\x00", "illegal tag 0"),
        (b"\xac\x06", "illegal wireType 4"),
        (b"\xab\x06\x08", "unexpected EOF"),
        (b"\xab\x06" * 9, "unexpected EOF"),
        (b"\xaf\x06", "illegal wireType 7"),
        (b"\x08\x01", "wrong wireType = 0 for field text of Everything"),
        (tagged(3, b""), "wrong wireType = 2 for field whole"),
        (tagged(1, b"\xff"), "invalid UTF-8"),
        (varint(6 << 3 | 1) + b"\x00\x00\x00\x00\x00\x00\xf0\x7f", "no number that an object can have"),
        (tagged(12, b"123"), "unexpected EOF"),
        (tagged(7, b"\x08" + varint(2**62)), "outside of the years"),
        (tagged(8, tagged(1, b"{")), "unexpected end"),
        (tagged(8, tagged(1, b"[" * 20_000)), "max depth"),
        (varint(13 << 3) + b"\x01", "wrong wireType = 0 for field named"),
        (tagged(13, tagged(1, b"a") + b"\x10\x01"), "wrong wireType = 0 for field value of Everything in named"),
    ],
)
def test_bad_bytes_are_refused(data, why):
    with pytest.raises(DecodeError, match=why):
        EVERYTHING.read(data)


@given(st.binary(max_size=200), st.booleans())
@examples(500)
def test_hostile_bytes_are_read_or_refused(data, whole):
    for message in (EVERYTHING, DELETE_OPTIONS, *map(meta_message, META_KINDS)):
        try:
            tree = protobuf.decode(protobuf.MAGIC + data, message) if whole else message.read(data)
        except DecodeError:
            continue
        assert isinstance(tree, dict)


@given(st.data())
@examples(200)
def test_damaged_messages_are_read_or_refused(data):
    good = bytearray(protobuf.encode(partial(**METADATA)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        protobuf.decode(bytes(good), meta_message("PartialObjectMetadata"))
    except DecodeError:
        pass


def test_a_long_message_takes_no_longer_than_it_is():
    many = tagged(11, varint(1)) * 50_000
    assert len(EVERYTHING.read(many)["wholes"]) == 50_000


def test_the_field_that_is_wrong_is_named():
    message = Message(
        "Outer",
        (MessageField("spec", 2, Message("Inner", (MessageField("name", 1), MessageField("free", 2, "JSON")))),),
    )
    for data, why in (
        (tagged(2, tagged(1, b"\xff")), "proto: string field contains invalid UTF-8 in spec.name"),
        (tagged(2, tagged(2, tagged(1, b"{"))), "proto: unexpected end of JSON input in spec.free"),
        (tagged(2, b"\x0a"), "proto: unexpected EOF in spec.name"),
        (b"\x12", "proto: unexpected EOF in spec"),
    ):
        with pytest.raises(DecodeError) as refused:
            message.read(data)
        assert str(refused.value) == why
