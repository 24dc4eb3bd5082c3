"""`ServerEncryption`: encryption in a running server: its backend, its health checks, and the file read again.

A file that can't be used is told in the log and in metrics; the previous content stays in force. Key management
services that a new file names must answer first.

Must not know: what is encrypted. See also: ``storage.encryption.backend``.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Final

from oarlock.codec.yaml import DecodeError, decode
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource
from oarlock.server.encryption.configuration import EncryptedResources, KeyedProvider, Provider, ProviderKind, decoded
from oarlock.server.files.reloaded import CHECK_INTERVAL_S
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.pages.health import HealthCheck
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, Cipher, NoCipher, SecretBox
from oarlock.storage.encryption.kms.provider import KmsProvider, KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer

log = logging.getLogger("oarlock.server")

MAX_BYTES = 1024 * 1024
MAX_PROBLEMS = 10
"""So many problems are named in one message."""

_QUOTED = re.compile(r"`.*`", re.DOTALL)
"""What a message of the decoder quotes may be a key."""

_SECOND_DOCUMENT = re.compile(rb"^[^#\s%-].*?^---(\s|\Z)", re.MULTILINE | re.DOTALL)
_CIPHERS: dict[ProviderKind, Callable[[bytes], Cipher]] = {"aescbc": AesCbc, "aesgcm": AesGcm, "secretbox": SecretBox}
_INSTALL = "it is in an extra: pip install 'oarlock[encryption]'"


class EncryptionFileError(StorageError):
    """The configuration can't be used. One line, which names the file and the fields."""


@dataclass(frozen=True, slots=True)
class RulesText:
    """The text of a configuration file, and its digest."""

    path: Path
    text: bytes = field(repr=False)
    digest: str
    open_to_others: bool


