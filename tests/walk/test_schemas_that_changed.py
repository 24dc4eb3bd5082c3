"""The store knows the schemas of its objects; a server with a stricter one says so when it starts."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from walk_kit import GROUP, crate, made, path, walk

from oarlock import APIServer
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.registry.stored import records
from oarlock.registry.stored.records import DefinitionRecords
from oarlock.schema.definition import ResourceDefinition, VersionDefinition
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

CRATES = f"/oarlock/definitions/crates.{GROUP}"
SCHEMAS = f"/oarlock/schemas/crates.{GROUP}/"


def of(*fields: str, required: tuple[str, ...] = (), **rest: Any) -> ResourceDefinition:
    """Crates with a `spec` of text fields; `rest` is the schema of some of them."""
    properties = {name: rest.get(name, {"type": "string"}) for name in fields}
    spec: dict[str, Any] = {"type": "object", "properties": properties, "required": [*required]}
    schema = {"type": "object", "properties": {"spec": spec}}
    return replace(crate().definition, versions=(VersionDefinition("v1", schema),), hub="v1", stored_as="v1")


async def opened() -> MemoryBackend:
    backend = MemoryBackend(clock=VirtualClock())
    await backend.start()
    return backend


async def digests(backend: Any) -> list[str]:
    kv, _ = await backend.get(CRATES)
    found: list[str] = json.loads(kv.value)["schemas"]["v1"]
    return found


async def kept(backend: Any) -> set[str]:
    page = await backend.list(SCHEMAS, SCHEMAS[:-1] + "0")
    return {kv.key.rpartition("/")[2] for kv in page.kvs}


async def told(backend: Any, definition: ResourceDefinition) -> list[str]:
    drifts = await DefinitionRecords(backend).record([definition])
    return [f"{one.version} {change}" for one in drifts for change in one.changes]


@walk
async def test_schemas_are_kept_while_objects_may_need_them() -> None:
    backend = await opened()
    assert await told(backend, of("a")) == []
    (first,) = await digests(backend)
    assert await told(backend, of("a", "b")) == []
    (second,) = await digests(backend)
    assert second != first
    assert await kept(backend) == {second}, "the wider one takes all that the first took"
    required = of("a", "b", required=("b",))
    for _ in range(2):
        assert await told(backend, required) == ["v1 spec.b is required, and has no default"]
    found = await digests(backend)
    assert found[1:] == [second]
    assert await kept(backend) == {*found}
    rev = await backend.current_rev()
    assert await told(backend, required) != []
    assert await backend.current_rev() == rev, "it was recorded already"
    assert await told(backend, of("a", "b")) == [], "the older schema again"


@walk
async def test_what_came_between_hides_nothing() -> None:
    backend = await opened()
    await told(backend, of("a"))
    with_default = of("a", "b", required=("b",), b={"type": "string", "default": "x"})
    assert await told(backend, with_default) == []
    assert await told(backend, of("a", "b", required=("b",))) == ["v1 spec.b is required, and has no default"]


@walk
async def test_once_everything_fits_the_older_schemas_are_forgotten() -> None:
    backend = await opened()
    records = DefinitionRecords(backend)
    strict = of("a", required=("a",))
    await told(backend, of("a"))
    since = (await records.find(strict)).rev
    assert not await records.settle(strict, since), "no server with it was started"
    await told(backend, strict)
    assert not await records.settle(strict, since), "the record is newer"
    assert await records.settle(strict, (await records.find(strict)).rev)
    assert await told(backend, strict) == []
    assert await kept(backend) == {*await digests(backend)}


@walk
async def test_a_schema_that_is_lost_or_unreadable_is_told_as_unknown() -> None:
    for damage in ("removed", b"no", b"\x78\x9c\x03\x00\x00\x00\x00\x01"):
        backend = await opened()
        await told(backend, of("a"))
        (first,) = await digests(backend)
        kv, _ = await backend.get(f"{SCHEMAS}v1/{first}")
        assert kv is not None
        if isinstance(damage, bytes):
            await backend.put(kv.key, damage, expect=kv.mod_rev)
        else:
            await backend.delete(kv.key, expect=kv.mod_rev)
        assert await told(backend, of("a", "b")) == ["v1 some were stored by a schema that isn't known any more"]


@walk
async def test_the_number_and_the_size_of_schemas_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = await opened()
    bounds = [{"type": "string", "maxLength": 1000 - n} for n in range(20)]
    for schema in bounds:
        await told(backend, of("a", a=schema))
    found = await digests(backend)
    assert len(found) == records.KEPT + 1
    assert found[-1] == records.UNKNOWN
    assert await kept(backend) == {*found} - {""}
    assert "v1 some were stored by a schema that isn't known any more" in await told(backend, of("a", a=bounds[-1]))
    monkeypatch.setattr(records, "LARGEST_BYTES", 10)
    other = await opened()
    await told(other, of("a"))
    assert await kept(other) == set()
    assert await told(other, of("a", "b")) == ["v1 some were stored by a schema that isn't known any more"]


@walk
async def test_who_keeps_a_schema_while_another_forgets_it_wins() -> None:
    backend = await opened()
    await told(backend, of("a"))
    (first,) = await digests(backend)
    real = backend.delete

    async def delete(key: str, *, expect: int) -> Any:
        backend.delete = real  # type: ignore[method-assign]
        await DefinitionRecords(backend).record([of("a")])  # a server of the older release starts at this moment
        return await real(key, expect=expect)

    backend.delete = delete  # type: ignore[method-assign]
    await told(backend, of("a", "b"))
    assert first in await digests(backend)
    assert first in await kept(backend)


@walk
async def test_an_older_stored_version_is_compared_with_its_own_schema() -> None:
    backend = await opened()
    first, second = of("a").versions[0], of("a", "b", required=("a",)).versions[0]
    both = replace(of("a"), versions=(second, replace(first, name="v2")), hub="v2", stored_as="v2")
    await told(backend, of("a"))
    assert await told(backend, both) == ["v1 spec.a is required, and has no default"]
    only = replace(both, versions=both.versions[1:])
    assert await told(backend, only) == [f"v1 {records.UNREADABLE}"]
    assert await told(backend, both) == ["v1 spec.a is required, and has no default"]


@walk
async def test_a_start_tells_each_change_in_a_line_with_the_command(caplog: pytest.LogCaptureFixture) -> None:
    backend = MemoryBackend(clock=VirtualClock())
    many = [f"f{n}" for n in range(9)]
    async with InMemory(APIServer(serve=[Served(of("a"))]), backend=backend) as api:
        await api.replace(Catalog.of([Served(of("a", required=("a",)))], 2))
        assert lines(caplog) == [], "nothing is stored yet"
        await api.replace(Catalog.of([Served(of("a"))], 3))
        await made(api, path("crates", version="v1"), {"metadata": {"name": "x"}, "spec": {}})
        server = APIServer(serve=[Served(of(*many, required=(*many,)))])
        server.source = "shop/server.py"
        async with InMemory(server, backend=backend):
            pass
    found = lines(caplog)
    command = "to list them: oarlock storage check --schemas shop/server.py --storage "
    assert len(found) == 6
    assert all(command in line for line in found)
    assert found[0].startswith(
        f"objects stored before may not fit: crates.{GROUP} v1: spec.a is no longer a field: what is stored"
    )
    assert found[-1].startswith("objects stored before may not fit 5 more changes of schemas; ")


@walk
async def test_a_change_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with InMemory(APIServer(serve=[Served(of("a"))])) as api:
        await made(api, path("crates", version="v1"), {"metadata": {"name": "x"}, "spec": {}})
        for number, fields in enumerate((("b",), ("b", "c"), ("b", "c", "d"))):
            await api.replace(Catalog.of([Served(of(*fields))], 2 + number))
            assert len(lines(caplog)) == 1
        await api.replace(Catalog.of([Served(of("b", "c"))], 9))
        assert [line.split(" is ")[0].rpartition(" ")[2] for line in lines(caplog)] == ["spec.a", "spec.d"]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "stored before" in r.getMessage()
    ]
