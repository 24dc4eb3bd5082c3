"""`KmsProvider`: the cipher of one key management service, with the seed of this process and what was decrypted.

The service is asked for its status every minute, every ten seconds while it fails. When its key id changes, this
process makes another seed; what is encrypted with the old one is then `Stale`. Without an answer, the seed is used for
three minutes after the last good one; then writes fail, reads of what is decrypted go on.

Must not know: who asks, what is encrypted. Source: k8s.io/apiserver ``server/options/encryptionconfig``. See also:
`envelope`, `client`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.net.futures import shared
from oarlock.storage.backend import Stale, Unavailable
from oarlock.storage.encryption.ciphers import CannotDecrypt
from oarlock.storage.encryption.kms.client import KmsClient, KmsRefused, KmsUnreachable
from oarlock.storage.encryption.kms.envelope import (
    SEED_BYTES,
    SEED_TYPE,
    DataCipher,
    EncryptedKey,
    SeededKeys,
    bytes_field,
    cipher_of,
    envelope_tail,
    key_id_problem,
    problem_of,
    read_envelope,
    split_envelope,
)

__all__ = ["KeyNeeded", "KmsProvider", "KmsSettings"]

log = logging.getLogger("oarlock.storage.encryption")

POLL_S = 60.0
POLL_FAILED_S = 10.0
SEED_LIFE_S = 180.0
"""How long the seed encrypts after the last good status."""

FRESH_S = 20.0
FRESH_FAILED_S = 3.0
"""How long a result is the answer to health checks, too."""

MAX_KEYS = 1024
"""Decrypted seeds and keys that are remembered: one for each start of a server, and each rotation."""

MAX_TAIL_BYTES = 4096
"""What a longer envelope says of its key isn't remembered, but read again for each value."""

MAX_WANTED = 256
"""Encrypted ones that couldn't be decrypted and are tried again."""

DECRYPTED_AT_ONCE = 8
PAUSE_S = 1.0
"""After a failure to reach the service, it isn't asked to decrypt for this time."""

REFUSED_S = 10.0
"""A refusal to decrypt a key counts for this time, however many values need it."""

API_VERSIONS = ("v2", "v2beta1")


@dataclass(frozen=True, slots=True)
class KmsSettings:
    """Where a service is: its name in stored values, its socket ``unix:///…``, the deadline of a call."""

    name: str
    endpoint: str
    timeout_s: float = 3.0


