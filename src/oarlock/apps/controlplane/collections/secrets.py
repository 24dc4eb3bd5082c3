"""What the server does with secrets beyond storing them. Source: Kubernetes' validation of Secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

import msgspec

from oarlock.apps.kinds.core.objects import ConfigMap, Secret
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required, TooLong
from oarlock.meta.go.gotext import MAX_DEPTH, syntax_error
from oarlock.meta.names import regex_complaint
from oarlock.registry.hooks.collection import StoredCollection

MOST_BYTES = 1024 * 1024
_LONGEST_KEY = 253
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)

_GOOD_KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}", re.ASCII)

_CHARACTERS = regex_complaint(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)


def key_errors(field: str, keys: Iterable[str]) -> Iterator[FieldError]:
    """What is wrong with the keys of the dict called `field`."""
    if all(map(_GOOD_KEY.fullmatch, keys)):
        return
    for key in sorted(key for key in keys if _GOOD_KEY.fullmatch(key) is None):
        for complaint in _complaints(key):
            yield Invalid(f"{field}[{key}]", key, complaint)


def _complaints(key: str) -> Iterator[str]:
    if len(key) > _LONGEST_KEY:
        yield f"must be no more than {_LONGEST_KEY} characters"
    if _KEY.fullmatch(key) is None:
        yield _CHARACTERS
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def changed_although_immutable(
    new: ConfigMap | Secret, old: ConfigMap | Secret, fields: Iterable[str]
) -> Iterator[str]:
    """The fields (their Python names) that an update changes although the object is immutable."""
    if old.immutable:
        if not new.immutable:
            yield "immutable"
        for name in fields:
            if getattr(new, name) != getattr(old, name):
                yield name


def forbidden(field: str) -> FieldError:
    """The error of a field that `changed_although_immutable` names."""
    return Forbidden(field, "field is immutable when `immutable` is set")


_WIRE = {"immutable": "immutable", "data": "data", "binary_data": "binaryData"}


class ConfigMapCollection(StoredCollection[ConfigMap]):
    """Config maps have valid keys and a limited size, and stay as they are once they are immutable."""

    __threadsafe__ = True

    def validate(self, new: ConfigMap, old: ConfigMap | None, ctx: Context) -> Iterator[FieldError]:
        if new.binary_data:
            for key in sorted(new.data.keys() & new.binary_data.keys()):
                yield Invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from key_errors("data", new.data)
        if new.binary_data:
            yield from key_errors("binaryData", new.binary_data)
        size = sum(map(len, map(str.encode, new.data.values()))) + sum(map(len, new.binary_data.values()))
        if size > MOST_BYTES:
            yield TooLong("[]", MOST_BYTES)
        if old is not None and old.immutable:
            for name in changed_although_immutable(new, old, ("data", "binary_data")):
                yield forbidden(_WIRE[name])


SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
TLS = "kubernetes.io/tls"
SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
"""The annotation that names the account of such a secret."""

_DOCKER_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_REQUIRED = {
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    TLS: ("tls.crt", "tls.key"),
}
_BASIC = ("username", "password")


class SecretCollection(StoredCollection[Secret]):
    """Secrets have what their type needs, and keep their type."""

    __threadsafe__ = True

    def validate(self, new: Secret, old: Secret | None, ctx: Context) -> Iterator[FieldError]:
        wrong = [*key_errors("data", new.data), *_missing_parts(new)]
        if sum(map(len, new.data.values())) > MOST_BYTES:
            wrong.append(TooLong("data", MOST_BYTES))
        yield from wrong
        if old is None:
            if new.type == TLS and not wrong:
                _warn_of_no_certificate(new, ctx)
            return
        if new.type != old.type:
            yield Invalid("type", new.type, "field is immutable")
        for name in changed_although_immutable(new, old, ("data",)):
            yield forbidden(name)


def _warn_of_no_certificate(secret: Secret, ctx: Context) -> None:
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN " not in secret.data.get(key, b"-----BEGIN "):
            ctx.warn(f"tls: failed to find any PEM data in {what} input")
            return


def _missing_parts(secret: Secret) -> Iterator[FieldError]:
    kind = secret.type
    if kind == SERVICE_ACCOUNT_TOKEN and not secret.metadata.annotations.get(SERVICE_ACCOUNT_NAME):
        yield Required(f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]")
    for key in _REQUIRED.get(kind, ()):
        if (not secret.data.get(key)) if kind == "kubernetes.io/ssh-auth" else key not in secret.data:
            yield Required(f"data[{key}]")
    if kind == "kubernetes.io/basic-auth" and not any(key in secret.data for key in _BASIC):
        for key in _BASIC:
            yield Required(f"data[{key}]")
    if kind in _DOCKER_KEYS:
        yield from _docker_errors(secret, _DOCKER_KEYS[kind])


def _docker_errors(secret: Secret, key: str) -> Iterator[FieldError]:
    if key not in secret.data:
        yield Required(f"data[{key}]")
        return
    why = _why_no_object(secret.data[key])
    if why:
        yield Invalid(f"data[{key}]", "<secret contents redacted>", why)


def _why_no_object(data: bytes) -> str:
    """What Go says of JSON that is no object; empty for an object, and for null. Its values aren't decoded."""
    too_deep = _is_too_deep(data)
    if not too_deep:
        try:
            _decode_object(data)
        except (ValueError, RecursionError):
            pass
        else:
            return ""
    if len(data) > _MOST_SCANNED:
        return "exceeded max depth" if too_deep else "invalid JSON"
    why = syntax_error(data)
    if why:
        return why
    kind = _GO_KINDS.get(data.lstrip(b" \t\r\n")[:1], "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" if kind else ""


def _is_too_deep(data: bytes) -> bool:
    """Whether more brackets are open in one another than Go reads. Decoders of other Pythons go to other depths."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    brackets = _texts.sub(b"", data).translate(None, _OTHERS)
    return max(accumulate(1 if bracket in b"{[" else -1 for bracket in brackets), default=0) > MAX_DEPTH


_texts = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_OTHERS = bytes({*range(256)} - {*b"{}[]"})
_MOST_SCANNED = 64 * 1024
"""In bytes. In more JSON nobody looks for the exact error, for the time that takes."""

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_GO_KINDS = {b"{": "", b"n": "", b"[": "array", b'"': "string", b"t": "bool", b"f": "bool"}
