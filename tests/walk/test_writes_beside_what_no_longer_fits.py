"""An object that doesn't fit its class any more is labelled, finalized, given a status and deleted as it is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, Self

import pytest
from apply_kit import APPLY
from walk_kit import causes, failure, key, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    FieldError,
    Invalid,
    Model,
    Resource,
    Review,
    Rule,
    Scale,
    Spoke,
    StoredCollection,
    errors,
)
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GROUP = "walk.example.com"
KITES = f"/apis/{GROUP}/v1/namespaces/default/kites"
OLD_KITES = KITES.replace("/v1/", "/v1alpha1/")
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"


class KiteSpec(Model):
    """`colour` may not be green any more, `owner` was added, `length` was a text."""

    owner: str
    colour: Literal["red", "blue"] = "red"
    length: int = 1
    lines: int = 2
    extra: str = "new"


class KiteStatus(Model):
    flying: bool = False
    height: int = 0


class Kite(
    Resource,
    group=GROUP,
    version="v1",
    status_subresource=True,
    scale=Scale(".spec.lines", ".status.height"),
    rules=[Rule("self.spec.length < 100", "too long")],
):
    spec: KiteSpec
    status: KiteStatus | None = None


WRONG = {"colour": "green", "length": "long", "lines": 4, "tail": "of old"}
"""Its `tail` isn't a field any more."""
RIGHT = {"owner": "me", "colour": "red", "length": 3, "lines": 4}

SEEN: list[tuple[str, KiteSpec]] = []


class Kites(StoredCollection[Kite]):
    def prepare(self, new: Kite, old: Kite | None, ctx: Context) -> None:
        SEEN.append(("prepare", new.spec))
        new.metadata.labels = {**(new.metadata.labels or {}), "lines": str(new.spec.lines)}
        new.spec.length += 1

    def validate(self, new: Kite, old: Kite | None, ctx: Context) -> Iterator[FieldError]:
        SEEN.append(("validate", new.spec))
        if not new.spec.owner:
            yield Invalid("spec.owner", "", "a kite needs an owner")
        if (new.metadata.labels or {}).get("wind") == "none":
            yield Invalid("metadata.labels[wind]", "none", "a kite needs wind")
        if new.status is not None and new.status.height < 0:
            yield Invalid("status.height", new.status.height, "a kite doesn't dive")


class Guard(Admission[Kite], operations=["UPDATE"], subresources=["", "status"]):
    waits = False

    async def mutate(self, review: Review[Kite]) -> None:
        assert review.object is not None
        review.object.metadata.annotations = {"guarded": "yes"}
        review.object.spec.lines = 77

    async def validate(self, review: Review[Kite]) -> None:
        assert review.object is not None
        if "locked" in (review.object.metadata.labels or {}):
            raise errors.Denied("locked")


def kite(spec: Any = WRONG, version: str = "v1", **rest: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}
    metadata |= {"generation": 4}
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Kite", "metadata": metadata, "spec": spec, **rest}


async def sky(serve: list[Any], stored: dict[str, Any], **settings: Any) -> InMemory:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    await backend.start()
    await backend.put(key("kites", "default", "a"), json.dumps(stored).encode(), expect=0)
    SEEN.clear()
    return InMemory(APIServer(serve=serve, **settings), backend=backend, clock=clock)


ANY = [[Kite], [Kites]]


@walk
@pytest.mark.parametrize("serve", ANY)
async def test_it_is_labelled_and_stays_as_it_is(serve: list[Any]) -> None:
    async with await sky(serve, kite(status={"flying": True})) as api:
        async with api.watch(KITES) as events:
            assert (await events.next())[1]["spec"] == WRONG
            labels = {"metadata": {"labels": {"a": "1"}, "annotations": {"n": "x"}}}
            for how, patch in (
                ("application/merge-patch+json", labels), (STRATEGIC, labels),
                (JSON, [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]),
                (APPLY, {"apiVersion": f"{GROUP}/v1", "kind": "Kite", "metadata": {"name": "a", "labels": {"c": "3"}}}),
            ):  # fmt: skip
                answer = await api.patch(KITES + "/a?fieldManager=me", patch, how)
                assert answer.status == 200, answer.json
                assert answer.json["spec"] == WRONG
                assert answer.json["metadata"]["generation"] == 4
            assert (await events.next())[1]["metadata"]["labels"]["a"] == "1"
        whole = (await api.get(KITES + "/a")).json
        assert {"a", "b", "c"} <= whole["metadata"]["labels"].keys()
        whole["metadata"]["labels"]["d"] = "4"
        assert (await api.put(KITES + "/a", whole)).json["spec"] == WRONG
        before = (await api.get(KITES)).json["items"][0]
        same = await api.patch(KITES + "/a", {"metadata": {"labels": {"d": "4"}}})
        assert same.json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        dry = await api.patch(KITES + "/a?dryRun=All", {"metadata": {"labels": {"e": "5"}}})
        assert (dry.status, dry.json["spec"]) == (200, WRONG)


