"""CBOR over HTTP: bodies, answers, errors and watches."""

from __future__ import annotations

import asyncio
from typing import Any

import cbor2
import pytest
from walk_kit import BOATS, BOATS_V1, boat, fleet, made, walk

from oarlock.codec import cbor
from oarlock.testing.server import Answer, Events, InMemory

CBOR = "application/cbor"
TABLE = f"{CBOR};as=Table;v=v1;g=meta.k8s.io"


def read(answer: Answer) -> Any:
    assert answer.headers["content-type"] == CBOR, answer
    assert answer.body.startswith(cbor.SELF_DESCRIBED)
    return cbor.decode(answer.body)


async def send(api: InMemory, method: str, path: str, tree: Any, **headers: str) -> Answer:
    return await api.request(method, path, cbor.encode(tree), {"content-type": CBOR, **headers})


@walk
async def test_a_client_that_sends_cbor_gets_cbor_back():
    api, _ = fleet()
    async with api:
        answer = await send(api, "POST", BOATS, boat(tags=["a"]))
        assert answer.status == 201
        first = read(answer)
        assert first == (await api.get(BOATS + "/a")).json
        put = await send(api, "PUT", BOATS + "/a", {**first, "spec": {**first["spec"], "port": "y"}}, accept=CBOR)
        assert read(put)["spec"]["port"] == "y"
        plain = await send(api, "PUT", BOATS + "/a", read(put), accept="application/json")
        assert plain.json["spec"]["port"] == "y"
        poured = await send(api, "POST", BOATS + "/a/pour", {"litres": 2})
        assert read(poured)["into"] == "a at y"
        gone = await send(api, "DELETE", BOATS + "/a", {"kind": "DeleteOptions", "apiVersion": "v1"})
        assert read(gone)["status"] == "Success"


@walk
async def test_go_writes_text_as_bytes():
    api, _ = fleet()
    async with api:
        body = {b"metadata": {b"name": b"a"}, b"spec": {b"port": b"x", b"tags": [b"t"]}}
        answer = await api.request("POST", BOATS, cbor2.dumps(body), {"content-type": CBOR})
        assert answer.status == 201
        assert read(answer)["spec"]["tags"] == ["t"]


@walk
async def test_objects_lists_tables_and_metadata():
    api, _ = fleet()
    async with api:
        for n in range(60):
            await made(api, BOATS, boat(f"b{n:02}"))
        for where in (BOATS, BOATS_V1, BOATS + "/b07", BOATS + "?limit=7", BOATS + "?limit=0&labelSelector=a=b"):
            assert read(await api.get(where, accept=CBOR)) == (await api.get(where)).json
        for form in ("Table", "PartialObjectMetadataList"):
            wanted = TABLE.replace("Table", form)
            json = (await api.get(BOATS, accept=wanted.replace(CBOR, "application/json"))).json
            assert read(await api.get(BOATS, accept=wanted)) == json
        fallback = await api.get(BOATS, accept=f"{CBOR};as=Nothing, application/json")
        assert fallback.headers["content-type"] == "application/json"
        assert (await api.get("/apis", accept=CBOR)).status == 406


@walk
async def test_errors_are_cbor_for_those_who_accept_it_and_json_for_those_who_only_send_it():
    api, _ = fleet()
    async with api:
        missing = await api.get(BOATS + "/zz", accept=CBOR)
        assert (missing.status, read(missing)["reason"]) == (404, "NotFound")
        for data in (
            b"",
            b"\xff",
            b"\x80",
            cbor.encode([1]),
            cbor.encode(7),
            b"\xa1" * 500,
            b"{}",
            cbor2.dumps({1: 2}),
        ):
            answer = await api.request("POST", BOATS, data, {"content-type": CBOR, "accept": CBOR})
            assert (answer.status, read(answer)["reason"]) == (400, "BadRequest"), data
        twice = bytes.fromhex("a2" + "686d65746164617461a0" * 2)
        answer = await api.request("POST", BOATS, twice, {"content-type": CBOR, "accept": CBOR})
        assert "cbor parse error: cbor: error decoding map: Duplicate map key: 'metadata'" in read(answer)["message"]
        wrong = await send(api, "POST", BOATS, boat(crew="many"))
        assert (wrong.status, wrong.json["reason"]) == (400, "BadRequest")
        strict = await send(api, "POST", BOATS + "?fieldValidation=Strict", boat(nope=1))
        assert 'unknown field "spec.nope"' in strict.json["message"]
        seq = await api.request("POST", BOATS, cbor.encode(boat()), {"content-type": "application/cbor-seq"})
        assert seq.status == 415


@walk
async def test_applies():
    api, _ = fleet()
    async with api:
        config = {**boat(tags=["t"]), "apiVersion": "walk.example.com/v2", "kind": "Boat"}
        apply = {"content-type": "application/apply-patch+cbor", "accept": CBOR}
        where = BOATS + "/a?fieldManager=m&fieldValidation=Strict"
        answer = await api.request("PATCH", where, cbor.encode(config), apply)
        assert answer.status == 201
        assert read(answer)["metadata"]["managedFields"][0]["operation"] == "Apply"
        for data in (b"", b"{}", b"\xff", cbor.encode([]), cbor.encode({"metadata": 1}), cbor.encode({})):
            answer = await api.request("PATCH", where, data, apply)
            assert (answer.status, read(answer)["reason"]) == (400, "BadRequest"), data
        unknown = await api.request("PATCH", where, cbor.encode({**config, "nope": 1}), apply)
        assert ".nope: field not declared in schema" in read(unknown)["message"]
        crates = await api.request("PATCH", BOATS + "/a", b"", {"content-type": "application/merge-patch+cbor"})
        assert crates.status == 415


class Items(Events):
    """A stream that keeps bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


@pytest.mark.slow
@walk
async def test_a_watch_is_a_sequence():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        query = BOATS + "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
        query += "&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
        response = await api._send("GET", query, None, {"accept": CBOR})
        assert ("content-type", "application/cbor-seq") in response.headers
        stream, tables = Items(), Items()
        assert response.stream is not None
        response.stream(stream)
        shown = await api._send("GET", BOATS + "?watch=1&timeoutSeconds=60", None, {"accept": TABLE})
        assert shown.stream is not None
        shown.stream(tables)
        made_now = await made(api, BOATS, boat("b"))
        await api.delete(BOATS + "/a")
        await asyncio.sleep(100)
        events = sequence(stream.data)
        assert [e["type"] for e in events] == ["ADDED", "BOOKMARK", "ADDED", "DELETED", "BOOKMARK"]
        assert events[2]["object"] == made_now
        assert stream.data.count(cbor.SELF_DESCRIBED) == 5
        assert sequence(tables.data)[-1]["object"]["kind"] == "Table"
        assert stream.closed


@walk
async def test_a_watch_that_fails_says_so():
    api, _ = fleet()
    async with api:
        refused = await api.get(BOATS + "?watch=1&resourceVersion=x", accept=CBOR)
        assert read(refused)["reason"] == "BadRequest"


def sequence(data: bytes) -> list[Any]:
    events = []
    while data:
        event = cbor2.loads(data)
        events.append(cbor.decode(cbor2.dumps(event)))
        data = data[len(cbor.encode(events[-1])) :]
    return events