class KeyNeeded(Exception):
    """To decrypt a value, `provider.fetch(key)` must be awaited first."""

    def __init__(self, provider: KmsProvider, key: EncryptedKey) -> None:
        super().__init__("a key must be asked for")
        self.provider = provider
        self.key = key


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A key that couldn't be decrypted, why, and until when the service isn't asked again for a value."""

    key: EncryptedKey
    why: str
    until: float


@dataclass(slots=True)
class _Seed:
    """What this process encrypts with, until `expires`."""

    keys: SeededKeys
    source: EncryptedKey
    tail: bytes
    expires: float


class KmsProvider:
    """A `Cipher`. Make it on the event loop that uses it.

    `on_recovery` is called when a key could be decrypted that couldn't before.
    """

    def __init__(self, settings: KmsSettings, clock: Clock) -> None:
        self.settings: Final = settings
        self.prefix: Final = b"k8s:enc:kms:v2:%b:" % settings.name.encode()
        self.on_recovery: Callable[[], None] | None = None
        self.problem = "it was not asked yet"
        """Why the last status was no good, ``""`` if it was."""
        self._clock: Final = clock
        self._client: Final = KmsClient(settings.endpoint, settings.timeout_s)
        self._seed: _Seed | None = None
        self._keys: OrderedDict[bytes, DataCipher] = OrderedDict()
        self._sources: dict[bytes, tuple[EncryptedKey, bytes]] = {}
        """By the end of an envelope, the key that it names and its digest: thousands of objects have the same."""
        self._fetching: dict[bytes, asyncio.Task[None]] = {}
        self._wanted: OrderedDict[bytes, _Refusal] = OrderedDict()
        self._slots: Final = asyncio.Semaphore(DECRYPTED_AT_ONCE)
        self._unreachable_until = float("-inf")
        self._checking: asyncio.Task[None] | None = None
        self._checked_at = float("-inf")
        self._version = ""
        self._polling: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to ask for the status again and again. Safe to call twice."""
        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll(), name=f"kms: {self.settings.name}")

    async def close(self) -> None:
        """Stop, and close the connection. Safe to call twice."""
        tasks = [task for task in (self._polling, self._checking, *self._fetching.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._client.close()

    # The cipher

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        """Raises `Unavailable` when the service hasn't said for too long that the seed may be used."""
        seed = self._seed
        if seed is None or self._clock.monotonic() > seed.expires:
            raise Unavailable(
                f"nothing can be encrypted: KMS provider {self.settings.name!r} fails: {self.problem}", POLL_FAILED_S
            )
        return bytes_field(1, seed.keys.encrypt(value, key)) + seed.tail

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """Raises `CannotDecrypt`, `KeyNeeded`."""
        encrypted, tail = split_envelope(data)
        known = self._sources.get(tail) if encrypted else None
        if known is None:
            source, encrypted = read_envelope(data)
            digest = source.digest()
        else:
            source, digest = known
        cipher = self._keys.get(digest)
        if cipher is None:
            refusal = self._wanted.get(digest)
            if refusal is not None and self._clock.monotonic() < refusal.until:
                raise CannotDecrypt(refusal.why)
            raise KeyNeeded(self, source)
        self._keys.move_to_end(digest)
        if known is None and len(tail) <= MAX_TAIL_BYTES:
            if len(self._sources) >= MAX_KEYS:
                self._sources.clear()
            self._sources[tail] = source, digest
        value = cipher.decrypt(encrypted, key)
        seed = self._seed
        if seed is not None and (source.key_id != seed.source.key_id or source.type != SEED_TYPE):
            return Stale(value)
        return value

    async def fetch(self, key: EncryptedKey) -> None:
        """Have the service decrypt `key`; then `decrypt` can use it.

        Raises `Unavailable` when the service doesn't answer, `CannotDecrypt` when it refuses.
        """
        digest = key.digest()
        task = self._fetching.get(digest)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._fetch(digest, key), name="kms: decrypt")
            self._fetching[digest] = task
            task.add_done_callback(lambda _: self._fetching.pop(digest, None))
        await shared(task)

    async def _fetch(self, digest: bytes, key: EncryptedKey) -> None:
        name = self.settings.name
        try:
            async with self._slots:
                if self._clock.monotonic() < self._unreachable_until:
                    raise Unavailable(f"it can't be decrypted: KMS provider {name!r} didn't answer a moment ago")
                secret = await self._client.decrypt(key)
            cipher = cipher_of(key.type, secret)
        except KmsUnreachable as error:
            now = self._clock.monotonic()
            self._unreachable_until = now + PAUSE_S
            why = f"it can't be decrypted: KMS provider {name!r} doesn't answer: {error}"
            self._want(digest, _Refusal(key, why, now))
            raise Unavailable(why) from None
        except (KmsRefused, CannotDecrypt) as error:
            why = f"it can't be decrypted: KMS provider {name!r} refuses: {error}"
            self._want(digest, _Refusal(key, why, self._clock.monotonic() + REFUSED_S))
            raise CannotDecrypt(why) from None
        self._wanted.pop(digest, None)
        self._remember(digest, cipher)

    def _want(self, digest: bytes, refusal: _Refusal) -> None:
        self._wanted[digest] = refusal
        if len(self._wanted) > MAX_WANTED:
            self._wanted.popitem(last=False)

    def _remember(self, digest: bytes, cipher: DataCipher) -> None:
        self._keys[digest] = cipher
        self._keys.move_to_end(digest)
        if len(self._keys) > MAX_KEYS:
            self._keys.popitem(last=False)

    # The status

    async def check(self) -> str:
        """What is wrong with the service, ``""`` if nothing is; asked now unless that was a moment ago."""
        age_s = self._clock.monotonic() - self._checked_at
        if age_s >= (FRESH_FAILED_S if self.problem else FRESH_S):
            await self._check()
        return self.problem

    async def _check(self) -> None:
        """Ask for the status, together with whoever asks at the same time."""
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check_once(), name="kms: status")
        await shared(self._checking)

    async def _check_once(self) -> None:
        before = self.problem
        try:
            self.problem = await self._problem()
        except (KmsUnreachable, KmsRefused) as error:
            self.problem = str(error)
        except Exception as error:  # the next poll must come
            log.exception("asking KMS provider %r for its status failed", self.settings.name)
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            self._checked_at = self._clock.monotonic()
            self._checking = None
        if self.problem and self.problem != before:
            log.error("KMS provider %r fails: %s", self.settings.name, self.problem)
        elif before and not self.problem:
            log.info("KMS provider %r is well", self.settings.name)

    async def _problem(self) -> str:
        expires = self._clock.monotonic() + SEED_LIFE_S
        status = await self._client.status()
        if status.healthz != "ok":
            return f"got unexpected healthz status: {status.healthz[:100]}"
        if status.version not in API_VERSIONS:
            return f"expected KMSv2 API version v2, got {status.version[:100]}"
        if self._version not in ("", status.version):
            return f"its API version changed from {self._version} to {status.version}"
        self._version = status.version
        why = key_id_problem(status.key_id)
        if why:
            return why
        if self._seed is None or self._seed.source.key_id != status.key_id:
            return await self._rotate(status.key_id, expires)
        self._seed.expires = expires
        return ""

    async def _rotate(self, key_id: str, expires: float) -> str:
        """Make another seed. On failure the old one stays, until it expires."""
        secret = os.urandom(SEED_BYTES)
        source = await self._client.encrypt(secret)
        why = problem_of(source)
        if why:
            return f"what it encrypted is refused: {why}"
        if source.key_id != key_id:
            return "it encrypted with another key than its status names"
        self.adopt_seed(secret, source, expires)
        log.info("KMS provider %r: a new seed is used", self.settings.name)
        return ""

    def adopt_seed(self, secret: bytes, source: EncryptedKey, expires: float) -> None:
        """Encrypt with this seed, which the service has encrypted as `source`, until `expires`."""
        keys = SeededKeys(secret)
        self._remember(source.digest(), keys)
        self._seed = _Seed(keys, source, envelope_tail(source), expires)

    async def _poll(self) -> None:
        while True:
            await self._check()
            if not self.problem and self._wanted:
                await self._try_again()
            await asyncio.sleep(POLL_FAILED_S if self.problem or self._wanted else POLL_S)

    async def _try_again(self) -> None:
        """Ask again for what couldn't be decrypted."""
        recovered = False
        for refusal in list(self._wanted.values()):
            try:
                await self.fetch(refusal.key)
            except Unavailable:
                break
            except CannotDecrypt:
                continue
            recovered = True
        if recovered and self.on_recovery is not None:
            self.on_recovery()