@walk
async def test_hooks_see_what_can_be_read_and_change_only_the_rest() -> None:
    async with await sky([Kites], kite(), admission=[Guard()]) as api:
        answer = await api.patch(KITES + "/a", {"metadata": {"labels": {"a": "1"}}})
        assert answer.status == 200, answer.json
        assert answer.json["spec"] == WRONG
        assert answer.json["metadata"]["annotations"] == {"guarded": "yes"}
        assert answer.json["metadata"]["labels"] == {"a": "1", "lines": "4"}, "not what the plugin made of it"
        assert answer.json["metadata"]["generation"] == 4
        for _, seen in SEEN:
            assert (seen.owner, seen.lines, seen.extra) == ("", 4, "new")
        refused = await api.patch(KITES + "/a", {"metadata": {"labels": {"wind": "none"}}})
        assert causes(refused) == ["metadata.labels[wind]"]
        denied = await api.patch(KITES + "/a", {"metadata": {"labels": {"locked": "yes"}}})
        assert failure(denied) == (403, "Forbidden", 'kites.walk.example.com "a" is forbidden: locked')


@walk
@pytest.mark.parametrize("serve", ANY)
async def test_a_change_of_what_is_wrong_must_mend_all_of_it(serve: list[Any]) -> None:
    async with await sky(serve, kite()) as api:
        answer = await api.patch(KITES + "/a", {"spec": {"lines": 5, "length": "longer"}})
        assert failure(answer)[:2] == (422, "Invalid")
        stored = {one["field"] for one in answer.json["details"]["causes"] if one["reason"] == "StoredObjectInvalid"}
        assert stored == {"spec.owner", "spec.colour"}, "the length is the client's"
        assert "in the stored object spec." in answer.json["message"]
        assert (await api.get(KITES + "/a")).json["spec"] == WRONG
        for number, patch in enumerate(({"spec": RIGHT}, [{"op": "replace", "path": "/spec", "value": RIGHT}])):
            mended = await api.patch(KITES + "/a?dryRun=All", patch, JSON if number else "application/merge-patch+json")
            assert mended.status == 200, mended.json
            assert "tail" not in mended.json["spec"]
        kubectl = await api.patch(KITES + "/a", {"spec": RIGHT}, STRATEGIC)
        assert kubectl.status == 200
        assert kubectl.json["metadata"]["generation"] == 5
        ours = await api.patch(KITES + "/a", {"spec": {"owner": 5}})
        assert "StoredObjectInvalid" not in str(ours.json)


@walk
@pytest.mark.parametrize("serve", ANY)
async def test_status_is_written_beside_a_wrong_spec_and_a_spec_beside_a_wrong_status(serve: list[Any]) -> None:
    async with await sky(serve, kite()) as api:
        answer = await api.patch(KITES + "/a/status", {"status": {"height": 3}})
        for body in (kite(status={"height": 4}), kite(RIGHT, status={"height": 5})):
            assert answer.status == 200, answer.json
            assert answer.json["spec"] == WRONG
            body["metadata"]["resourceVersion"] = answer.json["metadata"]["resourceVersion"]
            answer = await api.put(KITES + "/a/status", body)
        assert answer.status == 200, answer.json
        assert answer.json["spec"] == WRONG
        assert answer.json["status"]["height"] == 5
        assert (await api.get(KITES + "/a/scale")).json["spec"] == {"replicas": 4}
        scaled = await api.patch(KITES + "/a/scale", {"spec": {"replicas": 6}})
        assert failure(scaled)[:2] == (422, "Invalid")
        assert "StoredObjectInvalid" in str(scaled.json)
    wrong = {"height": 2, "flying": 3}
    async with await sky(serve, kite(RIGHT, status=wrong)) as api:
        answer = await api.patch(KITES + "/a", {"spec": {"lines": 5}})
        assert answer.status == 200, answer.json
        assert (answer.json["spec"]["lines"], answer.json["status"]) == (5, wrong)
        assert (await api.patch(KITES + "/a/scale", {"spec": {"replicas": 6}})).json["spec"] == {"replicas": 6}
        assert (await api.get(KITES + "/a")).json["status"] == wrong
        partly = await api.patch(KITES + "/a/status", {"status": {"height": 1}})
        assert partly.status == 422
        assert (await api.patch(KITES + "/a/status", {"status": {"height": 1, "flying": True}})).status == 200


