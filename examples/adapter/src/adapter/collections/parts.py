"""Between the table and Kubernetes' clients: rows become parts, sites namespaces, versions resourceVersions."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

from oarlock import Context, ListOptions, ObjectMeta, Page, VirtualCollection, WatchOptions, errors, replace
from oarlock.extend import builtins_of, view

from ..api.v1.part import Part, PartSpec
from ..parts_table import Forgotten, PartsTable, Row

EVERYTHING = 1_000_000
OF_A_SUPPLIER = re.compile(r"spec\.supplier==?([a-z0-9.-]+)")


class Parts(VirtualCollection[Part]):
    """Every verb, as the table can do it all."""

    def __init__(self, table: PartsTable) -> None:
        self._table = table

    async def get(self, name: str, ctx: Context) -> Part | None:
        row = await self._table.find(ctx.target.namespace, name)
        return None if row is None else to_part(row)

    async def list(self, ctx: Context, options: ListOptions) -> Page[Part]:
        """A page begins behind a row. All pages have the version of the first, so that a watch misses nothing.

        The server selects whatever is asked for; the table selects by supplier, so that few rows are read for it.
        """
        version, _, place = options.continue_token.partition(":")
        site, _, sku = place.partition("/")
        wanted = OF_A_SUPPLIER.fullmatch(options.field_selector)
        limit = options.limit or EVERYTHING
        rows, last = await self._table.page(ctx.target.namespace, wanted[1] if wanted else "", (site, sku), limit)
        version = version or str(last)
        more = f"{version}:{rows[-1].site}/{rows[-1].sku}" if len(rows) == limit else ""
        return Page([to_part(row) for row in rows], version, more)

    async def create(self, new: Part, ctx: Context) -> Part:
        if not await self._table.add(to_row(new, ctx)):
            raise errors.AlreadyExists
        return await self._live(new.metadata.name, ctx)

    async def update(self, new: Part, expected_version: str, ctx: Context) -> Part:
        """`expected_version` is what the client has seen, empty when it doesn't mind."""
        if not await self._table.change(to_row(new, ctx), int(expected_version or 0)):
            await self._live(new.metadata.name, ctx)
            raise errors.Conflict
        return await self._live(new.metadata.name, ctx)

    async def delete(self, name: str, ctx: Context) -> Part | None:
        live = await self.get(name, ctx)
        await self._table.remove(ctx.target.namespace, name)
        return live

    async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Part]]:
        """What happened after a version, for ever. Who asks for what is forgotten is told to list again: 410."""
        seen = int(options.resource_version)
        while True:
            try:
                changes = await self._table.changes(seen)
            except Forgotten:
                raise errors.Expired(f"too old resource version: {seen}") from None
            for op, row in changes:
                seen = row.version
                if ctx.target.namespace in ("", row.site):
                    yield op, to_part(row)
            if not changes:
                await self._table.wait()

    async def _live(self, name: str, ctx: Context) -> Part:
        live = await self.get(name, ctx)
        if live is None:
            raise errors.NotFound
        return live


def to_part(row: Row) -> Part:
    """Labels, annotations and the like come back as they were; a row that another program added has none."""
    kept = view(json.loads(row.metadata), ObjectMeta)
    return Part(
        metadata=replace(kept, name=row.sku, namespace=row.site, resource_version=str(row.version)),
        spec=PartSpec(title=row.title, stock=row.stock, supplier=row.supplier),
    )


def to_row(part: Part, ctx: Context) -> Row:
    spec = part.spec
    metadata = json.dumps(builtins_of(part.metadata))
    return Row(ctx.target.namespace, part.metadata.name, spec.title, spec.stock, spec.supplier, metadata)
