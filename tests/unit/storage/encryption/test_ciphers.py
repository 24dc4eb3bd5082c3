"""Ciphers make what kube-apiserver reads, read what it makes, and refuse everything else."""

from __future__ import annotations

import base64
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from hypothesis import given
from hypothesis import strategies as st

from oarlock.storage.backend import Stale
from oarlock.storage.encryption.ciphers import AesCbc, AesGcm, CannotDecrypt, Cipher, NoCipher, SecretBox
from oarlock.storage.encryption.kms.envelope import (
    EncryptedKey,
    SeededKeys,
    cipher_of,
    envelope_tail,
    problem_of,
    read_envelope,
    split_envelope,
    write_envelope,
)
from oarlock.storage.encryption.rules import NamedCipher, Transformer

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kube_vectors.json").read_text())
"""What k8s.io/apiserver 0.34 made: `stored`, of `plaintext` at `key`. Its key management service XORs with 0x5a."""

CIPHERS = {"aescbc": AesCbc, "aesgcm": AesGcm, "secretbox": SecretBox}
SECRET = bytes(range(32))
KEY = b"/registry/secrets/default/a"


def service_of(data: bytes) -> bytes:
    return bytes(byte ^ 0x5A for byte in data)


@pytest.mark.parametrize("vector", VECTORS, ids=[f"{n}-{v['cipher']}" for n, v in enumerate(VECTORS)])
def test_what_kube_apiserver_stored_is_read(vector: dict[str, Any]) -> None:
    stored, prefix = base64.b64decode(vector["stored"]), vector["prefix"].encode()
    data, key = stored[len(prefix) :], vector["key"].encode()
    assert stored.startswith(prefix)
    if vector["cipher"] in CIPHERS:
        plaintext = CIPHERS[vector["cipher"]](base64.b64decode(vector["secret"])).decrypt(data, key)
    else:
        envelope = read_envelope(data)
        assert envelope.source.key_id == "key-1"
        assert dict(envelope.source.annotations) == {"version.kms.example.com": b"7", "a.example.com": b"\0\xff"}
        cipher = cipher_of(envelope.source.type, service_of(envelope.source.encrypted))
        plaintext = cipher.decrypt(envelope.data, key)
    assert plaintext == base64.b64decode(vector["plaintext"])


@pytest.mark.parametrize("make", [*CIPHERS.values(), SeededKeys])
@given(value=st.binary(max_size=100))
def test_what_is_encrypted_is_decrypted(make: Any, value: bytes) -> None:
    cipher = make(SECRET)
    stored = cipher.encrypt(value, KEY)
    assert cipher.decrypt(stored, KEY) == value
    assert stored != cipher.encrypt(value, KEY), "each time another nonce"


@pytest.mark.parametrize("make", [AesGcm, SecretBox, SeededKeys])
def test_a_value_with_any_byte_flipped_or_cut_off_is_refused(make: Any) -> None:
    cipher = make(SECRET)
    stored = cipher.encrypt(b'{"a": 1}', KEY)
    for at in range(len(stored)):
        altered = stored[:at] + bytes((stored[at] ^ 1,)) + stored[at + 1 :]
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(altered, KEY)
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(stored[:at], KEY)


def test_a_value_moved_to_another_key_is_refused_by_gcm_and_by_kms() -> None:
    for cipher in (AesGcm(SECRET), SeededKeys(SECRET)):
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(cipher.encrypt(b"x", KEY), b"/registry/secrets/default/b")


def test_every_wrong_padding_is_one_error() -> None:
    cipher = AesCbc(SECRET)
    stored = cipher.encrypt(b"0123456789abcdef", KEY)  # a whole block of padding
    why = set()
    for byte in range(256):
        altered = stored[:-17] + bytes((stored[-17] ^ byte,)) + stored[-16:]
        try:
            cipher.decrypt(altered, KEY)
        except CannotDecrypt as error:
            why.add(str(error))
    assert len(why) == 1
    for size in (0, 15, 16, 17, len(stored) - 1):
        with pytest.raises(CannotDecrypt, match="cut off"):
            cipher.decrypt(stored[:size], KEY)


@given(data=st.binary(max_size=200))
def test_nothing_but_its_own_is_decrypted_and_nothing_else_is_raised(data: bytes) -> None:
    ciphers: list[Any] = [AesGcm(SECRET), SecretBox(SECRET), SeededKeys(SECRET)]
    for cipher in ciphers:
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(data, KEY)
    try:
        AesCbc(SECRET).decrypt(data, KEY)
    except CannotDecrypt:
        pass
    try:
        read_envelope(data)
    except CannotDecrypt:
        pass


def test_derived_keys_are_those_of_hkdf() -> None:
    info = os.urandom(32)
    assert hmac.digest(SECRET, info + b"\x01", "sha256") == HKDFExpand(SHA256(), 32, info).derive(SECRET)


