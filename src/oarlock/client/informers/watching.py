"""A watch that goes on by itself: it resumes at the last revision it has seen, after the initial events.

Source: the API conventions' section on efficient detection of changes; client-go ``tools/cache/reflector.go``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import metadata_of
from oarlock.client.requests import error_of_tree
from oarlock.client.transport import ClientResponse, Transport, TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Expired, StatusError
from oarlock.meta.options_parse import QueryPairs

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""How long one event may be: an object of 3 MiB with its managed fields fits."""

T = TypeVar("T")


class WatchingClient(Protocol):
    """What an informer needs of a `Client`."""

    @property
    def transport(self) -> Transport:
        """The way to the server."""
        ...

    async def ref(self, kind: Any) -> ResourceRef:
        """Where the objects of a kind are. Raises NotFound."""
        ...

    async def open(self, path: str, query: QueryPairs, *, streams: bool = False, accept: str = "") -> ClientResponse:
        """A GET, or with `streams` a watch; `accept` is which form is wanted. Raises StatusError, TransportError."""
        ...

    async def pause(self, failures: int) -> None:
        """Wait, longer with each failure in a row; not at all without one."""
        ...


class BeginningEvents(Protocol):
    """What a watch begins with, as far as it has come; see `initial_events`."""

    ended: bool
    version: str

    def begin(self) -> None:
        """A watch has been opened."""
        ...

    def taken(self, batch: list[Received]) -> list[Received]:
        """What of the events is passed on."""
        ...


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change of an object: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK`` with a resourceVersion only."""

    type: str
    object: T
    resource_version: str


class Received(NamedTuple):
    """An event as it came: its type, its object as whoever reads the line wants it, the object's revision."""

    type: str
    object: Any
    version: str


def tree_event(line: bytes) -> Received:
    """One line of a watch, with a tree. Raises StatusError for an ERROR event, TransportError for rubbish."""
    try:
        event: Any = json.decode(line)
        kind, tree = event["type"], event["object"]
    except (DecodeError, KeyError, TypeError):
        raise _no_event(line) from None
    if kind == "ERROR":
        raise error_of_tree(tree if isinstance(tree, dict) else {})
    if not isinstance(kind, str) or not isinstance(tree, dict):
        raise _no_event(line)
    version = metadata_of(tree).get("resourceVersion")
    return Received(kind, tree, version if isinstance(version, str) else "")


def _no_event(line: bytes) -> TransportError:
    return TransportError(f"this isn't an event of a watch: {line[:200]!r}", sent=True)


async def batches_of(
    answer: ClientResponse, read: Callable[[bytes], Received] = tree_event
) -> AsyncGenerator[list[Received], None]:
    """The events of one watch request, as many at a time as arrive together, until the server ends it.

    `read` makes an event of a line. Raises StatusError for an ERROR event, and TransportError for a stream that breaks
    off or isn't one of events; what came before has been yielded then.
    """
    rest: list[bytes] = []
    size = 0
    async with aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            head, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                rest.append(chunk)
                size += len(chunk)
            else:
                lines = b"".join([*rest, head]).split(b"\n")
                rest, size = [tail], len(tail)
                batch: list[Received] = []
                try:
                    for line in lines:
                        if line.strip():
                            batch.append(read(line))
                except (StatusError, TransportError) as error:
                    if batch:
                        yield batch
                    raise error from None
                if batch:
                    yield batch
            if size > MAX_EVENT_BYTES:
                raise TransportError(f"an event is longer than {MAX_EVENT_BYTES} bytes", sent=True)
    if b"".join(rest).strip():
        raise TransportError("the watch was interrupted within an event", sent=True)


class BeginningRefused(Exception):
    """The server takes a watch that begins with what exists, and then can't tell that: it has to be listed.

    kube-apiserver does so on an etcd before 3.4.31, and on some databases in place of etcd.
    """


async def resumed(
    begin: Callable[[str], Awaitable[ClientResponse]],
    resource_version: str,
    pause: Callable[[int], Awaitable[None]],
    read: Callable[[bytes], Received] = tree_event,
    initial: BeginningEvents | None = None,
) -> AsyncGenerator[list[Received], None]:
    """The events of one watch after another, each from where the last ended, bookmarks included.

    With `initial` the first begin with what exists, from the beginning again until that has ended.

    `begin` opens a watch at a revision. `pause` is awaited with the number of failures in a row before it is opened
    again. Raises StatusError when the server refuses: 410 when the revision is too old, or newer than all that a
    restored server has, so that the caller has to list. Raises `BeginningRefused` before anything else.
    """
    failures = 0
    told = False
    while True:
        began = False
        try:
            answer = await begin(resource_version)
            began = True
            if initial is not None:
                initial.begin()
            try:
                async with aclosing(batches_of(answer, read)) as batches:
                    async for received in batches:
                        batch = received if initial is None else initial.taken(received)
                        if initial is None:
                            resource_version = batch[-1].version or resource_version
                        elif initial.ended:
                            resource_version, initial = initial.version, None
                        if batch:
                            failures, told = 0, True
                            yield batch
            finally:
                await answer.close()
            if initial is not None:
                failures += 1
        except TransportError:
            failures += 1
        except StatusError as error:
            if initial is not None and began and not told and error.code == 500:
                raise BeginningRefused from None
            if initial is not None and began and error.code == 410:
                failures += 1
                await pause(failures)
                continue
            if _is_ahead(error):
                raise Expired(f"the server lost the state that was watched: {error.message}") from None
            if error.code not in (429, 500, 503, 504):
                raise
            failures += 1
        await pause(failures)


def _is_ahead(error: StatusError) -> bool:
    """Whether the client has seen a later revision than the server has."""
    causes = (error.details or {}).get("causes")
    first = causes[0] if isinstance(causes, list) and causes else None
    return isinstance(first, dict) and first.get("reason") == "ResourceVersionTooLarge"
