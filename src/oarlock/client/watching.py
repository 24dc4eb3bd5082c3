"""A watch that goes on by itself: it resumes at the last revision it has seen, and lists again when that is too old.

Source: the API conventions' section on efficient detection of changes; client-go ``tools/cache/reflector.go``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oarlock.client.error_statuses import error_of_tree
from oarlock.client.objects import Tree, metadata_of
from oarlock.client.transport import ClientResponse, TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.errors import StatusError

__all__ = ["MAX_EVENT_BYTES", "WatchEvent", "events_of", "resumed"]

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""How long one event may be: an object of 3 MiB with its managed fields fits."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A change: ``ADDED``, ``MODIFIED`` or ``DELETED``, or a ``BOOKMARK`` (then `object` has a revision only)."""

    type: str
    object: T
    resource_version: str


async def events_of(answer: ClientResponse) -> AsyncGenerator[tuple[str, Tree], None]:
    """Type and tree of each event of one watch request, until the server ends it.

    Raises StatusError for an ERROR event, and TransportError for a stream that breaks off or isn't one of events.
    """
    rest = b""
    async for chunk in answer.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_EVENT_BYTES:
            raise TransportError(f"an event is longer than {MAX_EVENT_BYTES} bytes", sent=True)
        for line in lines:
            if line.strip():
                yield _event(line)
    if rest.strip():
        raise TransportError("the watch broke off within an event", sent=True)


def _event(line: bytes) -> tuple[str, Tree]:
    try:
        event: Any = json.decode(line)
        kind, tree = event["type"], event["object"]
    except (DecodeError, KeyError, TypeError):
        raise TransportError(f"this is no event of a watch: {line[:200]!r}", sent=True) from None
    if kind == "ERROR":
        raise error_of_tree(tree if isinstance(tree, dict) else {})
    if not isinstance(kind, str) or not isinstance(tree, dict):
        raise TransportError(f"this is no event of a watch: {line[:200]!r}", sent=True)
    return kind, tree


async def resumed(
    begin: Callable[[str], Awaitable[ClientResponse]], resource_version: str, pause: Callable[[int], Awaitable[None]]
) -> AsyncGenerator[tuple[str, Tree], None]:
    """The events of one watch after another, each from where the last ended, bookmarks included.

    `begin` opens a watch at a revision. `pause` is awaited with the number of failures in a row before it is opened
    again. Raises StatusError when the server refuses: 410 when the revision is too old, so that the caller has to list.
    """
    failures = 0
    while True:
        try:
            answer = await begin(resource_version)
            try:
                async with aclosing(events_of(answer)) as events:
                    async for kind, tree in events:
                        failures = 0
                        version = metadata_of(tree).get("resourceVersion")
                        if isinstance(version, str) and version:
                            resource_version = version
                        yield kind, tree
            finally:
                await answer.close()
        except TransportError:
            failures += 1
        except StatusError as error:
            if error.code not in (429, 500, 503, 504):
                raise
            failures += 1
        await pause(failures)
