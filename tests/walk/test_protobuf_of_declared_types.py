"""Whole objects in protobuf, for types whose fields have numbers: bodies, answers, lists, watches, mistakes."""

from __future__ import annotations

import asyncio
import random
from typing import Annotated, Any, Self

from walk_kit import walk

from oarlock import (
    APIServer,
    Context,
    Ge,
    Model,
    Proto,
    Quantity,
    Resource,
    Scale,
    Spoke,
    StoredCollection,
    subresource,
)
from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import Message, kubernetes_message, meta_message
from oarlock.codec.protobuf_values import MessageField
from oarlock.codec.protowire import fields_in, tagged
from oarlock.endpoints.in_protobuf import message_of
from oarlock.schema.types.views import object_schema
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, Events, InMemory

PROTOBUF = "application/vnd.kubernetes.protobuf"
GROUP = "fly.example.com"


class KiteSpec(Model):
    """What is wanted."""

    colour: Annotated[str, Proto(1)]
    length: Annotated[int, Proto(2), Ge(1)] = 10
    tails: Annotated[list[str], Proto(3)] = []
    line: Annotated[Quantity | None, Proto(4)] = None


class Kite(Resource, group=GROUP, version="v2", status_subresource=True):
    """A kite, its fields numbered."""

    spec: Annotated[KiteSpec, Proto(2)]
    status: Annotated[dict[str, str], Proto(3)] = {}


class OldSpec(Model):
    """What was wanted."""

    color: Annotated[str, Proto(9)] = ""


class OldKite(Spoke[Kite], version="v1"):
    """A kite as it was, its fields numbered otherwise."""

    spec: Annotated[OldSpec, Proto(7)] = OldSpec()

    def to_hub(self) -> Kite:
        return Kite(metadata=self.metadata, spec=KiteSpec(colour=self.spec.color))

    @classmethod
    def from_hub(cls, hub: Kite) -> Self:
        return cls(metadata=hub.metadata, spec=OldSpec(color=hub.spec.colour))


KITES = f"/apis/{GROUP}/v2/namespaces/default/kites"
OLD_KITES = KITES.replace("v2", "v1")


def described(cls: type, kind: str) -> Message:
    message = message_of(object_schema(cls), kind)
    assert message is not None
    return message


KITE, OLD_KITE = described(Kite, "Kite"), described(OldKite, "Kite")


def server() -> InMemory:
    clock = VirtualClock()
    return InMemory(APIServer(serve=[Kite, OldKite]), backend=MemoryBackend(clock=clock), clock=clock)


def kite(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"colour": "red", **spec}}


def body(tree: dict[str, Any], version: str = "v2", message: Message = KITE) -> bytes:
    return protobuf.envelope(f"{GROUP}/{version}", "Kite", message.write(tree))


async def send(api: InMemory, method: str, path: str, data: bytes, accept: str = PROTOBUF) -> Answer:
    return await api.request(method, path, data, {"content-type": PROTOBUF, "accept": accept} if accept else {
        "content-type": PROTOBUF
    })  # fmt: skip


def read(answer: Answer, message: Message = KITE) -> Any:
    assert answer.headers["content-type"] == PROTOBUF, answer
    return protobuf.decode(answer.body, message)


@walk
async def test_written_and_read():
    api = server()
    async with api:
        answer = await send(api, "POST", KITES, body(kite(tails=["x", ""], line="5")))
        assert answer.status == 201
        first = read(answer)
        json = (await api.get(KITES + "/a")).json
        assert first == json
        assert json["spec"] == {"colour": "red", "length": 10, "tails": ["x", ""], "line": "5"}
        assert read(await api.get(KITES + "/a", accept=PROTOBUF)) == json
        first["spec"]["colour"] = "blue"
        put = await send(api, "PUT", KITES + "/a", body(first), accept="")
        assert read(put)["spec"]["colour"] == "blue"
        status = await send(api, "PUT", KITES + "/a/status", body({**read(put), "status": {"b": "2", "a": "1"}}))
        assert read(status)["status"] == {"a": "1", "b": "2"}
        merge = {"content-type": "application/merge-patch+json", "accept": PROTOBUF}
        patched = await api.request("PATCH", KITES + "/a", b'{"spec":{"length":12}}', merge)
        assert read(patched)["spec"]["length"] == 12
        gone = await api.request("DELETE", KITES + "/a", None, {"accept": PROTOBUF})
        assert read(gone, meta_message("Status"))["status"] == "Success"


