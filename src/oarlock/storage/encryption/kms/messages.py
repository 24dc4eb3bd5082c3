"""The messages of the gRPC service ``v2.KeyManagementService``, as far as they are used.

Must not know: gRPC. Source: k8s.io/kms ``apis/v2/api.proto``. See also: `client`.
"""

from __future__ import annotations

from typing import NamedTuple

from oarlock.storage.encryption.kms.envelope import (
    EncryptedKey,
    MalformedMessage,
    bytes_field,
    fields_of,
    map_field,
    map_of,
    text_of,
)

__all__ = [
    "DECRYPT",
    "ENCRYPT",
    "STATUS",
    "KmsStatus",
    "decrypt_request",
    "encrypt_request",
    "read_decrypted",
    "read_encrypted",
    "read_status",
]

STATUS = "/v2.KeyManagementService/Status"
ENCRYPT = "/v2.KeyManagementService/Encrypt"
DECRYPT = "/v2.KeyManagementService/Decrypt"


class KmsStatus(NamedTuple):
    version: str
    healthz: str
    key_id: str


def encrypt_request(plaintext: bytes, uid: str) -> bytes:
    return bytes_field(1, plaintext) + bytes_field(2, uid.encode())


def decrypt_request(key: EncryptedKey, uid: str) -> bytes:
    return b"".join(
        (
            bytes_field(1, key.encrypted),
            bytes_field(2, uid.encode()),
            bytes_field(3, key.key_id.encode()),
            map_field(4, key.annotations),
        )
    )


def read_status(message: bytes) -> KmsStatus:
    """Raises `MalformedMessage`."""
    texts = {1: "", 2: "", 3: ""}
    for number, value in fields_of(message):
        if number in texts:
            texts[number] = text_of(value)
    return KmsStatus(texts[1], texts[2], texts[3])


def read_encrypted(message: bytes) -> EncryptedKey:
    """Raises `MalformedMessage`."""
    encrypted, key_id = b"", ""
    annotations: dict[str, bytes] = {}
    for number, value in fields_of(message):
        if number == 1 and isinstance(value, bytes):
            encrypted = value
        elif number == 2:
            key_id = text_of(value)
        elif number == 3:
            map_of(value, annotations)
    return EncryptedKey(key_id, encrypted, annotations)


def read_decrypted(message: bytes) -> bytes:
    """Raises `MalformedMessage`."""
    plaintext = b""
    for number, value in fields_of(message):
        if number == 1:
            if not isinstance(value, bytes):
                raise MalformedMessage("the plaintext is a number")
            plaintext = value
    return plaintext
