"""The store's record of the resource definitions its servers use; protects against servers that are too old.

One record for the store, at ``/oarlock/definitions``. For each resource: the versions that servers know, the storage
version, and every version objects were ever stored in. A server that knows none of the latter could read nothing, and
refuses to start.
Must not know: HTTP. See also: `live_resources`; `migration`, which rewrites old versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from oarlock.schema.definition import ResourceDefinition
from oarlock.storage.backend import Backend, Rev

__all__ = ["StoreTooNew", "check", "record", "recorded", "shrink"]

KEY = "/oarlock/definitions"


class StoreTooNew(Exception):
    """The store holds objects this server can't read. The message is one line for the operator."""


async def check(backend: Backend, definitions: Iterable[ResourceDefinition]) -> None:
    """Raise StoreTooNew if objects of `definitions` are stored in no version that these know."""
    known, _ = await recorded(backend)
    for definition in definitions:
        _updated(known.get(str(definition.group_resource), {}), definition)


async def record(backend: Backend, definitions: Iterable[ResourceDefinition]) -> None:
    """Record that this server serves `definitions`: at most one write, none if already recorded. Raises StoreTooNew."""
    wanted = list(definitions)
    while True:
        kv, _ = await backend.get(KEY)
        known = _read(kv.value) if kv is not None else {}
        for definition in wanted:
            name = str(definition.group_resource)
            known[name] = _updated(known.get(name, {}), definition)
        value = msgspec.json.encode(known, order="sorted")
        if not wanted or (kv is not None and kv.value == value):
            return
        result = await backend.put(KEY, value, expect=kv.mod_rev if kv is not None else 0)
        if result.ok:
            return


async def recorded(backend: Backend) -> tuple[dict[str, dict[str, Any]], Rev]:
    """What is recorded for each resource, by ``plural.group``, and the revision of the record (0 if there is none)."""
    kv, _ = await backend.get(KEY)
    return (_read(kv.value), kv.mod_rev) if kv is not None else ({}, 0)


async def shrink(backend: Backend, definition: ResourceDefinition, since: Rev) -> bool:
    """Record that objects are stored in `definition.stored_as` only; False when the record is newer than `since`."""
    known, rev = await recorded(backend)
    name = str(definition.group_resource)
    if rev != since:
        return False
    if name not in known or known[name].get("storedVersions") == [definition.stored_as]:
        return True
    known[name]["storedVersions"] = [definition.stored_as]
    result = await backend.put(KEY, msgspec.json.encode(known, order="sorted"), expect=rev)
    return result.ok


def _updated(before: dict[str, Any], definition: ResourceDefinition) -> dict[str, Any]:
    known = {version.name for version in definition.versions}
    written = set(before.get("storedVersions", ()))
    if written and not written & known:
        raise StoreTooNew(
            f"the store holds {definition.group_resource} written as {', '.join(sorted(written))}, and this server "
            f"knows only {', '.join(sorted(known))}: start a server that knows one of the former, or use another store"
        )
    return {
        "kind": definition.names.kind,
        "storedAs": definition.stored_as,
        "storedVersions": sorted(written | {definition.stored_as}),
        "versions": sorted(known),
    }


def _read(value: bytes) -> dict[str, dict[str, Any]]:
    try:
        return msgspec.json.decode(value, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError as error:
        raise StoreTooNew(f"the store's record {KEY} can't be read ({error}): it was made by another program") from None
