"""What a store says of the definitions of its objects: a key each; the first form, one document, is taken over."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from walk_kit import GROUP, crate, made, path, walk

from oarlock import APIServer
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.stored.records import DefinitionRecords, StoreTooNew
from oarlock.schema.definition import Names
from oarlock.storage.memory import MemoryBackend
from oarlock.storage.sqlite.backend import SqliteBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

DOCUMENT = "/oarlock/definitions"
CRATES = f"{DOCUMENT}/crates.{GROUP}"
OTHERS = f"{DOCUMENT}/others.{GROUP}"


def facts(*stored: str, versions: tuple[str, ...] = ("v1",), kind: str = "Crate") -> dict[str, Any]:
    return {"kind": kind, "storedAs": stored[-1], "storedVersions": [*stored], "versions": [*versions]}


FIRST_FORM = {f"crates.{GROUP}": facts("v0", "v1"), f"others.{GROUP}": facts("v7", versions=("v7",), kind="Other")}


async def recorded(backend: Any) -> dict[str, Any]:
    """What is recorded, but for the schemas."""
    page = await backend.list(DOCUMENT, DOCUMENT + "0")
    found = {kv.key: json.loads(kv.value) for kv in page.kvs}
    return {key: {name: fact for name, fact in facts.items() if name != "schemas"} for key, facts in found.items()}


def old_program_refuses(value: bytes) -> bool:
    """Whether a program that knows only the first form can't read the document."""
    try:
        msgspec.json.decode(value, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError:
        return True
    return False


async def opened(first_form: Any = None) -> MemoryBackend:
    backend = MemoryBackend(clock=VirtualClock())
    await backend.start()
    if first_form is not None:
        value = first_form if isinstance(first_form, bytes) else json.dumps(first_form).encode()
        await backend.put(DOCUMENT, value, expect=0)
    return backend


@walk
async def test_each_definition_has_a_key_and_only_what_changed_is_written():
    backend = await opened()
    records = DefinitionRecords(backend)
    boxes = crate().definition
    await records.record([boxes])
    assert await recorded(backend) == {DOCUMENT: {"form": 2}, CRATES: facts("v1")}
    rev = await backend.current_rev()
    await records.record([boxes])
    await DefinitionRecords(backend).record([boxes])
    assert await backend.current_rev() == rev, "it was recorded already"
    await records.record([boxes, crate("v2", versions=("v1", "v2")).definition])
    assert await recorded(backend) == {DOCUMENT: {"form": 2}, CRATES: facts("v1", "v2", versions=("v1", "v2"))}


@walk
async def test_the_first_form_is_taken_over_whole():
    backend = await opened(FIRST_FORM)
    records = DefinitionRecords(backend)
    with pytest.raises(StoreTooNew, match="written as v0, v1"):
        await records.check([crate("v9").definition])
    assert (await recorded(backend)).keys() == {DOCUMENT}, "a check writes nothing"
    await records.record([crate("v1", versions=("v0", "v1")).definition])
    found = await recorded(backend)
    assert found == {
        DOCUMENT: {"form": 2},
        CRATES: facts("v0", "v1", versions=("v0", "v1")),
        OTHERS: FIRST_FORM[f"others.{GROUP}"],
    }
    kv, _ = await backend.get(DOCUMENT)
    assert kv is not None
    assert old_program_refuses(kv.value)


@walk
async def test_a_takeover_that_was_interrupted_loses_nothing():
    backend = await opened(FIRST_FORM)
    await backend.put(CRATES, json.dumps(facts("v1", "v2", versions=("v1", "v2"))).encode(), expect=0)
    await DefinitionRecords(backend).record([crate("v2", versions=("v1", "v2")).definition])
    assert (await recorded(backend))[CRATES]["storedVersions"] == ["v0", "v1", "v2"]
    with pytest.raises(StoreTooNew):
        await DefinitionRecords(backend).record([crate("v7").definition])


@walk
async def test_what_was_not_written_by_us_is_refused():
    for value in (b"[]", b"\xff", b'{"form":3}', b'"x"', b'{"a":1}'):
        with pytest.raises(StoreTooNew, match="made by another program"):
            await DefinitionRecords(await opened(value)).check([crate().definition])
    backend = await opened()
    await backend.put(CRATES, b"[1]", expect=0)
    with pytest.raises(StoreTooNew, match=f"{CRATES} can't be read"):
        await DefinitionRecords(backend).check([crate().definition])


@walk
async def test_a_lost_race_is_run_again():
    backend = await opened()
    real, lost = backend.put, [CRATES, DOCUMENT]

    async def put(key: str, value: bytes, *, expect: int, **rest: Any) -> Any:
        if key in lost:
            lost.remove(key)
            other = facts("v0", "v1", versions=("v0", "v1")) if key == CRATES else {"form": 2}
            await real(key, json.dumps(other, separators=(",", ":")).encode(), expect=expect)
        return await real(key, value, expect=expect, **rest)

    backend.put = put  # type: ignore[method-assign]
    await DefinitionRecords(backend).record([crate().definition])
    assert lost == []
    assert await recorded(backend) == {DOCUMENT: {"form": 2}, CRATES: facts("v0", "v1")}


@walk
async def test_many_are_read_and_written_in_portions():
    backend = await opened()
    many = [served_as(n) for n in range(1_234)]
    await DefinitionRecords(backend).record(many)
    assert len(await recorded(backend)) == 1_235
    rev = await backend.current_rev()
    await DefinitionRecords(backend).record(many)
    assert await backend.current_rev() == rev


def served_as(number: int) -> Any:
    return replace(crate().definition, names=Names(f"crates{number}", f"Crate{number}"))


def test_a_server_takes_over_the_store_file_of_an_older_program(tmp_path: Path):
    asyncio.run(taken_over(tmp_path / "store.db"))


async def taken_over(store: Path) -> None:
    backend = SqliteBackend(store, VirtualClock())
    await backend.start()
    await backend.put(DOCUMENT, json.dumps({f"crates.{GROUP}": facts("v1")}).encode(), expect=0)
    value = {"apiVersion": f"{GROUP}/v1", "kind": "Crate", "metadata": {"name": "a", "namespace": "default"}}
    await backend.put(f"/registry/{GROUP}/crates/default/a", json.dumps(value).encode(), expect=0)
    await backend.close()
    with pytest.raises(StoreTooNew):
        async with InMemory(APIServer(serve=[crate("v2")]), backend=SqliteBackend(store, VirtualClock())):
            pass
    both = crate("v2", versions=("v1", "v2"))
    async with InMemory(APIServer(serve=[both]), backend=SqliteBackend(store, VirtualClock())) as api:
        assert (await api.get(path("crates", "a", version="v2"))).status == 200
        await made(api, path("crates", version="v2"), {"metadata": {"name": "b"}, "spec": {"size": 1}})
        assert await recorded(api.parts.storage.backend) == {
            DOCUMENT: {"form": 2},
            CRATES: facts("v1", "v2", versions=("v1", "v2")),
        }
        with pytest.raises(StoreTooNew):
            await api.replace(Catalog.of([crate("v3")], 2))
    async with InMemory(APIServer(serve=[both]), backend=SqliteBackend(store, VirtualClock())) as api:
        assert len((await api.get(path("crates", version="v2"))).json["items"]) == 2
