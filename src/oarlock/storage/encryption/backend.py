"""`EncryptedBackend`: wraps a backend so that the values of objects are encrypted in it.

Everything else is the wrapped backend's. A value that can't be decrypted is `Damaged`, with the reason; one that isn't
encrypted as the rules would encrypt it now is `Stale`. The rules can be exchanged at any time.

Must not know: what a value is. See also: `rules`; `watching`, for events.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from oarlock.storage.backend import (
    KEEP_TTL,
    KV,
    Backend,
    Damaged,
    Deliver,
    Failed,
    Page,
    Rev,
    Sealed,
    TooLarge,
    Unavailable,
    Watch,
    WriteResult,
    shown_key,
)
from oarlock.storage.encryption.ciphers import CannotDecrypt, KeyMissing
from oarlock.storage.encryption.kms.provider import KeyNeeded, KmsProvider
from oarlock.storage.encryption.rules import EncryptionRules
from oarlock.storage.encryption.watching import DecryptedWatch
from oarlock.storage.forwarding import ForwardingBackend
from oarlock.storage.pacing import Pacer

__all__ = ["EncryptedBackend"]

log = logging.getLogger("oarlock.storage.encryption")

OVERHEAD_BYTES = 1024
"""What a value may grow by. With a key management service that annotates, more; the store then refuses the value."""

START_S = 20.0
"""How long the start waits for key management services."""

CHECK_S = 0.5

CLOSE_AFTER_S = 10.0
"""When the services of exchanged rules are closed: by then, no call is in progress."""

LOGGED = 20
"""So many unreadable objects are named in the log, until the rules are exchanged; the others are counted."""

PAGE = 500

MOST_NAMES = 100
"""So many names of missing keys are told."""


class EncryptedBackend(ForwardingBackend):
    """A `Backend`. Values may be bound to their key in the store, as others see it."""

    def __init__(self, inner: Backend, rules: EncryptionRules) -> None:
        super().__init__(inner)
        self.caps = replace(inner.caps, max_value=inner.caps.max_value - OVERHEAD_BYTES, rewrites=True)
        self.rules = rules
        self._bound_to: Final[Callable[[str], bytes]] = self.stored_key or _same_key
        self._watches: dict[DecryptedWatch, None] = {}
        self._unreadable = 0
        """How many values couldn't be read since the rules were exchanged."""
        self._closing: set[asyncio.Task[None]] = set()

    # Life

    async def start(self) -> None:
        """Open the store, once every service that encrypts has answered. Raises `StorageError`."""
        self._adopt(self.rules.providers)
        try:
            await self._services_answer()
            await self._inner.start()
        except BaseException:
            await _close(self.rules.providers)
            raise

    async def _services_answer(self) -> None:
        needed = self.rules.encrypting
        try:
            async with asyncio.timeout(START_S):
                await asyncio.gather(*map(_answer, needed))
        except TimeoutError:
            why = "; ".join(
                f"KMS provider {provider.settings.name!r}: {provider.problem}"
                for provider in needed
                if provider.problem
            )
            raise Unavailable(f"{self.rules.source}: no good answer within {START_S:g} s from {why}") from None

    async def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        await self._inner.close()
        for task in self._closing:
            task.cancel()
        if self._closing:
            await asyncio.wait(self._closing)
        await _close(self.rules.providers)

    def use(self, rules: EncryptionRules) -> None:
        """Encrypt and decrypt with `rules` from now on. Objects that couldn't be read are read again."""
        before, self.rules = self.rules, rules
        self._adopt(rules.providers)
        unused = [provider for provider in before.providers if provider not in rules.providers]
        if unused:
            task = asyncio.get_running_loop().create_task(_close_later(unused), name="encryption: close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._read_again()

    def _adopt(self, providers: Sequence[KmsProvider]) -> None:
        for provider in providers:
            provider.on_recovery = self._read_again
            provider.begin()

    def _read_again(self) -> None:
        """If there were values that couldn't be read, have everything loaded again."""
        if self._unreadable:
            log.warning("what couldn't be decrypted before may be readable now: objects are loaded again")
            self._unreadable = 0
            for watch in list(self._watches):
                watch.end()

    # Values

    def readable(self, key: str, data: bytes) -> bytes:
        """The value at `key` as it was written; `Damaged` if it can't be read. Raises `KeyNeeded`."""
        transformer = self.rules.transformer(key)
        if transformer is None or isinstance(data, Damaged):
            return data
        try:
            return transformer.decrypt(data, self._bound_to(key))
        except KeyMissing as error:
            self._told(key, str(error))
            return Sealed(str(error), error.key)
        except CannotDecrypt as error:
            return self._damaged(key, str(error))

    async def readable_soon(self, key: str, data: bytes) -> bytes:
        """As `readable`; a key is asked for. Without an answer the value is `Damaged`."""
        try:
            return await self._readable_or_fail(key, data)
        except Unavailable as error:
            return self._damaged(key, str(error))

    async def _readable_or_fail(self, key: str, data: bytes) -> bytes:
        """As `readable_soon`. Raises `Unavailable` when a key management service doesn't answer."""
        for _ in range(2):
            try:
                return self.readable(key, data)
            except KeyNeeded as needed:
                try:
                    await needed.provider.fetch(needed.key)
                except CannotDecrypt as error:
                    return self._damaged(key, str(error))
        return self._damaged(key, "its key was forgotten at once")

    def _damaged(self, key: str, why: str) -> Damaged:
        self._told(key, why)
        return Sealed(why)

    def _told(self, key: str, why: str) -> None:
        self._unreadable += 1
        if self._unreadable <= LOGGED:
            log.error("%s can't be read: %s", shown_key(self, key), why)
        elif self._unreadable == LOGGED + 1:
            log.error("more objects can't be read: see `oarlock storage check`")

    async def _plain(self, kv: KV | None) -> KV | None:
        """Raises `Unavailable`."""
        return None if kv is None else _with_value(kv, await self._readable_or_fail(kv.key, kv.value))

    async def _result(self, result: WriteResult) -> WriteResult:
        """The result of a write that is done; from here on nothing may fail."""
        kv = result.current
        if kv is None:
            return result
        return result._replace(current=_with_value(kv, await self.readable_soon(kv.key, kv.value)))

    # Reads

    async def get(self, key: str, *, rev: Rev = 0) -> tuple[KV | None, Rev]:
        kv, at = await self._inner.get(key, rev=rev)
        return await self._plain(kv), at

    async def list(self, start: str, end: str, *, rev: Rev = 0, limit: int = 0) -> Page:
        page = await self._inner.list(start, end, rev=rev, limit=limit)
        pacer = Pacer()
        kvs: list[KV] = []
        waiting: list[int] = []
        needed: dict[bytes, KeyNeeded] = {}
        for number, kv in enumerate(page.kvs):
            try:
                kvs.append(_with_value(kv, self.readable(kv.key, kv.value)))
            except KeyNeeded as need:
                needed[need.key.digest()] = need
                waiting.append(number)
                kvs.append(kv)
            if pacer.due:
                await pacer.turn()
        if waiting:
            await asyncio.gather(*map(_asked, needed.values()))
            for number in waiting:
                kv = kvs[number]
                kvs[number] = _with_value(kv, await self._readable_or_fail(kv.key, kv.value))
                await pacer.turn()
        return replace(page, kvs=kvs)

    async def watch(self, start: str, end: str, *, after: Rev, deliver: Deliver, failed: Failed) -> Watch:
        watch = DecryptedWatch(self, after, deliver, failed)
        self._watches[watch] = None
        watch.on_close = lambda: self._watches.pop(watch, None)
        try:
            inner = await self._inner.watch(start, end, after=after, deliver=watch.deliver, failed=watch.failed)
        except BaseException:
            watch.close()
            raise
        watch.follow(inner)
        return watch

    # Writes

    async def put(self, key: str, value: bytes, *, expect: Rev, ttl_ms: int | None = KEEP_TTL) -> WriteResult:
        transformer = self.rules.transformer(key)
        if transformer is not None:
            if len(value) > self.caps.max_value:
                raise TooLarge(len(value), self.caps.max_value)
            value = transformer.encrypt(value, self._bound_to(key))
        return await self._result(await self._inner.put(key, value, expect=expect, ttl_ms=ttl_ms))

    async def delete(self, key: str, *, expect: Rev) -> WriteResult:
        return await self._result(await self._inner.delete(key, expect=expect))

    # Keys

    async def missing_keys(self) -> dict[str, int]:
        """How many objects need a key that the rules don't have, by its name. Reads the whole store, in pages."""
        found: dict[str, int] = {}
        start, more = "/registry/", True
        while more:
            page = await self._inner.list(start, "/registry0", limit=PAGE)
            for kv in page.kvs:
                transformer = self.rules.transformer(kv.key)
                name = "" if transformer is None else transformer.lacks(kv.value)
                if name and (name in found or len(found) < MOST_NAMES):
                    found[name] = found.get(name, 0) + 1
            more = page.more
            if page.kvs:
                start = page.kvs[-1].key + "\0"
        return found


def _same_key(key: str) -> bytes:
    return key.encode(errors="surrogateescape")


def _with_value(kv: KV, value: bytes) -> KV:
    return KV(kv.key, value, kv.mod_rev, kv.create_rev, kv.expires)


async def _asked(need: KeyNeeded) -> None:
    """Ask for a key. Raises `Unavailable`; a refusal is told again to whoever decrypts with it."""
    with contextlib.suppress(CannotDecrypt):
        await need.provider.fetch(need.key)


async def _answer(provider: KmsProvider) -> None:
    """Returns when the status of the service is good."""
    while await provider.check():  # noqa: ASYNC110 (the service is asked)
        await asyncio.sleep(CHECK_S)


async def _close_later(providers: Sequence[KmsProvider]) -> None:
    try:
        await asyncio.sleep(CLOSE_AFTER_S)
    finally:
        await _close(providers)


async def _close(providers: Sequence[KmsProvider]) -> None:
    for provider in providers:
        await provider.close()
