"""Tails, bodies and values: what is stored, and what answers are joined from."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oarlock.registry.conversions import Conversions, NoConversion
from oarlock.registry.stored.form import STALE, StoredForm, body_of, encode_tail, tail_of
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.storage.cache.entry import Interner

texts = st.text(max_size=6)
trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
objects = st.builds(
    lambda metadata, rest: {"metadata": metadata, **{k: v for k, v in rest.items() if k not in HEAD}},
    st.dictionaries(st.sampled_from(["name", "uid", "labels2", "annotations", "zz"]), trees, max_size=4),
    st.dictionaries(texts, trees, max_size=3),
)
HEAD = ("apiVersion", "kind", "metadata")


def form(versions: tuple[str, ...] = ("v1",)) -> StoredForm:
    defined = tuple(VersionDefinition(v, {"type": "object"}, selectable=(".a", ".b")) for v in versions)
    definition = ResourceDefinition(
        "g.io", Names("things", "Thing"), "Namespaced", defined, hub=versions[0], stored_as=versions[0]
    )
    conversions = Conversions(definition, NoConversion())
    return StoredForm(definition, conversions, lambda tree, unknown: (str(tree.get("a", "")), ""), Interner())


@given(objects, st.integers(1, 2**63))
def test_a_body_is_the_tail_with_the_revision_and_back(tree: dict[str, Any], rev: int):
    tail = encode_tail(tree)
    body = body_of(tail, rev)
    assert tail_of(body) == tail
    assert tail_of(tail) == tail
    assert body_of(tail, 0) == tail
    shown = json.loads(b"{" + body)
    assert shown["metadata"].pop("resourceVersion") == str(rev)
    assert shown == tree
    assert not any(char in tail for char in b"<>&\n")


@given(objects)
def test_equal_trees_have_equal_bytes_whatever_their_order(tree: dict[str, Any]):
    backwards = json.loads(json.dumps(tree), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert encode_tail(tree) == encode_tail(backwards)


@given(objects)
def test_what_is_described_is_restored(tree: dict[str, Any]):
    here = form()
    value = here.head + encode_tail(tree)
    entry = here.describe("/registry/g.io/things/ns/n", value, 9, 3)
    assert not entry.broken
    assert (entry.namespace, entry.name, entry.rev, entry.create_rev) == ("ns", "n", 9, 3)
    assert here.restore(entry) == value
    assert entry.extra is not STALE


@given(st.one_of(st.binary(max_size=30), trees.map(lambda tree: json.dumps(tree).encode())))
def test_whatever_is_stored_is_described(value: bytes):
    here = form()
    key = "/registry/g.io/things/ns/n"
    entry = here.describe(key, value, 9, 3)
    assert entry.broken or entry.body
    assert (key in here.broken) is bool(entry.broken)
    assert not entry.broken or len(entry.fields) == 2


def test_another_version_is_converted_and_remembered_as_stale():
    here = form(("v2", "v1"))
    value = b'{"kind":"Thing","apiVersion":"g.io/v1","a":1,"metadata":{"name":"n","resourceVersion":"4"}}'
    entry = here.describe("/registry/g.io/things/n", value, 9, 3)
    assert entry.extra is STALE
    assert entry.body == b'"metadata":{"resourceVersion":"9","name":"n"},"a":1}'
    assert entry.fields == ("1", "")
