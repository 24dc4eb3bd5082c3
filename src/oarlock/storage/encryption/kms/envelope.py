"""`Envelope`: what is stored of an object that was encrypted with a key from a service, and the ciphers for it.

It is the protobuf message ``v2.EncryptedObject``: the ciphertext, and the encrypted seed (or key) that it was encrypted
with, with what the service wants to see again to decrypt that.

Must not know: the service. See also: `provider`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from oarlock.storage.encryption.ciphers import CannotDecrypt, open_gcm, seal_gcm

__all__ = [
    "SEED_BYTES",
    "SEED_TYPE",
    "DataCipher",
    "EncryptedKey",
    "Envelope",
    "FixedKey",
    "MalformedMessage",
    "SeededKeys",
    "bytes_field",
    "cipher_of",
    "envelope_tail",
    "fields_of",
    "key_id_problem",
    "map_field",
    "map_of",
    "number_field",
    "problem_of",
    "read_envelope",
    "split_envelope",
    "text_of",
    "write_envelope",
]

_MAX_VARINT_BYTES = 10
_WIDTHS = {1: 8, 5: 4}


class MalformedMessage(ValueError):
    """The bytes are not a valid message."""


def bytes_field(number: int, value: bytes) -> bytes:
    """The field; nothing for an empty value, as proto3 has it."""
    return b"".join((_varint(number << 3 | 2), _varint(len(value)), value)) if value else b""


def number_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def map_field(number: int, values: Mapping[str, bytes]) -> bytes:
    entries = (bytes_field(1, key.encode()) + bytes_field(2, value) for key, value in sorted(values.items()))
    return b"".join(_varint(number << 3 | 2) + _varint(len(entry)) + entry for entry in entries)


def fields_of(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message in order: bytes, or a number. Raises `MalformedMessage`."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint_at(data, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise MalformedMessage("a field has the number 0")
        if kind == 0:
            value, at = _varint_at(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint_at(data, at)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise MalformedMessage(f"field {number} has the wire type {kind}")
        if size > end - at:
            raise MalformedMessage(f"field {number} is cut off")
        yield number, data[at : at + size]
        at += size


def map_of(entry: bytes | int, values: dict[str, bytes]) -> None:
    """Add an entry of a map field to `values`. Raises `MalformedMessage`."""
    key, value = "", b""
    for number, part in fields_of(_bytes(entry)):
        if number == 1:
            key = text_of(part)
        elif number == 2:
            value = _bytes(part)
    values[key] = value


def text_of(value: bytes | int) -> str:
    """Raises `MalformedMessage`."""
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("a text is not UTF-8") from None


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise MalformedMessage("there is a number in place of bytes")
    return value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at
    raise MalformedMessage("a number is cut off or too large")


SEED_BYTES = 32
INFO_BYTES = 32

KEY_TYPE, SEED_TYPE = 0, 1
"""``encryptedDEKSourceType``: what is encrypted is the key itself, or a seed to derive keys from."""

MAX_KEY_ID_BYTES = 1024
MAX_ENCRYPTED_BYTES = 1024
MAX_ANNOTATION_BYTES = 32 * 1024
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_MAX_DOMAIN = 253


class EncryptedKey(NamedTuple):
    """A seed or key as the service has encrypted it."""

    key_id: str
    encrypted: bytes
    annotations: Mapping[str, bytes]
    type: int = SEED_TYPE

    def digest(self) -> bytes:
        """The same for two that decrypt alike, and for no others."""
        parts = [str(self.type).encode(), self.key_id.encode(), self.encrypted]
        for name, value in sorted(self.annotations.items()):
            parts += [name.encode(), value]
        return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


class Envelope(NamedTuple):
    source: EncryptedKey
    data: bytes


def problem_of(key: EncryptedKey) -> str:
    """What is wrong with it, ``""`` for nothing."""
    if key.type not in (KEY_TYPE, SEED_TYPE):
        return f"unknown encryptedDEKSourceType: {key.type}"
    if not key.encrypted:
        return "encrypted DEK source is empty"
    if len(key.encrypted) > MAX_ENCRYPTED_BYTES:
        return f"encrypted DEK source is {len(key.encrypted)} bytes, the most is {MAX_ENCRYPTED_BYTES}"
    why = key_id_problem(key.key_id)
    if why:
        return why
    size = sum(len(name.encode()) + len(value) for name, value in key.annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        return f"annotations are {size} bytes, the most is {MAX_ANNOTATION_BYTES}"
    if not all(len(name) <= _MAX_DOMAIN and _DOMAIN.fullmatch(name) for name in key.annotations):
        return "an annotation's key is not a fully qualified domain name"
    return ""


def key_id_problem(key_id: str) -> str:
    """What is wrong with a key id, ``""`` for nothing."""
    size = len(key_id.encode())
    if not size:
        return "keyID is empty"
    return f"keyID is {size} bytes, the most is {MAX_KEY_ID_BYTES}" if size > MAX_KEY_ID_BYTES else ""


def write_envelope(key: EncryptedKey, data: bytes) -> bytes:
    return bytes_field(1, data) + envelope_tail(key)


def envelope_tail(key: EncryptedKey) -> bytes:
    """What follows the ciphertext in each envelope of `key`."""
    return b"".join(
        (
            bytes_field(2, key.key_id.encode()),
            bytes_field(3, key.encrypted),
            map_field(4, key.annotations),
            number_field(5, key.type),
        )
    )


def split_envelope(message: bytes) -> tuple[bytes, bytes]:
    """The ciphertext and what follows it, in an envelope as servers write it; the latter is the same for each key.

    The ciphertext is empty if the envelope is written otherwise.
    """
    if message[:1] != b"\x0a":
        return b"", message
    size = shift = 0
    for at in range(1, 6):
        byte = message[at] if at < len(message) else 0
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return message[at + 1 : at + 1 + size], message[at + 1 + size :]
    return b"", message


def read_envelope(message: bytes) -> Envelope:
    """Raises `CannotDecrypt`."""
    data, key_id, encrypted, kind = b"", "", b"", 0
    annotations: dict[str, bytes] = {}
    try:
        for number, value in fields_of(message):
            if number == 5 and isinstance(value, int):
                kind = value
            elif number == 4:
                map_of(value, annotations)
            elif number == 2:
                key_id = text_of(value)
            elif number in (1, 3) and isinstance(value, bytes):
                data, encrypted = (value, encrypted) if number == 1 else (data, value)
    except MalformedMessage as error:
        raise CannotDecrypt(f"it isn't an envelope: {error}") from None
    source = EncryptedKey(key_id, encrypted, annotations, kind)
    why = problem_of(source) or ("" if data else "encrypted data is empty")
    if why:
        raise CannotDecrypt(f"it isn't an envelope: {why}")
    return Envelope(source, data)


class DataCipher(Protocol):
    """Decrypts what an envelope holds."""

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """Raises `CannotDecrypt`."""
        ...


class SeededKeys:
    """AES-GCM with a key of its own for each value: derived from the seed and 32 random bytes before the ciphertext.

    So one seed may encrypt any number of values, though nonces are random.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed: Final = seed

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        info = os.urandom(INFO_BYTES)
        return info + seal_gcm(self._aead(info), value, key)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        if len(data) < INFO_BYTES:
            raise CannotDecrypt("it is too short")
        return open_gcm(self._aead(data[:INFO_BYTES]), data[INFO_BYTES:], key)

    def _aead(self, info: bytes) -> AESGCM:
        # HKDF-Expand (RFC 5869) with SHA-256: its first block is the whole key.
        return AESGCM(hmac.digest(self._seed, info + b"\x01", "sha256"))


class FixedKey:
    """AES-GCM with one key: what older servers wrote. Only to decrypt."""

    def __init__(self, secret: bytes) -> None:
        self._aead: Final = AESGCM(secret)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        return open_gcm(self._aead, data, key)


def cipher_of(type: int, secret: bytes) -> DataCipher:
    """The cipher for a decrypted seed or key. Raises `CannotDecrypt` when the service gave something else."""
    if type == SEED_TYPE:
        if len(secret) < SEED_BYTES:
            raise CannotDecrypt(f"the service gave a seed of {len(secret)} bytes")
        return SeededKeys(secret)
    if len(secret) not in (16, 24, 32):
        raise CannotDecrypt(f"the service gave a key of {len(secret)} bytes")
    return FixedKey(secret)
