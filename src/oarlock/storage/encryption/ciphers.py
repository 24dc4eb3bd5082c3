"""The ciphers whose keys are in the configuration: AES-CBC, AES-GCM, secretbox, and none at all.

A cipher makes of a value what follows the prefix in the store. Only AES-GCM binds a value to its key in the store,
which is the authenticated data there: a value that was moved doesn't decrypt.

Must not know: prefixes, names of keys. Source: k8s.io/apiserver ``storage/value/encrypt``; kube-apiserver reads what
they make. See also: `rules`.
"""

from __future__ import annotations

import os
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

__all__ = [
    "ENCRYPTED",
    "AesCbc",
    "AesGcm",
    "CannotDecrypt",
    "Cipher",
    "KeyMissing",
    "NoCipher",
    "SecretBox",
    "open_gcm",
    "seal_gcm",
]

ENCRYPTED = b"k8s:enc:"
"""What every encrypted value begins with, and no other."""

NONCE_BYTES = 12
TAG_BYTES = 16
BLOCK_BYTES = 16

_ALTERED = "it was altered, or encrypted with another key of this name"


class CannotDecrypt(Exception):
    """The value can't be decrypted, now or later, with this cipher. The text is the reason."""


class KeyMissing(CannotDecrypt):
    """The value is encrypted with a key that isn't configured. `key` is its name, with the provider's."""

    def __init__(self, why: str, key: str) -> None:
        super().__init__(why)
        self.key = key


class Cipher(Protocol):
    """Encrypts and decrypts values. `key` is the value's key in the store."""

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        """Raises `Unavailable` when it can't encrypt at the moment."""
        ...

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """Raises `CannotDecrypt`, which says nothing of the plaintext."""
        ...


class AesGcm:
    """AES-GCM with a random nonce of 12 bytes before the ciphertext: for keys that are replaced often."""

    def __init__(self, secret: bytes) -> None:
        self._aead: Final = AESGCM(secret)

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        return seal_gcm(self._aead, value, key)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        return open_gcm(self._aead, data, key)


def seal_gcm(aead: AESGCM, value: bytes, key: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + aead.encrypt(nonce, value, key)


def open_gcm(aead: AESGCM, data: bytes, key: bytes) -> bytes:
    """Raises `CannotDecrypt`."""
    if len(data) < NONCE_BYTES + TAG_BYTES:
        raise CannotDecrypt("it is too short")
    try:
        return aead.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], key)
    except InvalidTag:
        raise CannotDecrypt(
            "it was altered or moved from another key, or encrypted with another key of this name"
        ) from None


class AesCbc:
    """AES-CBC with a random block before the ciphertext, padded as PKCS #7 says. Nothing authenticates it."""

    def __init__(self, secret: bytes) -> None:
        self._aes: Final = AES(secret)

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        start = os.urandom(BLOCK_BYTES)
        padding = BLOCK_BYTES - len(value) % BLOCK_BYTES
        encryptor = BlockCipher(self._aes, CBC(start)).encryptor()
        return b"".join((start, encryptor.update(value + bytes((padding,)) * padding), encryptor.finalize()))

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """Whatever is wrong with the padding, the error is the same."""
        if len(data) < 2 * BLOCK_BYTES or len(data) % BLOCK_BYTES:
            raise CannotDecrypt("it is cut off")
        decryptor = BlockCipher(self._aes, CBC(data[:BLOCK_BYTES])).decryptor()
        padded = decryptor.update(data[BLOCK_BYTES:]) + decryptor.finalize()
        padding = padded[-1]
        if not 1 <= padding <= BLOCK_BYTES or padded[-padding:] != bytes((padding,)) * padding:
            raise CannotDecrypt(_ALTERED)
        return padded[:-padding]


class SecretBox:
    """XSalsa20 and Poly1305, a random nonce of 24 bytes before the ciphertext. Raises `ImportError` without PyNaCl."""

    def __init__(self, secret: bytes) -> None:
        from nacl.exceptions import CryptoError  # noqa: PLC0415 (an extra)
        from nacl.secret import SecretBox as Box  # noqa: PLC0415

        self._box: Final = Box(secret)
        self._refusal: Final = CryptoError

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        return bytes(self._box.encrypt(value))

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        if len(data) < self._box.NONCE_SIZE + self._box.MACBYTES:
            raise CannotDecrypt("it is too short")
        try:
            return self._box.decrypt(data)
        except self._refusal:
            raise CannotDecrypt(_ALTERED) from None


class NoCipher:
    """No encryption. An encrypted value isn't taken for a plain one."""

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        return value

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        if data.startswith(ENCRYPTED):
            raise CannotDecrypt("it is encrypted")
        return data
