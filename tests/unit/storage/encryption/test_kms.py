"""A key management service is asked rarely, in time, and isn't believed; what it did before goes on when it dies."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from kms_plugin import KmsPlugin

from oarlock.meta.kinds import GroupResource
from oarlock.storage.backend import Batch, Damaged, Stale, StorageError, StoreEvent, Unavailable
from oarlock.storage.encryption import backend as encrypted_backend
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import CannotDecrypt, NoCipher
from oarlock.storage.encryption.kms import provider as kms
from oarlock.storage.encryption.kms.envelope import read_envelope
from oarlock.storage.encryption.kms.provider import KeyNeeded, KmsProvider, KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock

KEY = b"/registry/example.com/things/a"
ROOT = "/registry/example.com/things/"


class Kit:
    """A plugin, and providers and encrypted stores that use it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.plugin = KmsPlugin(folder / "kms.sock")
        self.clock = VirtualClock()
        self._stack = stack

    def provider(self, timeout_s: float = 10.0) -> KmsProvider:
        made = KmsProvider(KmsSettings("kms1", self.plugin.endpoint, timeout_s), self.clock)
        self._stack.push_async_callback(made.close)
        return made

    async def ready(self, timeout_s: float = 10.0) -> KmsProvider:
        made = self.provider(timeout_s)
        assert await made.check() == ""
        return made

    def rules(self) -> EncryptionRules:
        provider = self.provider()
        ciphers = [NamedCipher(provider.prefix, provider), NamedCipher(b"", NoCipher())]
        return EncryptionRules({GroupResource("*", "*"): Transformer(ciphers, "rules.yaml")}, [provider])

    def store(self, inner: MemoryBackend) -> EncryptedBackend:
        return EncryptedBackend(inner, self.rules())


def with_kit(test: Callable[[Kit], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    @functools.wraps(test, assigned=("__name__", "__doc__", "__module__"))
    def run(tmp_path: Path) -> None:
        async def scenario() -> None:
            async with AsyncExitStack() as stack:
                kit = Kit(tmp_path, stack)
                await stack.enter_async_context(kit.plugin)
                await test(kit)

        asyncio.run(asyncio.wait_for(scenario(), 60))

    del run.__wrapped__
    return run


async def decrypted(provider: KmsProvider, value: bytes) -> bytes:
    try:
        return provider.decrypt(value, KEY)
    except KeyNeeded as needed:
        await needed.provider.fetch(needed.key)
        return provider.decrypt(value, KEY)


@with_kit
async def test_a_thousand_writes_cost_one_call_and_another_server_asks_once_to_read_them(kit: Kit) -> None:
    provider = await kit.ready()
    values = [provider.encrypt(b"%d" % number, KEY) for number in range(1000)]
    assert kit.plugin.calls == ["Status", "Encrypt"]
    other = await kit.ready()
    kit.plugin.calls.clear()
    assert [await decrypted(other, value) for value in values] == [b"%d" % number for number in range(1000)]
    assert kit.plugin.calls == ["Decrypt"]
    assert type(await decrypted(other, values[0])) is bytes, "the seed is another's, the key id is the same"


@with_kit
async def test_another_key_id_makes_another_seed_and_stale_objects(kit: Kit) -> None:
    provider = await kit.ready()
    before = provider.encrypt(b"x", KEY)
    kit.plugin.key_id = "key-2"
    kit.clock.advance(kms.POLL_S)
    assert await provider.check() == ""
    assert isinstance(provider.decrypt(before, KEY), Stale)
    after = provider.encrypt(b"x", KEY)
    assert read_envelope(after).source.key_id == "key-2"
    assert type(provider.decrypt(after, KEY)) is bytes


@with_kit
async def test_a_status_is_asked_again_only_after_a_while_and_by_many_at_once_once(kit: Kit) -> None:
    provider = kit.provider()
    assert set(await asyncio.gather(*(provider.check() for _ in range(10)))) == {""}
    await provider.check()
    assert kit.plugin.count("Status") == 1
    kit.clock.advance(kms.FRESH_S)
    await provider.check()
    assert kit.plugin.count("Status") == 2
    assert kit.plugin.count("Encrypt") == 1


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("key_id", "", "keyID is empty"),
        ("key_id", "k" * 1025, "keyID is 1025 bytes"),
        ("healthz", "bad", "got unexpected healthz status: bad"),
        ("version", "v1", "expected KMSv2 API version v2, got v1"),
        ("encrypts_as", "other", "it encrypted with another key than its status names"),
        ("annotations", {"a.example.com": b"x" * 33_000}, "annotations are 33013 bytes"),
        ("annotations", {"a.example.com": b"x" * 500_000}, "RESOURCE_EXHAUSTED"),
        ("annotations", {"nodots": b""}, "not a fully qualified domain name"),
        ("garbage", b"\x0a\xff", "its answer can't be read"),
        ("fails", {"Status": grpc.StatusCode.INTERNAL}, "INTERNAL: as it was told to"),
        ("fails", {"Encrypt": grpc.StatusCode.PERMISSION_DENIED}, "PERMISSION_DENIED"),
        ("hangs", {"Status"}, "DEADLINE_EXCEEDED"),
        ("hangs", {"Encrypt"}, "DEADLINE_EXCEEDED"),
    ],
)
def test_a_service_that_lies_hangs_or_refuses_encrypts_nothing(tmp_path: Path, name: str, value: Any, why: str) -> None:
    @with_kit
    async def scenario(kit: Kit) -> None:
        setattr(kit.plugin, name, value)
        provider = kit.provider(0.3) if name == "hangs" else kit.provider()
        assert why in await provider.check()
        with pytest.raises(Unavailable, match="KMS provider 'kms1' fails"):
            provider.encrypt(b"x", KEY)

    scenario(tmp_path)


