"""A server's API as a `Backend`, so that whoever tests stores can test servers on stores, and be told by them.

    /t/a  ↔  /apis/wardle.example.com/v1alpha1/namespaces/default/flunders/a

The value is a label of the object. Only what clients do is there: put, delete, get, list, watch. `StoredObjects` shows
the same keys and values, read straight from the store.

Must not know: how the server stores anything. See also: `server_process`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Backend,
    Batch,
    Caps,
    Compacted,
    Deliver,
    Failed,
    Op,
    OutcomeUnknown,
    Page,
    Rev,
    StorageError,
    StoreEvent,
    Unavailable,
    Watch,
    WriteResult,
)
from oarlock.testing.contracts.support import END, START

__all__ = ["ApiStore", "StoredObjects", "bare"]

API_VERSION = "wardle.example.com/v1alpha1"
PATH = f"/apis/{API_VERSION}/namespaces/default/flunders"
STORED = "/registry/wardle.example.com/flunders/default/"
LABEL = "told"
ANSWER_S = 30.0
"""How long an answer may take: longer than any deadline of the server."""

_OPS = {"ADDED": Op.CREATE, "MODIFIED": Op.UPDATE, "DELETED": Op.DELETE}


class ApiStore:
    """The flunders of the server at `url`. Connections are made anew whenever they break."""

    caps = Caps(durable=True, max_value=60)

    def __init__(self, url: str, token: str, tls: ssl.SSLContext) -> None:
        self._url = url
        self._token = token
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None
        self._continues: dict[tuple[Rev, str], str] = {}
        self._watches: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            self._url,
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=ANSWER_S),
        )
        # It would send PUT and DELETE again when a connection is lost, and tell only what became of the second.
        self._session._retry_connection = False

    async def close(self) -> None:
        for task in tuple(self._watches):
            task.cancel()
        if self._watches:
            await asyncio.wait(self._watches)
        if self._session is not None:
            await self._session.close()

    def known_rev(self) -> None:
        return None

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        name = key.removeprefix(START)
        metadata = {"name": name, "labels": {LABEL: value.decode()}}
        if expect:
            metadata["resourceVersion"] = str(expect)
        flunder = {"apiVersion": API_VERSION, "kind": "Flunder", "metadata": metadata}
        while True:
            method, path = ("PUT", f"{PATH}/{name}") if expect else ("POST", PATH)
            status, answer = await self._write(method, path, flunder)
            result = await self._result(key, status, answer)
            # The object that was in the way may have been deleted before it was looked at.
            if result.ok or expect or result.current:
                return result

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": str(expect)}}
        status, answer = await self._write("DELETE", f"{PATH}/{key.removeprefix(START)}", options)
        return await self._result(key, status, answer)

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        status, answer = await self._read(f"{PATH}/{key.removeprefix(START)}", {})
        return (None if status == 404 else _kv(answer)), 0

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        query = {"limit": str(limit)} if limit else {}
        if start != START:
            query["continue"] = self._continues[rev, start]
        _, answer = await self._read(PATH, query)
        kvs = [_kv(item) for item in answer["items"]]
        metadata = answer["metadata"]
        rev = int(metadata["resourceVersion"])
        token = metadata.get("continue", "")
        if token:
            self._continues[rev, kvs[-1].key + "\0"] = token
        return Page(kvs, rev, more=bool(token), count=metadata.get("remainingItemCount", 0))

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        query = {"watch": "true", "resourceVersion": str(after), "allowWatchBookmarks": "true"}
        task = asyncio.create_task(self._follow(query, after, deliver, failed))
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return _ApiWatch(task)

    async def request_progress(self) -> None:
        """Nothing: a client of the API can't ask for it."""

    # Requests

    async def _write(self, method: str, path: str, body: object) -> tuple[int, Any]:
        try:
            status, answer = await self._request(method, path, {}, body)
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(f"not connected: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise OutcomeUnknown(f"the answer is lost: {error!r}") from error
        if status in (500, 504):
            raise OutcomeUnknown(answer["message"])
        return status, _possible(status, answer)

    async def _read(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        try:
            status, answer = await self._request("GET", path, query)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"the answer is lost: {error!r}") from error
        if status in (500, 504):
            raise Unavailable(answer["message"])
        return status, _possible(status, answer)

    async def _request(self, method: str, path: str, query: dict[str, str], body: object = None) -> tuple[int, Any]:
        assert self._session is not None
        async with self._session.request(method, path, params=query, json=body) as answer:
            return answer.status, await answer.json()

    async def _result(self, key: str, status: int, answer: Any) -> WriteResult:
        if status in (200, 201):
            metadata = answer.get("metadata", {})
            rev = int(metadata.get("resourceVersion") or 0)
            return WriteResult(True, rev)
        assert status in (404, 409), answer
        current, _ = await self.get(key)
        return WriteResult(False, 0, current)

    async def _follow(self, query: dict[str, str], after: Rev, deliver: Deliver, failed: Failed) -> None:
        assert self._session is not None
        rev = after
        try:
            forever = aiohttp.ClientTimeout(total=None, sock_read=None)
            async with self._session.get(PATH, params=query, timeout=forever) as stream:
                if stream.status != 200:
                    raise _error(stream.status, await stream.json())
                async for line in _lines(stream.content):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"]["code"], event["object"])
                    rev = int(event["object"]["metadata"]["resourceVersion"])
                    deliver(Batch(() if event["type"] == "BOOKMARK" else (_event(event),), rev))
            failed(Unavailable("the server ended the watch"))
        except StorageError as error:
            failed(error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            failed(Unavailable(f"the watch broke: {error!r}"))


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    buffer = b""
    async for chunk in content.iter_any():
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            yield line
    if buffer:
        raise aiohttp.ClientPayloadError("the last event is cut off")


class _ApiWatch:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def close(self) -> None:
        self._task.cancel()


def _possible(status: int, answer: Any) -> Any:
    if status in (410, 429, 503):
        raise _error(status, answer)
    assert status in (200, 201, 404, 409), answer
    return answer


def _error(status: int, answer: Any) -> StorageError:
    if status == 410:
        return Compacted(0, 0)
    assert status in (429, 500, 503, 504), answer
    return Unavailable(answer["message"])


def _kv(flunder: Any) -> KV:
    metadata = flunder["metadata"]
    value = metadata["labels"][LABEL].encode()
    return KV(START + metadata["name"], value, int(metadata["resourceVersion"]), 0)


def _event(event: Any) -> StoreEvent:
    kv = _kv(event["object"])
    op = _OPS[event["type"]]
    return StoreEvent(kv.mod_rev, op, kv.key, None if op is Op.DELETE else kv.value, 0)


def bare(event: StoreEvent) -> StoreEvent:
    """What the API shows of an event of the store."""
    return event._replace(create_rev=0, prev_rev=0, prev_value=None)


class StoredObjects:
    """The flunders that `backend` has, under the keys and with the values that `ApiStore` shows."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    async def epoch(self) -> str:
        return await self.backend.epoch()

    async def current_rev(self) -> Rev:
        return await self.backend.current_rev()

    async def request_progress(self) -> None:
        await self.backend.request_progress()

    async def compact(self, rev: Rev) -> None:
        await self.backend.compact(rev)

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        assert (start, end) == (START, END)
        page = await self.backend.list(STORED, STORED[:-1] + "0", rev=rev, limit=limit)
        kvs = [kv._replace(key=_short(kv.key), value=_told(kv.value)) for kv in page.kvs]
        return Page(kvs, page.rev, page.more, page.count)

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        assert (start, end) == (START, END)
        return await self.backend.watch(
            STORED,
            STORED[:-1] + "0",
            after=after,
            deliver=lambda batch: deliver(Batch(tuple([_shown(event) for event in batch.events]), batch.rev)),
            failed=failed,
        )


def _short(key: str) -> str:
    return START + key.removeprefix(STORED)


def _told(value: bytes) -> bytes:
    label: str = json.loads(value)["metadata"]["labels"][LABEL]
    return label.encode()


def _shown(event: StoreEvent) -> StoreEvent:
    value, previous = event.value, event.prev_value
    return event._replace(
        key=_short(event.key),
        value=None if value is None else _told(value),
        prev_value=None if previous is None else _told(previous),
    )
