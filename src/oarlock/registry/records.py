"""What the store remembers of the definitions its servers use, so that no server loses another's objects.

One record per resource, below ``/oarlock/definitions/``: the versions servers know, the one they write, and
every version objects were ever written in. A server that knows none of those written could read nothing and
refuses to start. Must not know: HTTP. Next: `live`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import Backend

__all__ = ["StoreTooNew", "record"]

PREFIX = "/oarlock/definitions/"


class StoreTooNew(Exception):
    """The store holds objects this server can't read. The message is one line for the operator."""


async def record(backend: Backend, definition: ResourceDefinition) -> None:
    """Note that this server serves `definition`. Raises StoreTooNew."""
    key = f"{PREFIX}{definition.group}/{definition.names.plural}"
    known = {version.name for version in definition.versions}
    while True:
        kv, _ = await backend.get(key)
        before = _read(key, kv.value) if kv is not None else {}
        written = set(before.get("storedVersions", ()))
        if written and not written & known:
            raise StoreTooNew(
                f"the store holds {definition.group_resource} written as {', '.join(sorted(written))}, and this server "
                f"knows only {', '.join(sorted(known))}: start a server that knows one of the former, or use "
                "another store"
            )
        after = {
            "group": definition.group,
            "kind": definition.names.kind,
            "resource": definition.names.plural,
            "storedAs": definition.stored_as,
            "storedVersions": sorted(written | {definition.stored_as}),
            "versions": sorted(known),
        }
        value = msgspec.json.encode(after)
        if kv is not None and kv.value == value:
            return
        result = await backend.put(key, value, expect=kv.mod_rev if kv is not None else 0)
        if result.ok:
            return


def _read(key: str, value: bytes) -> dict[str, Any]:
    try:
        tree = msgspec.json.decode(value, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise StoreTooNew(f"the store's record {key} can't be read ({error}): it was made by another program") from None
    return tree