@walk
async def test_versions_have_numbers_of_their_own():
    api = server()
    async with api:
        made = await send(
            api, "POST", OLD_KITES, body({"metadata": {"name": "a"}, "spec": {"color": "red"}}, "v1", OLD_KITE)
        )
        assert read(made, OLD_KITE) == (await api.get(OLD_KITES + "/a")).json
        assert read(await api.get(KITES + "/a", accept=PROTOBUF))["spec"]["colour"] == "red"
        other = await send(api, "POST", KITES, body(kite("b"), "v1"))
        assert other.status == 400
        assert "does not match the expected API version" in read(other, meta_message("Status"))["message"]


@walk
async def test_lists():
    api = server()
    async with api:
        for n in range(60):
            assert (await api.request("POST", KITES, kite(f"k{n:02}", tails=["t"] * (1 + n % 3)))).status == 201
        for where, message in ((KITES, KITE), (OLD_KITES, OLD_KITE), (KITES + "?limit=7", KITE)):
            listed = Message(
                "List",
                (
                    MessageField("metadata", 1, kubernetes_message("meta.v1.ListMeta")),
                    MessageField("items", 2, message, "list"),
                ),
            )
            tree = read(await api.get(where, accept=PROTOBUF), listed)
            assert tree == (await api.get(where)).json
        both = await api.get(KITES, accept=f"application/json,{PROTOBUF}")
        assert both.json["kind"] == "KiteList"
        table = f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"
        assert (await api.get(KITES, accept=table)).status == 406
        assert (await api.get(KITES, accept=f"{table},{PROTOBUF}")).headers["content-type"] == PROTOBUF


class Frames(Events):
    """A stream that keeps bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@walk
async def test_a_watch():
    api = server()
    async with api:
        await api.request("POST", KITES, kite("a"))
        query = "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
        query += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
        response = await api._send("GET", KITES + query, None, {"accept": PROTOBUF})
        assert ("content-type", f"{PROTOBUF};stream=watch") in response.headers
        stream = Frames()
        assert response.stream is not None
        response.stream(stream)
        made = (await api.request("POST", KITES, kite("b"))).json
        await api.delete(KITES + "/a")
        await asyncio.sleep(100)
        events, data = [], stream.data
        while data:
            size = int.from_bytes(data[:4], "big")
            (_, _, kind), (_, _, raw) = fields_in(data[4 : 4 + size])
            ((_, _, shown),) = fields_in(raw)
            events.append((kind.decode(), protobuf.decode(shown, KITE)))
            data = data[4 + size :]
        assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK", "ADDED", "DELETED", "BOOKMARK"]
        assert events[2][1] == made
        assert events[1][1]["kind"] == "Kite"


@walk
async def test_what_is_wrong_with_a_body():
    api = server()
    async with api:
        good = body(kite())
        for data in (
            b"",
            b"hello",
            good[:-5],
            b"k8s\x00\xff",
            protobuf.envelope(f"{GROUP}/v2", "Kite", b"\x08\x01"),
            protobuf.envelope(f"{GROUP}/v2", "Kite", tagged(2, tagged(1, b"\xff"))),
            protobuf.envelope(f"{GROUP}/v2", "Boat", KITE.write(kite())),
            protobuf.envelope("other/v2", "Kite", KITE.write(kite())),
        ):
            answer = await send(api, "POST", KITES, data)
            assert (answer.status, read(answer, meta_message("Status"))["reason"]) == (400, "BadRequest"), data
        later = protobuf.envelope(f"{GROUP}/v2", "Kite", KITE.write(kite()) + tagged(77, b"x"))
        assert (await send(api, "POST", KITES, later)).status == 201
        invalid = await send(api, "POST", KITES, body(kite("c", length=0)))
        status = read(invalid, meta_message("Status"))
        assert status["code"] == 422
        assert status["details"]["causes"][0]["field"] == "spec.length"
        nameless = await send(api, "POST", KITES, protobuf.envelope("", "", KITE.write(kite("d"))))
        assert nameless.status == 201


@walk
async def test_empty_text_of_an_optional_field_is_nothing():
    """Go writes every field that isn't a pointer."""
    api = server()
    async with api:
        answer = await send(
            api, "POST", OLD_KITES, body({"metadata": {"name": "a"}, "spec": {"color": ""}}, "v1", OLD_KITE)
        )
        assert read(answer, OLD_KITE)["spec"] == {}
        assert (await api.get(OLD_KITES + "/a")).json["spec"] == {"color": ""}  # the default
        metadata = tagged(1, b"a") + tagged(2, b"") + tagged(3, b"") + b"\x38\x00" + tagged(8, b"")
        data = protobuf.envelope(
            f"{GROUP}/v2", "Kite", tagged(1, metadata.replace(b"a", b"e")) + KITE.write({"spec": {"colour": "red"}})
        )
        made = await send(api, "POST", KITES, data)
        assert made.status == 201
        assert read(made)["metadata"]["creationTimestamp"]


