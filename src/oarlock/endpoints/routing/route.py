"""The two kinds of `Route`: `ResourceRoute` leads to a resource, `PathRoute` to a path of the server's own.

The router caches routes, so that for a repeated request target, resource, decoded query and the head of the answer are
ready.
Must not know: how routes are found (`router`), what verbs do (`verbs`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState, Route
from oarlock.endpoints.watching.watch_book import WatchBook
from oarlock.meta.dataclass import dataclass
from oarlock.meta.memo import Memo
from oarlock.registry.served_resource import ServedResource
from oarlock.registry.write.scale import Scaling
from oarlock.registry.write.write_request import Gate


@dataclass(slots=True)
class ResourceRoute(Route):
    """A route to a resource. `entry` is the version and kind of what is answered; `head` stands before its bodies.

    `scaling` is for a path that shows a Scale of the object, which has an entry of its own.
    """

    entry: CatalogEntry
    resource: ServedResource
    scaling: Scaling | None
    gate: Gate
    watches: WatchBook
    head: bytes


@dataclass(slots=True)
class PathRoute(Route):
    """A route to discovery, OpenAPI, a health check …, or to an error."""


Verb = Callable[[RequestState, ResourceRoute], Awaitable[Response]]
PathAnswer = Callable[[RequestState, PathRoute], Awaitable[Response]]
Routes = Memo[tuple[str, str, str], Route]
"""Routes by method, path and query."""
