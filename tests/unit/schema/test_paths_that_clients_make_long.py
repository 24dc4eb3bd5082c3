"""A key of a map may be a megabyte long and have a hundred thousand wrong items below it: no text grows by both."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.validation.findings import MapKey, render

KEY = "k" * 1_000_000
ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}},
    "required": ["name"],
}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
RULED = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "x-kubernetes-validations": [{"rule": "self.n > 5"}],
}


def lists_of(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "array", "items": items, **more}}


SPEC = {
    "type": "object",
    "properties": {
        "plain": lists_of(ITEM),
        "keyed": lists_of(ITEM, **KEYED),
        "embedded": lists_of(EMBEDDED),
        "ruled": lists_of(RULED),
    },
}


def compiled(*, typed: bool) -> CompiledVersion:
    version = VersionDefinition("v1", {"type": "object", "properties": {"spec": SPEC}})
    names = Names("things", "Thing")
    definition = ResourceDefinition("g.io", names, "Cluster", (version,), hub="v1", stored_as="v1", typed=typed)
    return compile_version(definition, "v1")


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize(
    ("field", "item"),
    [
        ("plain", {"name": "a", "unknown": 1}),
        ("plain", {"name": "too long"}),
        ("plain", {}),
        ("plain", 1),
        ("keyed", {"name": "a"}),
        ("embedded", {}),
        ("embedded", {"apiVersion": "v1", "kind": "Thing", "metadata": {"unknown": 1, "labels": 3}}),
        ("ruled", {"n": 1}),
    ],
)
def test_what_is_said_of_an_object_is_bounded(field: str, item: Any, typed: bool) -> None:
    version = compiled(typed=typed)
    items = [dict(item) if isinstance(item, dict) else item for _ in range(5_000)]
    tree = {"apiVersion": "g.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {field: {KEY: items}}}
    told = [
        [error.message for error in version.type_errors(tree)],
        version.prune(tree),
        [error.message for error in version.validate(tree)],
    ]
    assert any(told)
    for texts in told:
        assert len(texts) <= 1200
        assert max(map(len, texts), default=0) < 5_000


def test_a_path_is_cut_after_a_thousand_characters() -> None:
    for step in ("k" * 100_000, MapKey("k" * 100_000)):
        text = render((((None, "spec"), step), "field"))
        assert text.startswith("spec")
        assert text.endswith("k...")
        assert len(text) == 1027
    assert render((((None, "spec"), MapKey("a")), 3)) == "spec[a][3]"