@with_kit
async def test_when_it_dies_writes_go_on_for_three_minutes_and_reads_for_ever(kit: Kit) -> None:
    provider = await kit.ready(1.0)
    value = provider.encrypt(b"x", KEY)
    await kit.plugin.stop()
    kit.clock.advance(kms.SEED_LIFE_S - 1)
    assert await provider.check() != ""
    assert provider.decrypt(provider.encrypt(b"y", KEY), KEY) == b"y"
    kit.clock.advance(2)
    with pytest.raises(Unavailable):
        provider.encrypt(b"y", KEY)
    assert provider.decrypt(value, KEY) == b"x"
    await kit.plugin.start()
    kit.clock.advance(kms.FRESH_FAILED_S)
    assert await _eventually_well(kit, provider)
    assert provider.encrypt(b"y", KEY)


async def _eventually_well(kit: Kit, provider: KmsProvider) -> bool:
    """gRPC connects again after a pause of its own."""
    for _ in range(20):
        if not await provider.check():
            return True
        kit.clock.advance(kms.FRESH_FAILED_S)
    return False


@with_kit
async def test_a_failed_rotation_keeps_the_old_seed(kit: Kit) -> None:
    provider = await kit.ready()
    kit.plugin.key_id, kit.plugin.fails = "key-2", {"Encrypt": grpc.StatusCode.INTERNAL}
    kit.clock.advance(kms.POLL_S)
    assert "INTERNAL" in await provider.check()
    assert read_envelope(provider.encrypt(b"x", KEY)).source.key_id == "key-1"


@with_kit
async def test_a_refusal_is_remembered_and_isn_t_asked_for_each_value(kit: Kit) -> None:
    value = (await kit.ready()).encrypt(b"x", KEY)
    provider = await kit.ready()
    kit.plugin.calls.clear()
    kit.plugin.fails = {"Decrypt": grpc.StatusCode.NOT_FOUND}
    for _ in range(100):
        with pytest.raises(CannotDecrypt, match="KMS provider 'kms1' refuses: NOT_FOUND"):
            await decrypted(provider, value)
    assert kit.plugin.count("Decrypt") == 1
    kit.plugin.fails = {}
    kit.clock.advance(kms.REFUSED_S)
    assert await decrypted(provider, value) == b"x"


@with_kit
async def test_many_who_need_one_key_ask_once(kit: Kit) -> None:
    value = (await kit.ready()).encrypt(b"x", KEY)
    provider = await kit.ready()
    kit.plugin.calls.clear()
    assert await asyncio.gather(*(decrypted(provider, value) for _ in range(50))) == [b"x"] * 50
    assert kit.plugin.calls == ["Decrypt"]


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kms, "MAX_KEYS", 4)
    monkeypatch.setattr(kms, "MAX_WANTED", 4)

    @with_kit
    async def scenario(kit: Kit) -> None:
        values = [(await kit.ready()).encrypt(b"x", KEY) for _ in range(8)]
        reader = await kit.ready()
        for value in values:
            assert await decrypted(reader, value) == b"x"
        assert len(reader._keys) == 4
        kit.plugin.fails = {"Decrypt": grpc.StatusCode.NOT_FOUND}
        other = await kit.ready()
        for value in values:
            with pytest.raises(CannotDecrypt):
                await decrypted(other, value)
        assert len(other._wanted) == 4
        assert reader.decrypt(values[-1], KEY) == b"x", "the newest are remembered"

    scenario(tmp_path)


