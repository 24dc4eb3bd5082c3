"""Integers of a custom resource that came as ``5.0`` are stored as 5; what is no integer stays for validation."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.codec import json
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

INTEGER = {"type": "integer"}
SPEC = {
    "size": INTEGER,
    "ratio": {"type": "number"},
    "port": {"x-kubernetes-int-or-string": True},
    "counts": {"type": "object", "additionalProperties": INTEGER},
    "rows": {"type": "array", "items": {"type": "array", "items": INTEGER}},
    "parts": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": INTEGER}}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def crate() -> CompiledVersion:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
    version = VersionDefinition("v1", schema)
    names = Names("crates", "Crate")
    definition = ResourceDefinition(
        "a.example.com", names, "Cluster", (version,), hub="v1", stored_as="v1", typed=False
    )
    return compile_version(definition, "v1")


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (b'{"size":5.0}', b'{"size":5}'),
        (b'{"size":-1e3}', b'{"size":-1000}'),
        (b'{"size":-0.0}', b'{"size":0}'),
        (b'{"size":9007199254740991.0}', b'{"size":9007199254740991}'),
        (b'{"port":8e1}', b'{"port":80}'),
        (b'{"port":"80"}', b'{"port":"80"}'),
        (b'{"counts":{"a":1.0,"b":2}}', b'{"counts":{"a":1,"b":2}}'),
        (b'{"rows":[[1.0,2],[]]}', b'{"rows":[[1,2],[]]}'),
        (b'{"parts":{"a":{"n":3.0}}}', b'{"parts":{"a":{"n":3}}}'),
        (b'{"ratio":2.0,"free":{"n":2.0}}', b'{"ratio":2.0,"free":{"n":2.0}}'),
    ],
)
def test_whole_floats_become_integers_where_the_schema_says_integer(spec: bytes, stored: bytes) -> None:
    tree = {"metadata": {"name": "c"}, "spec": json.decode(spec)}
    version = crate()
    assert not version.untouched(tree) or spec == stored
    version.normalize(tree)
    assert repr(tree["spec"]) == repr(json.decode(stored))
    assert version.validate(tree) == []


@pytest.mark.parametrize("spec", [{"size": 5.5}, {"size": 1e300}, {"rows": [[0.1]]}, {"counts": {"a": 1e17}}])
def test_what_is_no_integer_is_left_and_refused(spec: dict[str, Any]) -> None:
    tree = {"metadata": {"name": "c"}, "spec": spec}
    version = crate()
    version.normalize(tree)
    assert tree["spec"] == spec
    assert version.validate(tree)


@pytest.mark.parametrize(
    "spec", [{"size": "5"}, {"rows": {"a": 1.0}}, {"rows": [5.0]}, {"counts": [1.0]}, {"parts": 1.0}]
)
def test_what_has_another_shape_is_left(spec: dict[str, Any]) -> None:
    tree = {"metadata": {"name": "c"}, "spec": spec}
    crate().normalize(tree)
    assert tree["spec"] == spec
