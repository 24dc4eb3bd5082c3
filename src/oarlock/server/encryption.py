"""`ServerEncryption`: an EncryptionConfiguration in a running server: backend, health checks, reloading of the file.

An unusable file is reported in the log and in metrics; the previous content stays in force. Key management services
that a new file names must answer first. See also: ``storage.encryption.backend``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from oarlock.codec.yaml import DecodeError, decode
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import GroupResource
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.net.url import UrlError, parse_url
from oarlock.server.files.reloaded import CHECK_INTERVAL_S, ReloadCounts
from oarlock.server.pages.health import HealthCheck
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.encryption.backend import EncryptedBackend
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, Cipher, NoCipher, SecretBox
from oarlock.storage.encryption.kms.provider import KmsProvider, KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules, NamedCipher, Transformer

API_VERSION = "apiserver.config.k8s.io/v1"
KIND = "EncryptionConfiguration"
ProviderKind = Literal["aescbc", "aesgcm", "secretbox"]
_KEY_SIZES: Mapping[ProviderKind, tuple[int, ...]] = {
    "aescbc": (16, 24, 32),
    "aesgcm": (16, 24, 32),
    "secretbox": (32,),
}
_PROVIDERS = ("aesgcm", "aescbc", "secretbox", "identity", "kms")
_KMS_FIELDS = ("apiVersion", "name", "endpoint", "timeout", "cachesize")
_TIMEOUT_S = 3.0
_MAX_TIMEOUT_S = 60.0
_MAX_NAME = 253
_MAX_SHOWN = 64
_ANY = GroupResource("*", "*")
_NO_API = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


@dataclass(frozen=True, slots=True)
class SecretKey:
    name: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyedProvider:
    """A provider whose keys are in the file. The first one encrypts."""

    kind: ProviderKind
    keys: tuple[SecretKey, ...]


Provider = KeyedProvider | KmsSettings | None
"""None is the identity provider."""


@dataclass(frozen=True, slots=True)
class EncryptedResources:
    """The providers of some resources. The first one encrypts."""

    resources: tuple[GroupResource, ...]
    providers: tuple[Provider, ...]


def decoded(tree: Any) -> tuple[list[EncryptedResources], list[str]]:
    """The rules of a configuration, and what is wrong with it, one line each; use the rules if nothing is."""
    decoder = _Decoder()
    rules = decoder.configuration(tree)
    if not decoder.problems:
        decoder.problems += _masked(rules)
    return rules, decoder.problems


def _masked(rules: Sequence[EncryptedResources]) -> Iterator[str]:
    """Resources that an earlier rule takes already."""
    earlier: set[GroupResource] = set()
    for rule in rules:
        for resource in rule.resources:
            for mask in (GroupResource(resource.group, "*"), _ANY):
                if mask in earlier:
                    yield f"resource {quote(_shown(resource))} is masked by earlier rule {quote(_shown(mask))}"
                    break
        earlier.update(rule.resources)


def _shown(resource: GroupResource) -> str:
    return "*." if resource == GroupResource("", "*") else str(resource)


class _Decoder:
    """Collects problems instead of raising."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._kms_names: set[str] = set()

    # Shapes

    def _invalid(self, path: str, value: object, why: str) -> None:
        shown = json.dumps(value, ensure_ascii=False)[: _MAX_SHOWN * 2]
        self.problems.append(f"{path}: Invalid value: {shown}: {why}")

    def _required(self, path: str, why: str) -> None:
        self.problems.append(f"{path}: Required value: {why}")

    def _mapping(self, tree: Any, path: str, fields: Sequence[str]) -> dict[str, Any]:
        if not isinstance(tree, dict):
            self.problems.append(f"{path or 'the document'}: must be a mapping")
            return {}
        for name in tree:
            if name not in fields:
                where = f"{path}.{name[:_MAX_SHOWN]}" if path else name[:_MAX_SHOWN]
                self.problems.append(f"unknown field {quote(where)}")
        return tree

    def _list(self, tree: Any, path: str) -> list[Any]:
        if tree is None or isinstance(tree, list):
            return tree or []
        self.problems.append(f"{path}: must be a list")
        return []

    def _text(self, tree: Any, path: str) -> str:
        if tree is None or isinstance(tree, str):
            return tree or ""
        self.problems.append(f"{path}: must be a string")
        return ""

    # The configuration

    def configuration(self, tree: Any) -> list[EncryptedResources]:
        top = self._mapping(tree, "", ("apiVersion", "kind", "resources"))
        if top.get("apiVersion") != API_VERSION or top.get("kind") != KIND:
            self.problems[:] = [f"write apiVersion: {API_VERSION} and kind: {KIND}"]
            return []
        entries = self._list(top.get("resources"), "resources")
        if not entries and not self.problems:
            self._required("resources", "at least one resources is required")
        return [self._rule(entry, f"resources[{number}]") for number, entry in enumerate(entries)]

    def _rule(self, tree: Any, path: str) -> EncryptedResources:
        rule = self._mapping(tree, path, ("resources", "providers"))
        names = [
            self._text(name, f"{path}.resources[{number}]")
            for number, name in enumerate(self._list(rule.get("resources"), f"{path}.resources"))
        ]
        if not names:
            self._required(f"{path}.resources", f"at least one {path}.resources is required")
        resources = tuple(map(_parsed, names))
        self._overlap(resources, names, f"{path}.resources")
        for number, name in enumerate(names):
            why = _name_problem(name)
            if why:
                self._invalid(f"{path}.resources[{number}]", name, why)
        providers = self._list(rule.get("providers"), f"{path}.providers")
        if not providers:
            self._required(f"{path}.providers", f"at least one {path}.providers is required")
        places = [f"{path}.providers[{number}]" for number in range(len(providers))]
        return EncryptedResources(resources, tuple(map(self._provider, providers, places)))

    def _overlap(self, resources: Sequence[GroupResource], names: list[str], path: str) -> None:
        if len(set(resources)) < len(resources):
            self._invalid(path, names, "the same resource cannot be specified multiple times")
        different = set(resources)
        everything = _ANY in different and len(different) > 1
        groups = [resource.group for resource in different]
        if everything or any(resource.resource == "*" and groups.count(resource.group) > 1 for resource in different):
            why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed"
            self._invalid(path, names, f"{why} as they will be masked")

    def _provider(self, tree: Any, path: str) -> Provider:
        fields = self._mapping(tree, path, _PROVIDERS)
        given = [name for name in _PROVIDERS if fields.get(name) is not None]
        if len(given) != 1:
            if given:
                why = "more than one provider specified in a single element, should split into different list elements"
            else:
                why = (
                    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
                )
            self.problems.append(f"{path}: Invalid value: {why}")
            return None
        kind, place = given[0], f"{path}.{given[0]}"
        if kind == "identity":
            self._mapping(fields[kind], place, ())
            return None
        if kind == "kms":
            return self._kms(fields[kind], place)
        for keyed in _KEY_SIZES:
            if keyed == kind:
                return KeyedProvider(keyed, self._keys(fields[kind], place, _KEY_SIZES[keyed]))
        raise AssertionError(kind)

    def _keys(self, tree: Any, path: str, sizes: tuple[int, ...]) -> tuple[SecretKey, ...]:
        keys = self._list(self._mapping(tree, path, ("keys",)).get("keys"), f"{path}.keys")
        if not keys:
            self._required(f"{path}.keys", "at least one keys is required")
        return tuple(self._key(key, f"{path}.keys[{number}]", sizes) for number, key in enumerate(keys))

    def _key(self, tree: Any, path: str, sizes: tuple[int, ...]) -> SecretKey:
        fields = self._mapping(tree, path, ("name", "secret"))
        name = self._text(fields.get("name"), f"{path}.name")
        if not name:
            self._required(f"{path}.name", "name is a mandatory field for a key")
        elif len(name.encode()) > _MAX_NAME:
            self.problems.append(f"{path}.name: Invalid value: must have at most {_MAX_NAME} bytes")
        text = self._text(fields.get("secret"), f"{path}.secret")
        if not text:
            self._required(f"{path}.secret", "secret is a mandatory field for a key")
            return SecretKey(name, b"")
        try:
            secret = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            self._invalid(f"{path}.secret", "REDACTED", "secrets must be base64 encoded")
            return SecretKey(name, b"")
        if len(secret) not in sizes:
            expected = f"[{' '.join(map(str, sizes))}]"
            why = f"secret is not of the expected length, got {len(secret)}, expected one of {expected}"
            self._invalid(f"{path}.secret", "REDACTED", why)
        return SecretKey(name, secret)

    def _kms(self, tree: Any, path: str) -> KmsSettings:
        fields = self._mapping(tree, path, _KMS_FIELDS)
        name = self._text(fields.get("name"), f"{path}.name")
        self._kms_name(name, f"{path}.name")
        version = self._text(fields.get("apiVersion"), f"{path}.apiVersion") or "v1"
        if version == "v1":
            self._invalid(f"{path}.apiVersion", "v1", "KMS v1 is not supported: use a plugin of v2, and write v2 here")
        elif version != "v2":
            self._invalid(
                f"{path}.apiVersion", version, "unsupported apiVersion for KMS provider, only v2 is supported"
            )
        if fields.get("cachesize") is not None:
            self._invalid(f"{path}.cachesize", fields["cachesize"], "cachesize is not supported in v2")
        endpoint = self._text(fields.get("endpoint"), f"{path}.endpoint")
        why = _endpoint_problem(endpoint)
        if why:
            self._invalid(f"{path}.endpoint", endpoint, why)
        return KmsSettings(name, endpoint, self._timeout(fields.get("timeout"), f"{path}.timeout"))

    def _kms_name(self, name: str, path: str) -> None:
        if not name:
            self._required(path, "name is a mandatory field for a provider")
        elif ":" in name:
            self._invalid(path, name, f"invalid KMS provider name {name[:_MAX_SHOWN]}, must not contain ':'")
        elif len(name.encode()) > _MAX_NAME:
            self.problems.append(f"{path}: Invalid value: must have at most {_MAX_NAME} bytes")
        if name and name in self._kms_names:
            self._invalid(path, name, f"duplicate KMS provider name {name[:_MAX_SHOWN]}, names must be unique")
        self._kms_names.add(name)

    def _timeout(self, tree: Any, path: str) -> float:
        text = self._text(tree, path)
        if not text:
            return _TIMEOUT_S
        try:
            timeout_s = parse_go_duration(text)
        except TimeError as error:
            self._invalid(path, text, str(error))
            return _TIMEOUT_S
        if timeout_s <= 0:
            self._invalid(path, text, "timeout should be a positive value")
        elif timeout_s > _MAX_TIMEOUT_S:
            self._invalid(path, text, f"timeout should be at most {_MAX_TIMEOUT_S:g}s")
        return timeout_s


