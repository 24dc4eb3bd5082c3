"""`ServerEncryption`: encryption in a running server: its backend, its health checks, and the file read again.

A file that can't be used is told in the log and in metrics; what was read before stays in force. Key management
services that a new file names must answer first.

Must not know: what is encrypted. See also: `rules_file`; ``storage.encryption.backend``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from oarlock.meta.context import Clock
from oarlock.server.encryption.rules_file import EncryptionFileError, RulesText, read_text, rules_of
from oarlock.server.files.reloaded import CHECK_INTERVAL_S
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.pages.health import HealthCheck
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.kms.provider import KmsProvider
from oarlock.storage.encryption.rules import EncryptionRules

__all__ = ["ServerEncryption", "encrypted"]

log = logging.getLogger("oarlock.server")

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
            log.warning("%s: whether a key is missing can't be seen: %s", self._path, error)
            return
        self.counts.without_key = sum(missing.values())
        if missing:
            names = ", ".join(f"{name} ({count} objects)" for name, count in sorted(missing.items()))
            log.error(
                "%s: keys of stored objects are missing: %s. They are served from memory until the next start, and "
                "can't be read then: put the keys back, as further keys, until `oarlock storage migrate` has run",
                *(self._path, names),
            )

    def _fail(self, why: str) -> None:
        self.counts.add(self._clock.now(), well=False)
        if why != self._failure:
            log.error("%s: what was read before stays in force", why)
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
