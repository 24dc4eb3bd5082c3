"""The values of an ``EncryptionConfiguration`` (``apiserver.config.k8s.io/v1``), decoded strictly and checked.

Every mistake is found at once, with its field, in kube-apiserver's words where it has some. No message shows a secret.
Must not know: files, ciphers. Source: k8s.io/apiserver ``apis/apiserver/validation``. See also: `reload`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import GroupResource
from oarlock.meta.times import TimeError, parse_go_duration
from oarlock.net.url import UrlError, parse_url
from oarlock.storage.encryption.kms.provider import KmsSettings

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
