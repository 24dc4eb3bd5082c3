"""A user's conversion raises for one object: it is refused at the door, or named wherever it is met."""

from __future__ import annotations

import json
import logging
from typing import Any, Self

import pytest
from walk_kit import causes, failure, key, made, walk

from oarlock import APIServer, Informer, Invalid, Model, Resource, Spoke, StoredCollection, errors
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GROUP = "walk.example.com"
NEW = f"/apis/{GROUP}/v2/namespaces/default/kites"
OLD = NEW.replace("/v2/", "/v1/")
SIZES = {"small": 1, "large": 2}


class KiteSpec(Model):
    size: int = 1
    colour: str = "red"


class Kite(Resource, group=GROUP, version="v2", selectable=[".spec.size"]):
    """Its size is a number now."""

    spec: KiteSpec


class OldKiteSpec(Model):
    size: str = "small"
    colour: str = "red"


class OldKite(Spoke[Kite], version="v1"):
    spec: OldKiteSpec

    def to_hub(self) -> Kite:
        if self.spec.colour == "black":
            raise errors.BadRequest("there are no black kites any more")
        if self.spec.colour == "white":
            raise Invalid("spec.colour", self.spec.colour, "white kites aren't seen")
        return Kite(metadata=self.metadata, spec=KiteSpec(size=SIZES[self.spec.size], colour=self.spec.colour))

    @classmethod
    def from_hub(cls, hub: Kite) -> Self:
        (size,) = (text for text, number in SIZES.items() if number == hub.spec.size)
        return cls(metadata=hub.metadata, spec=OldKiteSpec(size=size, colour=hub.spec.colour))


class Kites(StoredCollection[Kite]):
    pass


class OldKites(StoredCollection[Kite], stored_as=OldKite):
    pass