def _parsed(name: str) -> GroupResource:
    resource, _, group = name.partition(".")
    return GroupResource(group, resource)


def _name_problem(name: str) -> str:
    """What is wrong with the name of a resource, ``""`` if nothing is."""
    resource = _parsed(name)
    if name.lower() != name:
        return "resource name should not contain capital letters"
    if name == "*":
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if name in _NO_API:
        return "resources which do not have REST API/s cannot be encrypted"
    if resource.group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. "
            "Use 'events' instead in the config file"
        )
    if resource.group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if resource.group == "*" and resource.resource != "*":
        return "encrypting the same resource across groups is not supported"
    if not resource.resource or "/" in name:
        return "write resource, resource.group, *.group, *. or *.*"
    return ""


def _endpoint_problem(endpoint: str) -> str:
    if not endpoint:
        return "endpoint is a mandatory field for a kms"
    try:
        url = parse_url(endpoint)
    except UrlError as error:
        return f"invalid endpoint for kms provider, error: {error}"
    if url.scheme != "unix":
        return f"unsupported scheme {quote(url.scheme)} for KMS provider, only unix is supported"
    if url.host or url.query or url.fragment or len(url.path) < 2:
        return "write unix:///path/of/the/socket, or unix:///@name of an abstract one"
    return ""


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
            while why := await _problem_of(added):  # noqa: ASYNC110 (the services are polled)
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
