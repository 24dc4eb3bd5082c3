"""`WatchStream`: one watch of etcd on a stream of its own, read until it breaks; and its messages as events.

A silent stream is asked for a sign of life every second, so that a member that is suspended, or cut off, is left soon.

Must not know: who watches. See also: `feed`, `replay`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from oarlock.storage.backend import Compacted, Event, Op, Rev, StorageError, Unavailable
from oarlock.storage.etcd.client import Endpoint, EtcdClient
from oarlock.storage.etcd.errors import Meaning, as_storage_error, meaning_of
from oarlock.storage.etcd.keys import KeyMap, Span
from oarlock.storage.etcd.messages import DELETE, Message, messages

__all__ = ["WatchStream", "event_of"]

SILENCE_S = 1.0
"""How long a stream may be silent before it is asked for a sign of life."""
SIGN_S = 2.0
"""How long that may take."""

_PING = messages.WatchRequest(progress_request=messages.WatchProgressRequest())


def _serialize(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


class WatchStream:
    """Watches `span` from revision `start` on, at one member. End it with `cancel`."""

    def __init__(self, client: EtcdClient, endpoint: Endpoint, span: Span, start: Rev) -> None:
        self.endpoint = endpoint
        self._client = client
        loop = asyncio.get_running_loop()
        self._time = loop.time
        stub = endpoint.channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=_serialize,
            response_deserializer=messages.WatchResponse.FromString,
        )
        self._call: Any = stub(metadata=client.metadata)
        self._create = messages.WatchRequest(
            create_request=messages.WatchCreateRequest(
                key=span.start, range_end=span.end, start_revision=start, prev_kv=True, fragment=True
            )
        )
        self._created = False
        self._writing = asyncio.Lock()
        self._silent = False
        self._sign = asyncio.Event()
        self._heard = self._time()
        self._pinger = loop.create_task(self._watch_over(), name="etcd: signs of life")

    def cancel(self) -> None:
        self._pinger.cancel()
        self._call.cancel()

    async def ask(self) -> None:
        """Ask for progress: an answer comes, on this stream."""
        try:
            await self._write(_PING)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # `read` tells

    async def _write(self, message: Message) -> None:
        async with self._writing:
            await self._call.write(message)

    async def read(self) -> Message:
        """The next message. Raises `Compacted` (with 0 for the current revision) or `Unavailable`."""
        try:
            if not self._created:
                self._created = True
                await self._write(self._create)
            answer = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise await self._failure(error) from None
        except asyncio.InvalidStateError:
            raise self._broken("the stream has ended") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._silent and not (task is not None and task.cancelling()):
                raise self._broken("no answer in time") from None
            raise
        if answer is grpc.aio.EOF:
            raise self._broken("the stream has ended")
        self._heard = self._time()
        self._sign.set()
        if answer.canceled:
            raise await self._cancelled(answer)
        return answer

    async def _failure(self, error: grpc.aio.AioRpcError) -> StorageError:
        if self._silent:
            return self._broken("no answer in time")
        if meaning_of(error) is Meaning.TOKEN and self._client.address.user:
            await self._client.sign_in()
        else:
            self._client.avoid(self.endpoint)
        failure = as_storage_error(error, self.endpoint.host, write=False)
        return failure if isinstance(failure, Unavailable) else Unavailable(str(failure))

    async def _cancelled(self, answer: Message) -> StorageError:
        if answer.compact_revision:
            return Compacted(answer.compact_revision, 0)
        reason = answer.cancel_reason
        if self._client.address.user and ("permission" in reason or "auth" in reason or not reason):
            await self._client.sign_in()  # with an expired token, 3.4 only says that it is refused
        return self._broken(f"the watch was ended: {reason or 'without a reason'}")

    def _broken(self, why: str) -> Unavailable:
        self._client.avoid(self.endpoint)
        return Unavailable(f"etcd at {self.endpoint.host}: {why}")

    async def _watch_over(self) -> None:
        """End the stream when it stays silent although it was asked."""
        while True:
            silence = self._time() - self._heard
            if silence < SILENCE_S:
                await asyncio.sleep(SILENCE_S - silence)
                continue
            self._sign.clear()
            try:
                async with asyncio.timeout(SIGN_S if self._created else self._client.deadlines.attempt_s):
                    await self.ask()
                    await self._sign.wait()
            except TimeoutError:
                self._silent = True
                self._call.cancel()
                return


def event_of(message: Message, keys: KeyMap, wanted: Callable[[str], bool]) -> Event | None:
    """The event of a message; None if its key isn't `wanted`.

    Raises `Compacted` (with 0 for the current revision) when etcd had forgotten the previous value before it sent this.
    """
    kv = message.kv
    key = keys.decode(kv.key)
    if key is None or not wanted(key):
        return None
    rev, create_rev = kv.mod_revision, kv.create_revision
    if message.type != DELETE and create_rev == rev:
        return Event(rev, Op.CREATE, key, kv.value, create_rev)
    if not message.HasField("prev_kv"):
        raise Compacted(rev, 0)
    before = message.prev_kv
    if message.type == DELETE:
        return Event(rev, Op.DELETE, key, None, before.create_revision, before.mod_revision, before.value)
    return Event(rev, Op.UPDATE, key, kv.value, create_rev, before.mod_revision, before.value)