def test_an_envelope_says_what_it_was_made_of() -> None:
    key = EncryptedKey("key", b"encrypted", {"b.example.com": b"2", "a.example.com": b""}, 1)
    envelope = read_envelope(write_envelope(key, b"data"))
    assert envelope.source == key
    assert envelope.data == b"data"
    assert key.digest() == key._replace(annotations={"a.example.com": b"", "b.example.com": b"2"}).digest()
    others = [key._replace(key_id="other"), key._replace(type=0), key._replace(annotations={})]
    assert len({one.digest() for one in (key, *others)}) == 4


@given(message=st.binary(max_size=60) | st.binary(max_size=60).map(lambda data: b"\x0a" + data))
def test_a_split_envelope_is_what_is_read_of_it(message: bytes) -> None:
    encrypted, tail = split_envelope(message)
    if not encrypted:
        return
    assert message.endswith(encrypted + tail)
    key = EncryptedKey("key", b"encrypted", {"a.example.com": b"1"}, 1)
    whole = write_envelope(key, encrypted)
    assert split_envelope(whole) == (encrypted, envelope_tail(key))
    assert read_envelope(whole) == (key, encrypted)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (EncryptedKey("", b"x", {}), "keyID is empty"),
        (EncryptedKey("k" * 1025, b"x", {}), "keyID is 1025 bytes"),
        (EncryptedKey("k", b"", {}), "encrypted DEK source is empty"),
        (EncryptedKey("k", b"x" * 1025, {}), "encrypted DEK source is 1025 bytes"),
        (EncryptedKey("k", b"x", {"a.b": b"x" * 33_000}), "annotations are 33003 bytes"),
        (EncryptedKey("k", b"x", {"nodots": b""}), "not a fully qualified domain name"),
        (EncryptedKey("k", b"x", {}, 2), "unknown encryptedDEKSourceType: 2"),
    ],
)
def test_what_a_service_may_not_answer(key: EncryptedKey, why: str) -> None:
    assert why in problem_of(key)


# Several ciphers of one rule


def transformer(*ciphers: tuple[str, Cipher]) -> Transformer:
    return Transformer([NamedCipher(prefix.encode(), cipher) for prefix, cipher in ciphers], "rules.yaml")


NEW, OLD = ("k8s:enc:aescbc:v1:key2:", AesCbc(bytes(32))), ("k8s:enc:aescbc:v1:key1:", AesCbc(SECRET))
PLAIN = ("", NoCipher())


def test_the_first_encrypts_all_decrypt_and_what_another_has_encrypted_is_stale() -> None:
    before = transformer(OLD, PLAIN)
    after = transformer(NEW, OLD, PLAIN)
    stored = before.encrypt(b"x", KEY)
    assert stored.startswith(b"k8s:enc:aescbc:v1:key1:")
    assert type(before.decrypt(stored, KEY)) is bytes
    assert isinstance(after.decrypt(stored, KEY), Stale)
    assert isinstance(after.decrypt(b"x", KEY), Stale)
    again = after.encrypt(after.decrypt(stored, KEY), KEY)
    assert type(after.decrypt(again, KEY)) is bytes
    assert after.decrypt(again, KEY) == b"x"


def test_with_identity_first_encrypted_values_are_decrypted_and_stale() -> None:
    stored = transformer(OLD).encrypt(b"x", KEY)
    leaving = transformer(PLAIN, OLD)
    assert isinstance(leaving.decrypt(stored, KEY), Stale)
    assert leaving.encrypt(b"x", KEY) == b"x"


def test_several_keys_of_one_name_are_tried() -> None:
    same_name = ("k8s:enc:secretbox:v1:key1:", SecretBox(bytes(32)))
    old = ("k8s:enc:secretbox:v1:key1:", SecretBox(SECRET))
    assert transformer(same_name, old).decrypt(transformer(old).encrypt(b"x", KEY), KEY) == b"x"


def test_a_key_that_is_gone_is_named() -> None:
    stored = transformer(OLD).encrypt(b"x", KEY)
    with pytest.raises(CannotDecrypt, match=r'a key that rules.yaml doesn\'t have \(aescbc key "key1"\)'):
        transformer(NEW, PLAIN).decrypt(stored, KEY)
    with pytest.raises(CannotDecrypt, match=r'\(aescbc key "key1"\): it was altered'):
        transformer(OLD).decrypt(stored[:-17] + bytes([stored[-17] ^ 0x10]) + stored[-16:], KEY)  # the padding is 31
    with pytest.raises(CannotDecrypt, match="it isn't encrypted"):
        transformer(OLD).decrypt(b"{}", KEY)


def test_what_a_value_says_of_its_key_is_shown_in_one_short_line() -> None:
    for value in (b"k8s:enc:a\nb:v1:" + b"x" * 10_000, b"k8s:enc:aescbc:v1:" + b"\xff\n" * 500 + b":"):
        with pytest.raises(CannotDecrypt) as caught:
            transformer(OLD).decrypt(value, KEY)
        assert len(str(caught.value)) < 1000
        assert "\n" not in str(caught.value)
