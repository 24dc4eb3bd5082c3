"""The system's part of metadata, without a server."""

from __future__ import annotations

import uuid

import pytest

from oarlock.meta.context import Target
from oarlock.meta.errors import BadRequest
from oarlock.meta.names import ALPHABET, generate_name
from oarlock.registry.conversions import ConversionCache
from oarlock.registry.write.metadata import check_place, fill_namespace, keep_system, uuid4


def test_uids_are_version_4():
    for seed in range(64):
        made = uuid.UUID(uuid4(bytes((seed * 31 + i * 7) % 256 for i in range(16))))
        assert (made.version, made.variant) == (4, uuid.RFC_4122)


def test_generated_names_end_in_characters_of_the_alphabet():
    assert generate_name("a-", bytes([0, 1, 26, 27, 255])) == "a-" + "".join(
        ALPHABET[i % len(ALPHABET)] for i in (0, 1, 26, 27, 255)
    )
    assert len(generate_name("x" * 100, b"12345")) == 63


def test_where_an_object_belongs():
    target = Target("update", "g", "v", "things", namespace="ns", name="n")
    metadata = {"name": "n", "namespace": ""}
    check_place(metadata, target, namespaced=True)
    assert metadata["namespace"] == "ns"
    check_place(metadata, target, namespaced=False)
    assert "namespace" not in metadata
    for wrong in ({}, {"name": "m"}, {"name": "n", "namespace": "other"}):
        with pytest.raises(BadRequest):
            check_place(wrong, target, namespaced=True)
    with pytest.raises(BadRequest):
        fill_namespace({"namespace": "other"}, "ns", namespaced=True)


def test_the_servers_fields_come_from_the_live_object():
    old = {"uid": "u", "creationTimestamp": "t", "generation": 3}
    new = {"creationTimestamp": "x", "generation": 9, "selfLink": "/"}
    keep_system(new, old)
    assert new == old
    other = {"uid": "theirs"}
    keep_system(other, old)
    assert other["uid"] == "theirs"  # validation refuses it


def test_the_conversion_cache_is_bounded_and_the_oldest_use_goes_first():
    kept = ConversionCache(limit_bytes=1000)
    for rev in range(3):
        kept.put(("k", rev, "v"), b"x" * 100)
    assert kept.get(("k", 0, "v")) is not None
    kept.put(("k", 3, "v"), b"x" * 100)
    assert kept.get(("k", 1, "v")) is None
    assert kept.get(("k", 0, "v")) is not None
    assert len(kept) == 3
    kept.put(("big", 1, "v"), b"x" * 5000)
    assert len(kept) == 0
