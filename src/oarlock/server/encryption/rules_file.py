"""Reads ``--encryption-provider-config``: the file as `EncryptionRules`.

Must not know: when it is read. See also: `configuration`, what may be in it; `reload`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from oarlock.codec.yaml import DecodeError, decode
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource
from oarlock.server.encryption.configuration import EncryptedResources, KeyedProvider, Provider, ProviderKind, decoded
from oarlock.storage.backend import StorageError
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, Cipher, NoCipher, SecretBox
from oarlock.storage.encryption.kms.provider import KmsProvider, KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules
from oarlock.storage.encryption.transformer import NamedCipher, Transformer

__all__ = ["EncryptionFileError", "RulesText", "read_text", "rules_of"]

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
        log.warning("%s holds keys, and others than its owner may open it: chmod 600 %s", path, path)
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