# In a store


class Seen:
    """What a watch delivered."""

    def __init__(self) -> None:
        self.events: list[StoreEvent] = []
        self.rev = 0
        self.error: StorageError | None = None
        self.changed = asyncio.Event()

    def deliver(self, batch: Batch) -> None:
        assert batch.rev >= self.rev
        assert all(self.rev < event.rev <= batch.rev for event in batch.events)
        self.events += batch.events
        self.rev = batch.rev
        self.changed.set()

    def failed(self, error: StorageError) -> None:
        self.error = error
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


@with_kit
async def test_events_wait_for_a_key_in_order_and_none_is_lost(kit: Kit) -> None:
    inner = MemoryBackend(kit.clock)
    await inner.start()
    writer, reader = kit.store(inner), kit.store(inner)
    await writer.start()
    await reader.start()
    seen = Seen()
    await reader.watch("/", "0", after=await reader.current_rev(), deliver=seen.deliver, failed=seen.failed)
    for number in range(100):
        key = f"/oarlock/{number}" if number % 2 else f"{ROOT}{number}"
        await writer.put(key, b"%d" % number, expect=0)
    assert seen.events == [], "the first needs a key, and the others wait behind it"
    await seen.until(lambda: len(seen.events) == 100)
    assert [event.value for event in seen.events] == [b"%d" % number for number in range(100)]
    await writer.put(f"{ROOT}last", b"x", expect=0)
    assert seen.events[-1].value == b"x", "with the key at hand nothing waits"


@with_kit
async def test_an_event_that_can_t_be_decrypted_is_told_as_damaged_and_healed_when_the_service_answers(
    kit: Kit,
) -> None:
    inner = MemoryBackend(kit.clock)
    await inner.start()
    writer, reader = kit.store(inner), kit.store(inner)
    await writer.start()
    await reader.start()
    seen = Seen()
    await reader.watch("/", "0", after=await reader.current_rev(), deliver=seen.deliver, failed=seen.failed)
    kit.plugin.fails = {"Decrypt": grpc.StatusCode.UNAVAILABLE}
    await writer.put(f"{ROOT}a", b"a", expect=0)
    await writer.put("/oarlock/b", b"b", expect=0)
    await seen.until(lambda: len(seen.events) == 2)
    damaged, other = seen.events
    assert isinstance(damaged.value, Damaged)
    assert "KMS provider 'kms1' doesn't answer" in damaged.value.why
    assert other.value == b"b"
    with pytest.raises(Unavailable, match="KMS provider 'kms1'"):
        await reader.list(ROOT, ROOT[:-1] + "0")
    kit.plugin.fails = {}
    kit.clock.advance(kms.FRESH_S)
    provider = reader.rules.providers[0]
    await provider._try_again()
    await seen.until(lambda: seen.error is not None)
    assert (await reader.list(ROOT, ROOT[:-1] + "0")).kvs[0].value == b"a"


def test_the_start_waits_for_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_backend, "START_S", 0.5)

    @with_kit
    async def scenario(kit: Kit) -> None:
        kit.plugin.hangs = {"Status"}
        inner = MemoryBackend(kit.clock)
        with pytest.raises(Unavailable, match=r"no good answer within 0.5 s from KMS provider 'kms1'"):
            await kit.store(inner).start()

    scenario(tmp_path)


@with_kit
async def test_a_service_that_only_decrypts_may_be_away_at_the_start(kit: Kit) -> None:
    kit.plugin.hangs = {"Status", "Decrypt"}
    provider = kit.provider()
    ciphers = [NamedCipher(b"", NoCipher()), NamedCipher(provider.prefix, provider)]
    rules = EncryptionRules({GroupResource("*", "*"): Transformer(ciphers, "rules.yaml")}, [provider])
    store = EncryptedBackend(MemoryBackend(kit.clock), rules)
    await store.start()
    await store.put(f"{ROOT}a", b"a", expect=0)
    await store.close()


@with_kit
async def test_a_closed_store_leaves_nothing_running(kit: Kit) -> None:
    store = kit.store(MemoryBackend(kit.clock))
    await store.start()
    await store.close()
    await store.close()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if name.startswith(("kms", "encryption"))]
