"""One stored object that two API groups serve, each in a shape of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pytest

from oarlock import APIServer, Context, FieldError, Invalid, Model, Resource, Spoke, StoredCollection
from oarlock.testing import InMemory

OLD, NEW = "old.example.com", "new.example.com"


class CallSpec(Model):
    text: str = ""
    loud: bool = False


class Call(Resource, group=OLD, version="v1", short_names=["ca"], selectable=[".spec.text"]):
    """A call."""

    spec: CallSpec = CallSpec()


class NewCall(Spoke[Call], group=NEW, version="v1", selectable=[".said"]):
    """A call, said otherwise."""

    said: str = ""

    def to_hub(self) -> Call:
        return Call(metadata=self.metadata, spec=CallSpec(text=self.said))

    @classmethod
    def from_hub(cls, hub: Call) -> Self:
        return cls(metadata=hub.metadata, said=hub.spec.text)


class Calls(StoredCollection[Call]):
    def validate(self, new: Call, old: Call | None, ctx: Context) -> Iterator[FieldError]:
        if ctx.target.group == NEW and not new.spec.text:
            yield Invalid("said", "", "say something")


HERE, THERE = f"/apis/{OLD}/v1/namespaces/default/calls", f"/apis/{NEW}/v1/namespaces/default/calls"


def server() -> APIServer:
    return APIServer(serve=[Calls, NewCall])


@pytest.mark.anyio
async def test_what_is_created_in_one_is_in_the_other() -> None:
    async with InMemory(server()) as api:
        made = await api.post(HERE, {"metadata": {"name": "a"}, "spec": {"text": "hello", "loud": True}})
        assert made.status == 201
        there = (await api.get(f"{THERE}/a")).json
        assert (there["apiVersion"], there["kind"], there["said"]) == (f"{NEW}/v1", "Call", "hello")
        assert there["metadata"]["uid"] == made.json["metadata"]["uid"]
        assert (await api.post(THERE, {"metadata": {"name": "b"}, "said": "bye"})).status == 201
        assert (await api.get(f"{HERE}/b")).json["spec"] == {"text": "bye", "loud": False}
        listed = (await api.get(THERE)).json
        assert [item["said"] for item in listed["items"]] == ["hello", "bye"]
        keys = [kv.key for kv in (await api.parts.storage.backend.list("/registry/", "/registry0")).kvs]
        assert keys == [f"/registry/{OLD}/calls/default/a", f"/registry/{OLD}/calls/default/b"]


@pytest.mark.anyio
async def test_each_group_has_its_own_fields_and_rules() -> None:
    async with InMemory(server()) as api:
        await api.post(HERE, {"metadata": {"name": "a"}, "spec": {"text": "x"}})
        assert len((await api.get(f"{THERE}?fieldSelector=said%3Dx")).json["items"]) == 1
        assert (await api.get(f"{HERE}?fieldSelector=said%3Dx")).status == 400
        refused = await api.post(THERE, {"metadata": {"name": "b"}, "said": ""})
        assert (refused.status, refused.json["details"]["group"]) == (422, OLD)  # the kind that hooks see
        assert (await api.post(HERE, {"metadata": {"name": "b"}})).status == 201
        missing = (await api.get(f"{THERE}/none")).json
        assert missing["message"] == f'calls.{NEW} "none" not found'


@pytest.mark.anyio
async def test_a_write_through_one_keeps_what_only_the_other_can_say() -> None:
    async with InMemory(server()) as api:
        await api.post(HERE, {"metadata": {"name": "a"}, "spec": {"text": "x", "loud": True}})
        patch = {"content-type": "application/merge-patch+json"}
        changed = await api.request("PATCH", f"{THERE}/a", {"said": "y"}, patch)
        assert changed.status == 200
        assert (await api.get(f"{HERE}/a")).json["spec"] == {"text": "y", "loud": True}
        owners = (await api.get(f"{HERE}/a")).json["metadata"]["managedFields"]
        assert {one["apiVersion"] for one in owners} == {f"{OLD}/v1", f"{NEW}/v1"}


@pytest.mark.anyio
async def test_a_watch_of_one_sees_writes_through_the_other() -> None:
    async with InMemory(server()) as api, api.watch(THERE) as events:
        await api.post(HERE, {"metadata": {"name": "a"}, "spec": {"text": "x"}})
        kind, tree = await events.next()
        assert (kind, tree["apiVersion"], tree["said"]) == ("ADDED", f"{NEW}/v1", "x")
        await api.request("DELETE", f"{HERE}/a")
        assert (await events.next())[0] == "DELETED"


@pytest.mark.anyio
async def test_both_are_discovered_with_the_same_names() -> None:
    async with InMemory(server()) as api:
        for group in (OLD, NEW):
            (resource,) = (await api.get(f"/apis/{group}/v1")).json["resources"]
            assert (resource["name"], resource["kind"], resource["shortNames"]) == ("calls", "Call", ["ca"])
            group_document = (await api.get(f"/apis/{group}")).json
            assert [one["version"] for one in group_document["versions"]] == ["v1"]


@pytest.mark.anyio
async def test_it_starts_again_on_its_store() -> None:
    async with InMemory(server()) as api:
        await api.post(THERE, {"metadata": {"name": "a"}, "said": "x"})
        backend = api.parts.storage.backend
        assert list(api.parts.resources.live.resources) == [(OLD, "calls"), (NEW, "calls")]
        records = [kv.key for kv in (await backend.list("/oarlock/", "/oarlock0")).kvs]
        assert {f"/oarlock/definitions/calls.{OLD}", f"/oarlock/definitions/calls.{NEW}"} <= {*records}
