"""CEL rules on the whole way: creating, updating, patching and applying what breaks one, declared or CRD-shaped."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from walk_kit import GROUP, causes, path, walk

from oarlock import APIServer, MaxItems, MaxLength, Model, Resource, Rule, StoredCollection
from oarlock.registry.served import Served
from oarlock.schema.cel.library.functions import FUNCTIONS
from oarlock.schema.compiled import SchemaError
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.testing.server import InMemory


class LockSpec(Model):
    """Between two heights."""

    low: int = 0
    high: int = 1
    keys: Annotated[list[Annotated[str, MaxLength(10)]], MaxItems(10), Rule("self.all(k, k.startsWith('k'))")] = []


class Lock(
    Resource,
    group=GROUP,
    version="v1",
    rules=[
        Rule("self.spec.low < self.spec.high", "low must be below high", field_path=".spec.low"),
        Rule("self.spec.high == oldSelf.spec.high", "high is fixed", reason="FieldValueForbidden"),
    ],
):
    """A lock of a canal."""

    spec: LockSpec


class Locks(StoredCollection[Lock]):
    """Locks."""


def gates(rule: str) -> Served:
    """What a CRD would declare."""
    spec = {"type": "object", "properties": {"width": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}, "x-kubernetes-validations": [{"rule": rule}]}
    version = VersionDefinition("v1", schema)
    names = Names("gates", "Gate")
    return Served(ResourceDefinition(GROUP, names, "Namespaced", (version,), hub="v1", stored_as="v1", typed=False))


LOCKS = path("locks", version="v1")
GATES = path("gates", version="v1")


def server() -> InMemory:
    return InMemory(
        APIServer(serve=[Locks, gates("!has(self.spec.width) || self.spec.width > self.metadata.name.size()")])
    )


def lock(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Lock", "metadata": {"name": name}, "spec": spec}


@walk
async def test_what_breaks_a_rule_is_not_created() -> None:
    async with server() as api:
        answer = await api.post(LOCKS, lock(low=3, high=2, keys=["k1", "x"]))
        assert answer.status == 422
        found = answer.json
        assert found["reason"] == "Invalid"
        assert found["details"]["causes"] == [
            {"reason": "FieldValueInvalid", "message": "Invalid value: low must be below high", "field": "spec.low"},
            {
                "reason": "FieldValueInvalid",
                "message": "Invalid value: failed rule: self.all(k, k.startsWith('k'))",
                "field": "spec.keys",
            },
        ]
        assert (await api.post(LOCKS, lock(low=1, high=2))).status == 201


@walk
async def test_every_way_of_writing_meets_the_rules() -> None:
    async with server() as api:
        assert (await api.post(LOCKS, lock(low=1, high=5))).status == 201
        answer = await api.patch(f"{LOCKS}/a", {"spec": {"high": 6}})
        assert answer.status == 422
        assert answer.json["details"]["causes"][0]["message"] == "Forbidden: high is fixed"
        where = f"{LOCKS}/a?fieldManager=me&force=true"
        answer = await api.patch(where, lock(low=7, high=5), content_type="application/apply-patch+yaml")
        assert answer.status == 422
        assert causes(answer) == ["spec.low"]
        assert (await api.patch(f"{LOCKS}/a", {"spec": {"low": 2}})).status == 200


@walk
async def test_a_custom_resource_has_rules_too() -> None:
    async with server() as api:
        gate = {"apiVersion": f"{GROUP}/v1", "kind": "Gate", "metadata": {"name": "abc"}, "spec": {"width": 3}}
        answer = await api.post(GATES, gate)
        assert answer.status == 422
        assert answer.json["details"]["causes"][0]["field"] == "<nil>"
        gate["spec"] = {"width": 4}
        assert (await api.post(GATES, gate)).status == 201


@walk
async def test_a_definition_with_a_bad_rule_is_not_served() -> None:
    with pytest.raises(SchemaError, match="undefined field 'wdth'"):
        await InMemory(APIServer(serve=[gates("self.spec.wdth > 3")])).__aenter__()


@walk
async def test_a_mistake_of_ours_in_a_rule_is_a_500_with_its_reason_in_the_log(monkeypatch: Any, caplog: Any) -> None:
    def wrong(text: Any, part: Any) -> bool:
        raise TypeError("a bug of ours")

    monkeypatch.setitem(FUNCTIONS, "startsWith", wrong)

    class Lock(Resource, group=GROUP, version="v1"):
        """A lock whose rule can't be run."""

        key: Annotated[str, MaxLength(10), Rule("self.startsWith('k') || self == ''")]

    async with InMemory(APIServer(serve=[Lock]), raise_server_exceptions=False) as api:
        answer = await api.post(path("locks", version="v1"), {"metadata": {"name": "a"}, "key": "k"})
    assert answer.status == 500
    assert b"a bug of ours" not in answer.body
    assert "a bug of ours" in caplog.text