@walk
@pytest.mark.parametrize("serve", ANY)
async def test_it_is_deleted_with_its_finalizers(serve: list[Any]) -> None:
    stored = kite()
    stored["metadata"]["finalizers"] = ["walk.example.com/string"]
    async with await sky(serve, stored) as api:
        deleted = await api.delete(KITES + "/a")
        assert deleted.status == 200
        assert deleted.json["metadata"]["deletionTimestamp"]
        assert deleted.json["spec"] == WRONG
        done = await api.patch(KITES + "/a", {"metadata": {"finalizers": None}})
        assert done.status == 200, done.json
        assert (await api.get(KITES + "/a")).status == 404


class OldKiteSpec(Model):
    holder: str


class OldKite(Spoke[Kite], version="v1alpha1", status_subresource=True):
    spec: OldKiteSpec
    status: KiteStatus | None = None

    def to_hub(self) -> Kite:
        if self.spec.holder == "nobody":
            raise KeyError("nobody")
        return Kite(metadata=self.metadata, spec=KiteSpec(owner=self.spec.holder), status=self.status)

    @classmethod
    def from_hub(cls, hub: Kite) -> Self:
        return cls(metadata=hub.metadata, spec=OldKiteSpec(holder=hub.spec.owner), status=hub.status)


class OldKites(StoredCollection[Kite], stored_as=OldKite, loses=["spec"]):
    prepare = Kites.prepare
    validate = Kites.validate


@walk
@pytest.mark.parametrize("spec", [{"holder": 5}, {"holder": "nobody"}])
async def test_stored_in_a_spoke_it_is_labelled_there_and_others_say_where(spec: dict[str, Any]) -> None:
    async with await sky([OldKites], kite(spec, "v1alpha1")) as api:
        answer = await api.patch(OLD_KITES + "/a", {"metadata": {"labels": {"a": "1"}}})
        assert answer.status == 200, answer.json
        assert answer.json["spec"] == spec
        assert answer.json["metadata"]["labels"]["a"] == "1"
        status = await api.patch(OLD_KITES + "/a/status", {"status": {"height": 3}})
        assert (status.status, status.json["spec"], status.json["status"]["height"]) == (200, spec, 3)
        for other in (
            await api.get(KITES + "/a"), await api.get(KITES),
            await api.patch(KITES + "/a", {"metadata": {"labels": {"a": "2"}}}),
        ):  # fmt: skip
            assert failure(other)[:2] == (500, "InternalError")
            assert other.json["message"].endswith(f"it is stored, and can be read and repaired, as {GROUP}/v1alpha1")
        assert (await api.patch(OLD_KITES + "/a", {"spec": {"holder": "me"}})).status == 200
        assert (await api.get(KITES + "/a")).json["spec"]["owner"] == "me"


@walk
async def test_large_ones_too() -> None:
    spec = {**WRONG, "tail": "x" * 200_000}
    async with await sky([Kites], kite(spec)) as api:
        answer = await api.patch(KITES + "/a", {"metadata": {"labels": {"a": "1"}}})
        assert answer.status == 200
        assert answer.json["spec"] == spec
        assert (await api.patch(KITES + "/a", {"spec": {"lines": 1}})).status == 422


class Scolded(StoredCollection[Kite]):
    def validate(self, new: Kite, old: Kite | None, ctx: Context) -> Iterator[FieldError]:
        yield Invalid("", None, "not a kite at all")


@walk
async def test_what_is_wrong_with_the_whole_is_told_of_changes_but_those_of_metadata() -> None:
    async with await sky([Scolded], kite({**WRONG, "owner": "me"})) as api:
        assert (await api.patch(KITES + "/a", {"metadata": {"labels": {"a": "1"}}})).status == 200
        changed = await api.patch(KITES + "/a/status", {"status": {"height": 3}})
        assert (changed.status, "not a kite at all" in changed.json["message"]) == (422, True)
