"""What does encryption cost? µs of CPU for each write and read of an object of 1 kB, and to load 10,000 of them.

``python benchmarks/encryption.py``: the backend is memory, so that what is measured is the encryption and little else.
With a key management service its seed is at hand, as it is after the first call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from oarlock.client.clock import SystemClock
from oarlock.meta.kinds import GroupResource
from oarlock.storage.backend import Backend
from oarlock.storage.cache.entry import Entry
from oarlock.storage.cache.watch_cache import WatchCache
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, Cipher, NoCipher, SecretBox
from oarlock.storage.encryption.kms.envelope import EncryptedKey
from oarlock.storage.encryption.kms.provider import KmsProvider, KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer
from oarlock.storage.memory import MemoryBackend

OBJECTS = 10_000
VALUE = b'{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"text":"%b"}}' % (b"x" * 920)
PREFIX = "/registry/example.com/things/"
SECRET = bytes(range(32))


def service() -> KmsProvider:
    """A provider with a seed at hand, whose service is never asked."""
    provider = KmsProvider(KmsSettings("kms1", "unix:///nowhere"), SystemClock())
    provider.adopt_seed(SECRET, EncryptedKey("key-1", bytes(48), {"version.kms.example.com": b"1"}), float("inf"))
    return provider


CIPHERS: dict[str, Callable[[], Cipher]] = {
    "identity": NoCipher,
    "aescbc": lambda: AesCbc(SECRET),
    "aesgcm": lambda: AesGcm(SECRET),
    "secretbox": lambda: SecretBox(SECRET),
    "kms": service,
}


def encrypted(name: str, inner: Backend) -> EncryptedBackend:
    prefix = b"" if name == "identity" else f"k8s:enc:{name}:v1:key1:".encode()
    transformer = Transformer([NamedCipher(prefix, CIPHERS[name]())], "a benchmark")
    return EncryptedBackend(inner, EncryptionRules({GroupResource("*", "*"): transformer}))


def described(key: str, value: bytes, rev: int, create_rev: int) -> Entry:
    return Entry(key, "", key, rev, create_rev, value)


async def measure(make: Callable[[Backend], Backend]) -> tuple[float, float, float]:
    """µs of CPU for a write, µs for a read, and milliseconds to load everything."""
    store = MemoryBackend(SystemClock())
    backend = make(store)
    began = time.process_time()
    for number in range(OBJECTS):
        await backend.put(f"{PREFIX}{number:05}", VALUE, expect=0)
    write_us = (time.process_time() - began) / OBJECTS * 1e6
    began = time.process_time()
    for number in range(OBJECTS):
        await backend.get(f"{PREFIX}{number:05}")
    read_us = (time.process_time() - began) / OBJECTS * 1e6
    await store.compact(await store.current_rev())
    cache = WatchCache(backend, clock=SystemClock())
    await cache.start()
    began = time.process_time()
    loaded = await cache.resource(PREFIX, described, lambda entry, rev: entry)
    load_ms = (time.process_time() - began) * 1e3
    assert len(loaded) == OBJECTS
    await cache.close()
    return write_us, read_us, load_ms


async def longest_turn_ms(make: Callable[[Backend], Backend]) -> float:
    """How long the loop is held at most while everything is listed in one page."""
    backend = make(MemoryBackend(SystemClock()))
    for number in range(OBJECTS):
        await backend.put(f"{PREFIX}{number:05}", VALUE, expect=0)
    longest, over = 0.0, False

    async def watch_the_loop() -> None:
        nonlocal longest
        before = time.thread_time()  # what other processes take isn't held by this loop
        while not over:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch_the_loop())
    await asyncio.sleep(0)
    await backend.list(PREFIX, PREFIX[:-1] + "0")
    over = True
    await watching
    return longest * 1e3


def main() -> None:
    print(f"objects of {len(VALUE)} bytes; the longest turn of the loop in a list of all, at once")
    print(f"{'provider':10} {'write':>8} {'read':>8} {f'load {OBJECTS}':>12} {'longest':>9}")
    plain: Callable[[Backend], Backend] = lambda inner: inner  # noqa: E731 (a row of the table)
    rows: dict[str, Callable[[Backend], Backend]] = {"without": plain}
    rows |= {name: partial(encrypted, name) for name in CIPHERS}
    for name, make in rows.items():
        write_us, read_us, load_ms = asyncio.run(measure(make))
        turn_ms = asyncio.run(longest_turn_ms(make))
        print(f"{name:10} {write_us:5.1f} µs {read_us:5.1f} µs {load_ms:9.0f} ms {turn_ms:6.1f} ms")


if __name__ == "__main__":
    main()
