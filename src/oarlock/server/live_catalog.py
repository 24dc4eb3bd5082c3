"""`LiveCatalog`: what a server serves at the moment, for code that follows or changes it while the server runs.

    catalog = await live.after(None)
    while True:
        ...  # work by `catalog`
        catalog = await live.after(catalog)

One is made with a server and filled in when that starts. Who reads slowly misses catalogs in between, never the last.
See also: ``assembly.resources``, which exchanges catalogs; ``apps.crds``, which changes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from oarlock.client.clock import Flag
from oarlock.endpoints.catalog import Catalog, CatalogItem
from oarlock.meta.kinds import GroupResource, GroupVersion
from oarlock.net.futures import shared

ChangeCatalog = Callable[[Sequence[CatalogItem], Sequence[GroupResource | GroupVersion]], Awaitable[None]]
"""How a running server changes its catalog."""


class CatalogSource(Protocol):
    """A source of catalog entries that are made from stored objects. It may lag behind the store for a moment."""

    def behind(self) -> bool:
        """Whether something in the watch cache isn't in the catalog yet."""
        ...

    async def caught_up(self) -> None:
        """Wait until the catalog has everything that the watch cache had at the time of the call."""
        ...


class LiveCatalog:
    """The catalog that a server serves. `sources` change it when stored objects change.

    If it is `filled_at_start`, it isn't complete at first: resources may be missing until it is `complete`.
    """

    def __init__(self) -> None:
        self.sources: list[CatalogSource] = []
        self.filled_at_start = False
        self.complete = True
        self._catalog: Catalog | None = None
        self._change: ChangeCatalog | None = None
        self._next: asyncio.Future[None] | None = None

    def begin(self, change: ChangeCatalog) -> None:
        """Called by the server that starts."""
        self._change = change
        self._catalog, self._next = None, None
        self.complete = not self.filled_at_start

    def replaced(self, catalog: Catalog) -> None:
        """Called by the server when it serves `catalog`."""
        self._catalog = catalog
        waiting, self._next = self._next, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    @property
    def current(self) -> Catalog | None:
        """What is served now; None before the server has loaded anything."""
        return self._catalog

    async def after(self, catalog: Catalog | None) -> Catalog:
        """What is served now, as soon as that is another catalog than `catalog`."""
        while self._catalog is None or self._catalog is catalog:
            if self._next is None:
                self._next = asyncio.get_running_loop().create_future()
            await shared(self._next)
        return self._catalog

    async def after_or(self, catalog: Catalog, wake: Flag) -> Catalog:
        """What is served now, as soon as that is another catalog than `catalog`, or `wake` is set."""
        waits = [asyncio.ensure_future(self.after(catalog)), asyncio.ensure_future(wake.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._catalog if self._catalog is not None else catalog

    async def change(
        self, *, put: Iterable[CatalogItem] = (), remove: Iterable[GroupResource | GroupVersion] = ()
    ) -> None:
        """As `APIServer.change`. Raises RuntimeError before the server starts."""
        if self._change is None:
            raise RuntimeError("the server hasn't started")
        await self._change(tuple(put), tuple(remove))