def kite(size: Any, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": {"size": size}}


async def kites(
    collection: type, *stored: tuple[str, Any], backend: MemoryBackend | None = None, **settings: Any
) -> InMemory:
    """A server whose store has objects that came there before anybody checked them."""
    clock = VirtualClock()
    backend = backend or MemoryBackend(clock=clock)
    await backend.start()
    for name, size in stored:
        version = "v1" if isinstance(size, str) else "v2"
        tree = {"apiVersion": f"{GROUP}/{version}", "kind": "Kite", **kite(size, name)}
        tree["metadata"] |= {"namespace": "default", "uid": f"uid-{name}"}
        await backend.put(key("kites", "default", name), json.dumps(tree).encode(), expect=0)
    return InMemory(APIServer(serve=[collection, OldKite], **settings), backend=backend, clock=clock)


@walk
async def test_what_no_other_version_could_show_is_refused_at_the_door(caplog: pytest.LogCaptureFixture) -> None:
    async with await kites(OldKites) as api:
        answer = await api.post(OLD, kite("huge"))
        assert failure(answer)[0:2] == (500, "InternalError")
        assert (
            "converting walk.example.com/v1 Kite default/a to v2 failed: code of this server" in answer.json["message"]
        )
        (record,) = [r for r in caplog.records if r.name == "oarlock.registry"]
        assert "walk.example.com/v1 Kite default/a: can't be converted to v2: KeyError: 'huge'" in record.getMessage()
        assert record.exc_info is not None
        assert record.levelno == logging.WARNING
        await made(api, OLD, kite("large"))
        for change in ({"spec": {"size": "huge"}}, {"spec": {"colour": "black"}}):
            assert (await api.patch(OLD + "/a", change)).status in (400, 500)
        assert (await api.get(NEW)).json["items"][0]["spec"]["size"] == 2
    async with await kites(Kites) as api:
        answer = await api.post(NEW, kite(7))
        assert answer.status == 500
        assert "walk.example.com/v2 Kite default/a to v1 failed" in answer.json["message"]
        assert (await api.get(NEW)).json["items"] == []


@walk
async def test_what_a_conversion_refuses_with_an_error_of_ours_is_the_clients_mistake() -> None:
    async with await kites(OldKites) as api:
        black = {"metadata": {"name": "a"}, "spec": {"colour": "black"}}
        assert failure(await api.post(OLD, black))[0:2] == (400, "BadRequest")
        assert failure(await api.post(OLD + "?dryRun=All", black))[0:2] == (400, "BadRequest")
        answer = await api.post(OLD, {"metadata": {"name": "a"}, "spec": {"colour": "white"}})
        assert failure(answer)[0:2] == (422, "Invalid")
        assert causes(answer) == ["spec.colour"]


@walk
async def test_what_is_stored_already_is_named_and_stands_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    async with await kites(OldKites, ("a", "huge"), ("b", "small")) as api:
        for where in (NEW, NEW + "/a", NEW + "?fieldSelector=spec.size=1", NEW.replace("/namespaces/default", "")):
            answer = await api.get(where)
            assert answer.status == 500
            assert "walk.example.com/v1 Kite default/a to v2 failed" in answer.json["message"]
        told = [r for r in caplog.records if "default/a: can't be converted to v2" in r.getMessage() and r.exc_info]
        assert len(told) == 1
        assert [item["metadata"]["name"] for item in (await api.get(OLD)).json["items"]] == ["a", "b"]
        assert (await api.get(NEW + "/b")).json["spec"]["size"] == 1
        async with api.watch(NEW) as events:
            kind, tree = await events.next()
            assert kind == "ERROR"
            assert "Kite default/a" in tree["message"]
        marked = await api.patch(OLD + "/a", {"metadata": {"labels": {"x": "y"}}})
        assert marked.status == 200, marked.json
        assert (await api.patch(NEW + "/a", {"spec": {"size": 2}})).status == 500
        assert (await api.patch(OLD + "/a", {"spec": {"size": "large"}})).status == 200
        assert [item["spec"]["size"] for item in (await api.get(NEW)).json["items"]] == [2, 1]
        selected = (await api.get(NEW + "?fieldSelector=spec.size=2")).json["items"]
        assert [item["metadata"]["name"] for item in selected] == ["a"]


@walk
async def test_informers_leave_it_out(caplog: pytest.LogCaptureFixture) -> None:
    informer = Informer(Kite)
    backend = MemoryBackend(clock=VirtualClock())
    async with await kites(OldKites, ("a", "huge"), ("b", "small"), backend=backend, informers=[informer]):
        for _ in range(3):
            assert [one.metadata.name for one in informer] == ["b"]
        assert informer.get("a", "default") is None
    told = [r for r in caplog.records if "left out of its informer" in r.getMessage()]
    assert len(told) == 1
    assert told[0].getMessage().startswith("Kite default/a: left out of its informer")


@walk
async def test_it_can_be_ended_in_any_version() -> None:
    async with await kites(OldKites, ("a", "huge"), ("b", "huge")) as api:
        assert (await api.patch(OLD + "/a", {"metadata": {"finalizers": ["x.example.com/y"]}})).status == 200
        answer = await api.delete(NEW + "/a")
        assert (answer.status, answer.json["details"]["name"]) == (200, "a")
        assert (await api.get(OLD + "/a")).json["metadata"]["deletionTimestamp"]
        assert (await api.patch(OLD + "/a", {"metadata": {"finalizers": None}})).status == 200
        assert (await api.delete(NEW + "/b")).status == 200
        assert (await api.get(OLD)).json["items"] == []
    async with await kites(OldKites, ("a", "huge"), ("b", "small")) as api:
        answer = await api.delete(NEW)
        assert (answer.status, answer.json["kind"], answer.json["status"]) == (200, "Status", "Success")
        assert (await api.get(OLD)).json["items"] == []


@walk
async def test_nobody_knows_whether_it_is_selected() -> None:
    backend = MemoryBackend(clock=VirtualClock())
    async with await kites(OldKites, ("b", "small"), backend=backend) as api:
        revision = (await api.get(OLD)).json["metadata"]["resourceVersion"]
        tree = {"apiVersion": f"{GROUP}/v1", "kind": "Kite", **kite("huge", namespace="default", uid="u")}
        await backend.put(key("kites", "default", "a"), json.dumps(tree).encode(), expect=0)
        async with api.watch(f"{NEW}?fieldSelector=spec.size=1&resourceVersion={revision}") as events:
            kind, told = await events.next()
            assert kind == "ERROR"
            assert "Kite default/a" in told["message"]
        labelled = NEW + "?labelSelector=a=b"
        assert (await api.get(labelled)).json["items"] == []


@walk
async def test_an_answer_in_another_version_is_made_once() -> None:
    calls: list[str] = []

    class Counted(Spoke[Kite], version="v1"):
        spec: OldKiteSpec

        def to_hub(self) -> Kite:
            calls.append("to")
            return OldKite.to_hub(self)  # type: ignore[arg-type]

        @classmethod
        def from_hub(cls, hub: Kite) -> Self:
            calls.append("from")
            return cls(metadata=hub.metadata, spec=OldKite.from_hub(hub).spec)

    class Here(StoredCollection[Kite], stored_as=Counted):
        pass

    async with InMemory(APIServer(serve=[Here])) as api:
        calls.clear()
        tree = await made(api, NEW, kite(2))
        assert calls == ["from", "to"]
        assert tree["spec"] == {"size": 2, "colour": "red"}
        assert (await api.get(NEW + "/a")).json == tree
        assert calls == ["from", "to"]
        calls.clear()
        await made(api, OLD, kite("large", "b"))
        assert calls == ["to"]