def read_text(path: Path) -> RulesText:
    """Raises `EncryptionFileError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise EncryptionFileError(f"{path}: it is not a file")
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise EncryptionFileError(f"{path}: {error.strerror}") from None
    if not text.strip():
        raise EncryptionFileError(f"{path}: it is empty")
    if len(text) > MAX_BYTES:
        raise EncryptionFileError(f"{path}: it is larger than {MAX_BYTES} bytes")
    return RulesText(path, text, f"sha256:{hashlib.sha256(text).hexdigest()}", bool(status.st_mode & 0o077))


def rules_of(text: RulesText, clock: Clock, known: Sequence[KmsProvider] = ()) -> EncryptionRules:
    """The rules in a file; a provider of `known` with the same settings is used again. Needs a running event loop.

    Raises `EncryptionFileError`.
    """
    path = text.path
    try:
        tree, repeated = decode(text.text)
    except DecodeError as error:
        why = str(error).removeprefix("error converting YAML to JSON: ")
        raise EncryptionFileError(f"{path}: {_QUOTED.sub('a value', why)}") from None
    entries, problems = decoded(tree)
    if _SECOND_DOCUMENT.search(text.text):
        problems = ["it has several documents: write one"]
    problems = [*repeated, *problems]
    if problems:
        more = len(problems) - MAX_PROBLEMS
        shown = "; ".join(problems[:MAX_PROBLEMS])
        raise EncryptionFileError(f"{path}: {shown}{f'; and {more} more' if more > 0 else ''}")
    if text.open_to_others and any(
        isinstance(provider, KeyedProvider) for entry in entries for provider in entry.providers
    ):
        log.warning("%s contains keys and other users can open it: chmod 600 %s", path, path)
    return _RulesBuilder(path, clock, known).rules(entries, text.digest)


class _RulesBuilder:
    def __init__(self, path: Path, clock: Clock, known: Sequence[KmsProvider]) -> None:
        self._path = path
        self._clock = clock
        self._known = {provider.settings: provider for provider in known}
        self._providers: list[KmsProvider] = []

    def rules(self, entries: Sequence[EncryptedResources], digest: str) -> EncryptionRules:
        ciphers: dict[GroupResource, list[NamedCipher]] = {}
        for entry in entries:
            made = [cipher for provider in entry.providers for cipher in self._ciphers(provider)]
            for resource in entry.resources:
                ciphers[resource] = [*ciphers.get(resource, ()), *made]
        source = str(self._path)
        transformers = {resource: Transformer(some, source) for resource, some in ciphers.items()}
        return EncryptionRules(transformers, self._providers, source=source, digest=digest)

    def _ciphers(self, provider: Provider) -> list[NamedCipher]:
        if provider is None:
            return [NamedCipher(b"", NoCipher())]
        if isinstance(provider, KmsSettings):
            return [self._kms(provider)]
        prefix, cipher = f"k8s:enc:{provider.kind}:v1:", _CIPHERS[provider.kind]
        try:
            return [NamedCipher(f"{prefix}{key.name}:".encode(), cipher(key.secret)) for key in provider.keys]
        except ImportError:
            raise EncryptionFileError(f"{self._path}: {provider.kind} needs PyNaCl; {_INSTALL}") from None

    def _kms(self, settings: KmsSettings) -> NamedCipher:
        provider = self._known.get(settings)
        if provider is None:
            provider = KmsProvider(settings, self._clock)
        self._providers.append(provider)
        return NamedCipher(provider.prefix, provider)


ANSWER_S = 10.0
"""How long services that a new file names may take to answer."""


def encrypted(backend: Backend, path: Path, clock: Clock) -> EncryptedBackend:
    """`backend` with what the file at `path` says. Needs a running event loop. Raises `EncryptionFileError`."""
    return EncryptedBackend(backend, rules_of(read_text(path), clock))


class ServerEncryption:
    """Encrypts what `backend` stores as the file at `path` says; with `reload`, as it says at any time.

    Needs a running event loop. Raises `EncryptionFileError`.
    """

    def __init__(self, backend: Backend, path: Path, clock: Clock, *, reload: bool) -> None:
        self.backend: Final = encrypted(backend, path, clock)
        self.reloads: Final = reload
        self.counts: Final = ReloadCounts(digest=self.backend.rules.digest)
        self._path: Final = path
        self._clock: Final = clock
        self._failure = ""
        self._refused = ""
        """The digest of a text that can't be used, whatever services say."""

    # Health

    def checks(self) -> list[HealthCheck]:
        """``kms-providers``; and ``kms-provider-0`` and so on if the file isn't read again."""
        providers = self.backend.rules.providers
        if not providers and not self.reloads:
            return []
        single = [] if self.reloads else [partial(_problem_of, [provider]) for provider in providers]
        return [
            HealthCheck("kms-providers", self._problem),
            *(HealthCheck(f"kms-provider-{number}", test) for number, test in enumerate(single)),
        ]

    async def _problem(self) -> str:
        return await _problem_of(self.backend.rules.providers)

    # The file

    async def follow(self) -> None:
        """Read the file again within seconds of a change, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """Read the file again if its content has changed."""
        try:
            text = read_text(self._path)
            if text.digest == self.counts.digest:
                self._failure = self._refused = ""
                return
            if text.digest == self._refused:
                return
            await self._use(text)
        except EncryptionFileError as error:
            self._fail(str(error))
        else:
            self._failure = self._refused = ""
            self.counts.digest = text.digest
            self.counts.add(self._clock.now(), well=True)
            log.warning("%s: changed, and read again", self._path)
            await self._look_for_keys()

    async def _look_for_keys(self) -> None:
        """Say which keys are missing for what is stored: it is in memory, and would be lost to the next start."""
        try:
            missing = await self.backend.missing_keys()
        except StorageError as error:
            log.warning("%s: checking for missing keys failed: %s", self._path, error)
            return
        self.counts.without_key = sum(missing.values())
        if missing:
            names = ", ".join(f"{name} ({count} objects)" for name, count in sorted(missing.items()))
            log.error(
                "%s: keys of stored objects are missing: %s. These objects are served from memory until the next start "
                "and are unreadable afterwards: add the keys again, as further keys, and run `oarlock storage migrate`",
                *(self._path, names),
            )

    def _fail(self, why: str) -> None:
        self.counts.add(self._clock.now(), well=False)
        if why != self._failure:
            log.error("%s: the previous content stays in force", why)
        self._failure = why

    async def _use(self, text: RulesText) -> None:
        known = self.backend.rules.providers
        try:
            rules = rules_of(text, self._clock, known)
        except EncryptionFileError:
            self._refused = text.digest
            raise
        added = [provider for provider in rules.providers if provider not in known]
        try:
            await _answered(rules, added)
        except BaseException:
            for provider in added:
                await provider.close()
            raise
        self.backend.use(rules)


async def _answered(rules: EncryptionRules, added: Sequence[KmsProvider]) -> None:
    """Wait for a good answer of new services. Raises `EncryptionFileError`."""
    why = "no answer"
    try:
        async with asyncio.timeout(ANSWER_S):
            while why := await _problem_of(added):  # noqa: ASYNC110 (the services are asked)
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise EncryptionFileError(f"{rules.source}: {why}") from None


async def _problem_of(providers: Sequence[KmsProvider]) -> str:
    """What is wrong with any of them, ``""`` if nothing is."""
    problems = await asyncio.gather(*(provider.check() for provider in providers))
    named = zip(providers, problems, strict=True)
    return "; ".join(
        f"KMS provider {provider.settings.name!r} fails: {problem}" for provider, problem in named if problem
    )
