"""Objects are encrypted in the store, and nobody who asks the server notices; keys are replaced, lost, and put back."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from walk_kit import BOATS, GROUP, Boats, BoatV1, boat, walk

from oarlock import APIServer, served_from
from oarlock.meta.kinds import GroupResource
from oarlock.registry.stored.migration import migrate
from oarlock.registry.stored.object_documents import broken_objects
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, NoCipher
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

PLAIN = NamedCipher(b"", NoCipher())
KEY1 = NamedCipher(b"k8s:enc:aescbc:v1:key1:", AesCbc(bytes(32)))
KEY2 = NamedCipher(b"k8s:enc:aesgcm:v1:key2:", AesGcm(bytes(range(32))))
KEY = f"/registry/{GROUP}/boats/default/"


def rules(*ciphers: NamedCipher) -> EncryptionRules:
    return EncryptionRules({GroupResource(GROUP, "boats"): Transformer(ciphers, "rules.yaml")}, source="rules.yaml")


def encrypted(store: MemoryBackend, *ciphers: NamedCipher) -> EncryptedBackend:
    lasting: Any = _Lasting(store)
    return EncryptedBackend(lasting, rules(*ciphers))


def on(backend: Any) -> InMemory:
    return InMemory(APIServer(serve=[Boats, BoatV1]), backend=backend)


def server(store: MemoryBackend, *ciphers: NamedCipher) -> InMemory:
    """A server of its own on `store`, which outlives it."""
    return on(encrypted(store, *ciphers))


class _Lasting:
    """The store stays open when a server closes it."""

    def __init__(self, store: MemoryBackend) -> None:
        self._store = store

    async def close(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def stored(store: MemoryBackend, name: str) -> bytes:
    kv, _ = await store.get(KEY + name)
    assert kv is not None
    return kv.value


@walk
async def test_the_store_sees_no_plain_object_and_clients_see_nothing_else() -> None:
    store = MemoryBackend(VirtualClock())
    async with server(store, KEY1, PLAIN) as api:
        made = await api.post(BOATS, boat("a"))
        assert made.status == 201
        assert (await stored(store, "a")).startswith(b"k8s:enc:aescbc:v1:key1:")
        assert b"apiVersion" not in await stored(store, "a")
        assert (await api.get(f"{BOATS}/a")).json == made.json
        changed = {**made.json, "metadata": {**made.json["metadata"], "labels": {"x": "y"}}}
        async with api.watch(BOATS) as watch:
            assert (await watch.next())[0] == "ADDED"
            assert (await api.put(f"{BOATS}/a", changed)).status == 200
            assert (await watch.next())[1]["metadata"]["labels"] == {"x": "y"}
        assert b"apiVersion" not in await stored(store, "a")
    async with server(store, KEY1) as api:  # loads what is there, and its history
        assert [one["metadata"]["name"] for one in (await api.get(BOATS)).json["items"]] == ["a"]
        assert (await api.delete(f"{BOATS}/a")).status == 200


@walk
async def test_two_servers_on_a_store_read_one_another() -> None:
    store = MemoryBackend(VirtualClock())
    async with server(store, KEY1, KEY2) as one, server(store, KEY2, KEY1) as other:
        made = await one.post(BOATS, boat("a"))
        seen = await other.get(f"{BOATS}/a")
        assert seen.json == made.json
        await other.post(BOATS, boat("b"))
        assert len((await one.get(BOATS)).json["items"]) == 2
        assert (await stored(store, "b")).startswith(KEY2.prefix)


@walk
async def test_a_write_that_changes_nothing_encrypts_anew_what_another_key_has_encrypted() -> None:
    store = MemoryBackend(VirtualClock())
    backend = encrypted(store, KEY1, PLAIN)
    async with on(backend) as api:
        made = (await api.post(BOATS, boat("a"))).json
        again = (await api.put(f"{BOATS}/a", made)).json
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nothing to do"
        backend.use(rules(KEY2, KEY1, PLAIN))  # what is cached now came from the old key
        again = (await api.put(f"{BOATS}/a", made)).json
        assert again["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
        assert (await stored(store, "a")).startswith(KEY2.prefix)
        assert (await api.put(f"{BOATS}/a", again)).json == again, "nothing to do"


@walk
async def test_a_key_is_replaced_step_by_step_and_every_object_follows() -> None:
    store = MemoryBackend(VirtualClock())
    names = [f"b{number}" for number in range(5)]
    async with on(_Lasting(store)) as api:
        for name in names:
            assert (await api.post(BOATS, boat(name))).status == 201
    for first, *others in ((KEY1, PLAIN), (KEY1, KEY2), (KEY2, KEY1), (PLAIN, KEY2)):
        backend = EncryptedBackend(store, rules(first, *others))
        served = served_from([Boats, BoatV1])[0]
        progress = await migrate(backend, served)
        assert progress.broken == []
        for name in names:
            value = await stored(store, name)
            assert value.startswith(first.prefix or b"{"), first.prefix
        async with server(store, first) as api:
            assert len((await api.get(BOATS)).json["items"]) == 5
    progress = await migrate(EncryptedBackend(store, rules(PLAIN)), served)
    assert (progress.rewritten, progress.encrypted) == (0, 0)


@walk
async def test_an_object_whose_key_is_gone_is_named_and_comes_back_with_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryBackend(VirtualClock())
    async with server(store, KEY1) as api:
        await api.post(BOATS, boat("lost"))
    with caplog.at_level(logging.ERROR, "oarlock.storage.encryption"):
        backend = encrypted(store, KEY2, PLAIN)
        async with on(backend) as api:
            await api.post(BOATS, boat("whole"))
            assert f"{KEY}lost can't be read: it is encrypted with a key that rules.yaml doesn't have" in caplog.text
            failed = await api.get(f"{BOATS}/lost")
            assert failed.status == 500
            assert 'aescbc key "key1"' in str(failed.json)
            assert (await api.get(BOATS)).status == 500
            assert (await api.get(f"{BOATS}/whole")).status == 200
            assert [one for one in (await broken_objects(backend, lambda progress: None)).lines if "lost" in one]
            backend.use(rules(KEY2, KEY1))
            await asyncio.sleep(1)  # of the loop's own time: everything is loaded again
            assert (await api.get(f"{BOATS}/lost")).status == 200
            assert len((await api.get(BOATS)).json["items"]) == 2


@walk
async def test_without_the_option_an_encrypted_object_says_what_is_missing() -> None:
    store = MemoryBackend(VirtualClock())
    async with server(store, KEY1) as api:
        await api.post(BOATS, boat("a"))
    async with on(_Lasting(store)) as api:
        failed = await api.get(f"{BOATS}/a")
        assert failed.status == 500
        assert "--encryption-provider-config" in failed.body.decode()


@walk
async def test_altered_cut_and_moved_values_are_refused_and_the_others_served() -> None:
    store = MemoryBackend(VirtualClock())
    async with server(store, KEY2) as api:
        for name in ("flipped", "cut", "moved", "whole"):
            await api.post(BOATS, boat(name))
        value = await stored(store, "flipped")
        hostile = {
            "flipped": value[:-1] + bytes((value[-1] ^ 1,)),
            "cut": (await stored(store, "cut"))[:-20],
            "moved": await stored(store, "whole"),
        }
        for name, data in hostile.items():
            kv, _ = await store.get(KEY + name)
            assert kv is not None
            await store.put(KEY + name, data, expect=kv.mod_rev)
        for name in hostile:  # arrived as events
            assert (await api.get(f"{BOATS}/{name}")).status == 500, name
        assert (await api.get(f"{BOATS}/whole")).status == 200
    async with server(store, KEY2) as api:  # loaded
        for name in hostile:
            assert (await api.get(f"{BOATS}/{name}")).status == 500, name
        assert (await api.get(f"{BOATS}/whole")).status == 200


@walk
async def test_an_object_that_is_lost_for_good_can_be_deleted() -> None:
    store = MemoryBackend(VirtualClock())
    unsafe = "ignoreStoreReadErrorWithClusterBreakingPotential"
    async with server(store, KEY1) as api:
        await api.post(BOATS, boat("lost", finalizers=["walk.example.com/f"]))
    async with server(store, KEY2) as api:
        await api.post(BOATS, boat("whole"))
        assert (await api.get(BOATS)).status == 500
        assert (await api.delete(f"{BOATS}/lost")).status == 500
        for options in ("propagationPolicy=Background", "dryRun=All", "gracePeriodSeconds=0", "uid=1"):
            both = await api.delete(f"{BOATS}/lost?{unsafe}=true&{options}")
            assert both.status == 422
            assert "cannot be set together with ." in both.json["message"]
        readable = await api.delete(f"{BOATS}/whole", {"kind": "DeleteOptions", "apiVersion": "v1", unsafe: True})
        assert readable.status == 422
        assert "is exclusively used to delete corrupt object(s)" in readable.json["message"]
        assert "not allowed with DELETECOLLECTION" in (await api.delete(f"{BOATS}?{unsafe}=true")).json["message"]
        deleted = await api.delete(f"{BOATS}/lost?{unsafe}=true")
        assert (deleted.status, deleted.json["status"]) == (200, "Success")
        assert [one["metadata"]["name"] for one in (await api.get(BOATS)).json["items"]] == ["whole"]
        assert (await api.delete(f"{BOATS}/lost?{unsafe}=true")).status == 404