@walk
async def test_damaged_bodies_are_read_or_refused():
    api, chance = server(), random.Random(7)
    async with api:
        good = body(kite(tails=["x", "y"], line="5m"))
        for n in range(400):
            data = bytearray(good)
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            answer = await send(api, "POST", KITES, bytes(data[: chance.randint(1, len(data))] if n % 3 == 0 else data))
            assert answer.status in (201, 400, 409, 415, 422), (bytes(data), answer)


@walk
async def test_a_scale_in_protobuf():
    class FleetSpec(Model):
        """How many."""

        kites: int = 1

    class Fleet(Resource, group=GROUP, version="v1", scale=Scale(".spec.kites", ".spec.kites")):
        """Many kites."""

        spec: FleetSpec = FleetSpec()

    scale = kubernetes_message("autoscaling.v1.Scale")
    clock = VirtualClock()
    api = InMemory(APIServer(serve=[Fleet]), backend=MemoryBackend(clock=clock), clock=clock)
    where = f"/apis/{GROUP}/v1/namespaces/default/fleets"
    async with api:
        await api.request("POST", where, {"metadata": {"name": "a"}, "spec": {"kites": 3}})
        tree = read(await api.get(where + "/a/scale", accept=f"{PROTOBUF},application/json"), scale)
        assert tree == (await api.get(where + "/a/scale")).json
        assert tree["spec"] == {"replicas": 3}
        tree["spec"]["replicas"] = 5
        put = await send(
            api, "PUT", where + "/a/scale", protobuf.envelope("autoscaling/v1", "Scale", scale.write(tree))
        )
        assert read(put, scale)["spec"] == {"replicas": 5}
        assert (await api.get(where + "/a")).json["spec"] == {"kites": 5}


class Pull(Resource, group=GROUP, version="v1"):
    """How the line is pulled, its fields numbered."""

    metres: Annotated[int, Proto(2), Ge(1)] = 1
    note: Annotated[str | None, Proto(3)] = None


class Wind(Resource, group=GROUP, version="v1"):
    """What blows, without numbers."""

    knots: int = 0


class Kites(StoredCollection[Kite]):
    """Kites on a line."""

    @subresource("pull")
    async def _pull(self, name: str, body: Pull, ctx: Context) -> Pull:
        body.note = f"{name} pulled"
        return body

    @subresource("tear", method="PUT")
    async def _tear(self, parent: Kite, body: Pull, ctx: Context) -> Kite:
        parent.spec.length -= body.metres
        return parent

    @subresource("blow")
    async def _blow(self, body: Wind, ctx: Context) -> Wind:
        return body

    @subresource("calm", method="GET")
    async def _calm(self, ctx: Context) -> Pull:
        return Pull(metres=3)


PULL = described(Pull, "Pull")


def line() -> InMemory:
    clock = VirtualClock()
    return InMemory(APIServer(serve=[Kites, OldKite]), backend=MemoryBackend(clock=clock), clock=clock)


