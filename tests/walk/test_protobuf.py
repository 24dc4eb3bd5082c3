"""Protobuf over HTTP: metadata, errors, discovery, and what a type without field numbers answers."""

from __future__ import annotations

import asyncio
from typing import Any

from walk_kit import BOATS, BOATS_V1, boat, fleet, made, walk

from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import meta_message
from oarlock.codec.protowire import fields_in
from oarlock.testing.server import Answer, Events

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"


def form(kind: str, media: str = PROTOBUF) -> str:
    return f"{media};as={kind};v=v1;g=meta.k8s.io"


ONE, MANY = form("PartialObjectMetadata"), form("PartialObjectMetadataList")


def read(answer: Answer, media: str = PROTOBUF) -> Any:
    assert answer.headers["content-type"] == media, answer
    return opened(answer.body)


def opened(data: bytes) -> Any:
    return protobuf.decode(data, meta_message(protobuf.opened(data)[0]["kind"]))


@walk
async def test_metadata_of_one_and_of_many():
    api, _ = fleet()
    async with api:
        for n in range(60):
            await made(api, BOATS, boat(f"b{n:02}"))
        for where in (BOATS + "/b07", BOATS_V1 + "/b07"):
            json = (await api.get(where, accept=form("PartialObjectMetadata", JSON))).json
            assert read(await api.get(where, accept=ONE)) == json
        for where in (BOATS, BOATS_V1, BOATS + "?limit=7"):
            json = (await api.get(where, accept=form("PartialObjectMetadataList", JSON))).json
            for item in json["items"]:
                del item["kind"], item["apiVersion"]  # the list says them
            assert read(await api.get(where, accept=MANY)) == json
        wrong = await api.get(BOATS, accept=ONE)
        assert wrong.status == 406
        assert "the requested object is a list" in wrong.json["message"]
        patched = await api.request(
            "PATCH", BOATS + "/b07", b'{"metadata":{"labels":{"a":"b"}}}',
            {"content-type": "application/merge-patch+json", "accept": ONE},
        )  # fmt: skip
        assert read(patched)["metadata"]["labels"] == {"a": "b"}


@walk
async def test_a_type_without_field_numbers_is_json_or_nothing():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        for where in (BOATS, BOATS + "/a"):
            both = await api.get(where, accept=f"{PROTOBUF},{JSON}")
            assert both.json == (await api.get(where)).json
            alone = await api.get(where, accept=PROTOBUF)
            assert (alone.status, read(alone)["reason"]) == (406, "NotAcceptable")
            table = await api.get(where, accept=form("Table"))
            assert (table.status, table.headers["content-type"]) == (406, JSON)
            table = await api.get(where, accept=f"{form('Table')},{form('Table', JSON)}")
            assert table.json["kind"] == "Table"
        body = protobuf.envelope("walk.example.com/v2", "Boat", b"")
        posted = await api.request("POST", BOATS, body, {"content-type": PROTOBUF})
        assert posted.status == 415
        watched = await api.get(BOATS + "?watch=1", accept=f"{PROTOBUF};stream=watch")
        assert watched.status == 406


@walk
async def test_errors_for_clients_that_read_nothing_else():
    api, _ = fleet()
    async with api:
        missing = await api.get(BOATS + "/zz", accept=ONE)
        assert missing.json["code"] == 404  # nothing was said of a Status
        missing = await api.get(BOATS + "/zz", accept=f"{ONE},{PROTOBUF}")
        assert read(missing) == (await api.get(BOATS + "/zz")).json
        garbage = await api.request("POST", BOATS, b"hello", {"content-type": PROTOBUF, "accept": PROTOBUF})
        assert garbage.status == 406
        await made(api, BOATS, boat("a"))
        gone = await api.request("DELETE", BOATS + "/a", None, {"accept": f"{ONE},{JSON}"})
        assert read(gone)["status"] == "Success"


@walk
async def test_discovery():
    api, _ = fleet()
    async with api:
        for where in ("/apis", "/apis/walk.example.com", "/apis/walk.example.com/v2"):
            json = (await api.get(where)).json
            assert read(await api.get(where, accept=PROTOBUF)) == {"apiVersion": "v1", **json}
        asked = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        json = (await api.get("/apis", accept=f"{JSON};{asked}")).json
        answer = await api.get("/apis", accept=f"{PROTOBUF};{asked},{JSON}")
        assert read(answer, f"{PROTOBUF};{asked}") == json
        assert answer.headers["etag"]
        assert (await api.get("/apis", accept=f"{JSON},{PROTOBUF}")).json["kind"] == "APIGroupList"


class Frames(Events):
    """A stream that keeps bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    @property
    def events(self) -> list[tuple[str, Any]]:
        events, data = [], self.data
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            (_, _, kind), (_, _, raw) = fields_in(frame)
            ((_, _, shown),) = fields_in(raw)
            events.append((kind.decode(), opened(shown)))
        return events


@walk
async def test_a_metadata_watch():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        query = BOATS + "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
        query += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
        response = await api._send("GET", query, None, {"accept": f"{ONE},{JSON}"})
        assert ("content-type", f"{PROTOBUF};stream=watch") in response.headers
        stream = Frames()
        assert response.stream is not None
        response.stream(stream)
        made_now = await made(api, BOATS, boat("b"))
        await api.delete(BOATS + "/a")
        await asyncio.sleep(100)
        assert [kind for kind, _ in stream.events] == ["ADDED", "BOOKMARK", "ADDED", "DELETED", "BOOKMARK"]
        assert stream.events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert stream.events[2][1]["metadata"] == made_now["metadata"]
        assert stream.closed
        refused = await api.get(BOATS + "?watch=1&resourceVersion=x", accept=f"{ONE},{PROTOBUF}")
        assert read(refused)["reason"] == "BadRequest"
