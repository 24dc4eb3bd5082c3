"""Events of the past for a watch that begins before the position of the feed.

A watch of etcd over all keys, as the feed's, read until the last event that the feed knows of has come: so it is
certain, with any version of etcd, that nothing is missing. Only events of the watch's range are made.

See also: `feed`, which delivers what comes later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oarlock.storage.backend import Compacted, Op, Rev, StorageError, StoreEvent, Unavailable
from oarlock.storage.etcd.client import Endpoint, EtcdClient, Meaning, as_storage_error, meaning_of
from oarlock.storage.etcd.keys import KeyMap, Span
from oarlock.storage.etcd.messages import DELETE, Message, messages
from oarlock.storage.grpc.calls import GrpcCode, GrpcError, GrpcStream
from oarlock.storage.watchers import RangeWatch

__all__ = ["WatchStream", "event_of", "replay"]

SILENCE_S = 1.0
"""How long a stream may be silent before it is asked for a sign of life."""
SIGN_S = 2.0
"""How long that may take."""

_WATCH = "/etcdserverpb.Watch/Watch"
_PING: bytes = messages.WatchRequest(progress_request=messages.WatchProgressRequest()).SerializeToString()


class WatchStream:
    """Watches `span` from revision `start` on, at one member. End it with `cancel`."""

    def __init__(self, client: EtcdClient, endpoint: Endpoint, span: Span, start: Rev) -> None:
        self.endpoint = endpoint
        self._client = client
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._stream: GrpcStream | None = None
        create = messages.WatchCreateRequest(
            key=span.start, range_end=span.end, start_revision=start, prev_kv=True, fragment=True
        )
        self._create: bytes = messages.WatchRequest(create_request=create).SerializeToString()
        self._silent = False
        self._sign = asyncio.Event()
        self._heard = self._time()
        self._pinger = loop.create_task(self._watch_over(), name="etcd: signs of life")

    def cancel(self) -> None:
        self._pinger.cancel()
        if self._stream is not None:
            self._stream.close()

    def ask(self) -> None:
        """Ask for progress: an answer comes, on this stream."""
        if self._stream is not None:
            self._stream.write(_PING)  # if it has ended, `read` tells

    async def read(self) -> Message:
        """The next message. Raises `Compacted` (with 0 for the current revision) or `Unavailable`."""
        client = self._client
        try:
            if self._stream is None:
                timeout_s = client.deadlines.attempt_s
                stream = await self.endpoint.channel.stream(_WATCH, timeout_s=timeout_s, metadata=client.metadata)
                stream.write(self._create)
                self._stream = stream
            data = await self._stream.read()
        except GrpcError as error:
            raise await self._failure(error) from None
        if data is None:
            raise self._broken("the stream has ended")
        answer: Message = messages.WatchResponse.FromString(data)
        self._heard = self._time()
        self._sign.set()
        if answer.canceled:
            raise await self._cancelled(answer)
        return answer

    async def _failure(self, error: GrpcError) -> StorageError:
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
                async with asyncio.timeout(self._client.deadlines.attempt_s if self._stream is None else SIGN_S):
                    self.ask()
                    await self._sign.wait()
            except TimeoutError:
                self._silent = True
                if self._stream is not None:
                    self._stream.cancel(GrpcError(GrpcCode.DEADLINE_EXCEEDED, "no answer in time"))
                return


def event_of(message: Message, keys: KeyMap, wanted: Callable[[str], bool]) -> StoreEvent | None:
    """The event of a message; None if its key isn't `wanted`.

    Raises `Compacted` (with 0 for the current revision) when etcd had forgotten the previous value before it sent this.
    """
    kv = message.kv
    key = keys.decode(kv.key)
    if key is None or not wanted(key):
        return None
    rev, create_rev = kv.mod_revision, kv.create_revision
    if message.type != DELETE and create_rev == rev:
        return StoreEvent(rev, Op.CREATE, key, kv.value, create_rev)
    if not message.HasField("prev_kv"):
        raise Compacted(rev, 0)
    before = message.prev_kv
    if message.type == DELETE:
        return StoreEvent(rev, Op.DELETE, key, None, before.create_revision, before.mod_revision, before.value)
    return StoreEvent(rev, Op.UPDATE, key, kv.value, create_rev, before.mod_revision, before.value)


REPLAY_S = 60.0
"""How long it may take: what is new is buffered meanwhile."""
ATTEMPTS = 5


async def replay(client: EtcdClient, keys: KeyMap, watch: RangeWatch, until: Rev, current_rev: Rev) -> None:
    """Deliver to `watch`, which holds new events back, those after its position up to `until`; then release it.

    If that fails, the watch fails.
    """
    try:
        async with asyncio.timeout(REPLAY_S):
            for attempt in range(ATTEMPTS):
                try:
                    await _read(client, keys, watch, until)
                    break
                except Compacted as error:
                    raise Compacted(error.compact_rev, max(current_rev, error.compact_rev)) from None
                except Unavailable:
                    if attempt == ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(0.1 * attempt)
        watch.release()
    except TimeoutError:
        watch.fail(Unavailable(f"etcd didn't replay the history within {REPLAY_S:g} s"))
    except StorageError as error:
        watch.fail(error)


async def _read(client: EtcdClient, keys: KeyMap, watch: RangeWatch, until: Rev) -> None:
    start, end = watch.start, watch.end
    position = watch.last
    if position >= until:
        return

    def wanted(key: str) -> bool:
        return start <= key < end

    # From the position itself: at the next revision, etcd doesn't notice that this one is compacted.
    stream = WatchStream(client, client.choose(), keys.all, max(position, 1))
    try:
        held: list[StoreEvent] = []
        while not watch.closed and position < until:
            answer = await stream.read()
            for piece in answer.events:
                rev = piece.kv.mod_revision
                if rev > watch.last:
                    event = event_of(piece, keys, wanted)
                    if event is not None:
                        held.append(event)
                position = max(position, rev)
            if not answer.fragment and answer.events:
                ready, held = held, []
            else:
                ready = [event for event in held if event.rev < position]
                held = held[len(ready) :]
            if ready:
                watch.send(ready, ready[-1].rev, past=True)
    finally:
        stream.cancel()