@walk
async def test_subresources_of_users():
    api = line()
    async with api:
        assert (await api.request("POST", KITES, kite())).status == 201
        pull = protobuf.envelope(f"{GROUP}/v1", "Pull", PULL.write({"metres": 4}))
        answer = await send(api, "POST", KITES + "/a/pull", pull, accept="")
        assert answer.status == 201
        assert read(answer, PULL) == (await api.post(KITES + "/a/pull", {"metres": 4})).json
        torn = await send(api, "PUT", KITES + "/a/tear", pull)
        assert read(torn)["spec"]["length"] == 6
        old = await send(api, "PUT", OLD_KITES + "/a/tear", pull)
        assert read(old, OLD_KITE)["spec"] == {"color": "red"}
        assert read(await api.get(KITES + "/a/calm", accept=PROTOBUF), PULL)["metres"] == 3
        for data in (b"", b"hello", b"k8s\x00\xff", pull[:-5]):
            wrong = await send(api, "POST", KITES + "/a/pull", data)
            assert wrong.status == (201 if not data else 400), data
        invalid = protobuf.envelope(f"{GROUP}/v1", "Pull", PULL.write({"metres": 0}))
        status = read(await send(api, "POST", KITES + "/a/pull", invalid), meta_message("Status"))
        assert (status["code"], status["details"]["causes"][0]["field"]) == (422, "metres")
        other = protobuf.envelope(f"{GROUP}/v1", "Push", b"")
        assert (await send(api, "POST", KITES + "/a/pull", other)).status == 400
        blown = await send(api, "POST", KITES + "/a/blow", protobuf.envelope(f"{GROUP}/v1", "Wind", b""), accept="")
        assert blown.status == 415
        assert (await api.post(KITES + "/a/blow", {"knots": 3}, accept=PROTOBUF)).status == 406
        both = await api.post(KITES + "/a/blow", {"knots": 3}, accept=f"{PROTOBUF},application/json")
        assert both.json["knots"] == 3


@walk
async def test_the_documents_say_what_can_be_had_in_protobuf():
    """As Kubernetes' own: after JSON and YAML, for a watch with ``;stream=watch``."""
    api = line()
    async with api:
        v2: Any = (await api.get("/openapi/v2")).json["paths"]
        v3: Any = (await api.get(f"/openapi/v3/apis/{GROUP}/v2")).json["paths"]
        root = f"/apis/{GROUP}/v2/namespaces/{{namespace}}/kites"
        one = f"{root}/{{name}}"
        numbered = ["application/json", "application/yaml", PROTOBUF, "application/cbor"]
        without = [media for media in numbered if media != PROTOBUF]
        streams = ["application/json;stream=watch", f"{PROTOBUF};stream=watch", "application/cbor-seq"]
        for where, method, takes, gives in (
            (root, "get", None, [*numbered, *streams]),
            (root, "post", numbered, numbered),
            (root, "delete", numbered, numbered),
            (one, "get", None, numbered),
            (one, "put", numbered, numbered),
            (one, "patch", None, numbered),
            (one, "delete", numbered, numbered),
            (f"{one}/status", "put", numbered, numbered),
            (f"{one}/pull", "post", numbered, numbered),
            (f"{one}/tear", "put", numbered, numbered),
            (f"{one}/blow", "post", without, without),
        ):
            assert list(v3[where][method]["responses"]["200"]["content"]) == gives, (where, method)
            assert v2[where][method]["produces"] == gives
            if takes is not None:
                assert list(v3[where][method]["requestBody"]["content"]) == takes, (where, method)
                assert v2[where][method]["consumes"] == takes


@walk
async def test_the_documents_of_a_type_without_numbers():
    clock = VirtualClock()
    api = InMemory(APIServer(serve=[Wind]), backend=MemoryBackend(clock=clock), clock=clock)
    async with api:
        paths: Any = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json["paths"]
        root = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/winds"
        assert not any(PROTOBUF in media for media in paths[root]["get"]["responses"]["200"]["content"])
        assert PROTOBUF not in paths[root]["post"]["requestBody"]["content"]
        assert PROTOBUF in paths[f"{root}/{{name}}"]["delete"]["requestBody"]["content"]  # DeleteOptions have numbers
        assert PROTOBUF in paths[f"/apis/{GROUP}/v1/"]["get"]["responses"]["200"]["content"]
