"""`Transformer`: encrypts and decrypts the values of one rule, with ciphers in order.

The first cipher encrypts. A value is decrypted by the ciphers whose prefix it has, in order: several may have the same
while a key is replaced. One that another cipher than the first has decrypted is `Stale`.

Must not know: which keys the rule is for. See also: `rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.storage.backend import Stale
from oarlock.storage.encryption.ciphers import ENCRYPTED, CannotDecrypt, Cipher, KeyMissing, NoCipher

__all__ = ["NamedCipher", "Transformer", "plain", "shown_prefix"]

SHOWN = 80


@dataclass(frozen=True, slots=True)
class NamedCipher:
    """A cipher with the prefix of its values: ``k8s:enc:aescbc:v1:key1:``, nothing for `NoCipher`."""

    prefix: bytes
    cipher: Cipher


class Transformer:
    """The ciphers of one rule, at least one. `source` names the configuration in messages."""

    def __init__(self, ciphers: Sequence[NamedCipher], source: str) -> None:
        self.ciphers: Final = tuple(ciphers)
        self._prefix: Final = ciphers[0].prefix
        self._encrypt: Final = ciphers[0].cipher.encrypt
        self._decrypt: Final = ciphers[0].cipher.decrypt
        self._source: Final = source

    def encrypt(self, value: bytes, key: bytes) -> bytes:
        """The value as it is stored. Raises `Unavailable`."""
        return self._prefix + self._encrypt(value, key)

    def decrypt(self, data: bytes, key: bytes) -> bytes:
        """The value in the store as it was written, `Stale` if it should be written again.

        Raises `CannotDecrypt`, and `kms.envelope.KeyNeeded` when a key must be asked for first.
        """
        prefix = self._prefix
        why: CannotDecrypt | None = None
        if data.startswith(prefix):
            try:
                return self._decrypt(data[len(prefix) :], key)
            except CannotDecrypt as error:
                why = error if prefix else None
        for cipher in self.ciphers[1:]:
            if data.startswith(cipher.prefix):
                try:
                    return Stale(cipher.cipher.decrypt(data[len(cipher.prefix) :], key))
                except CannotDecrypt as error:
                    why = error if cipher.prefix and why is None else why
        if why is not None:
            raise CannotDecrypt(f"it can't be decrypted ({shown_prefix(data)}): {why}")
        if data.startswith(ENCRYPTED):
            missing = shown_prefix(data)
            raise KeyMissing(f"it is encrypted with a key that {self._source} doesn't have ({missing})", missing)
        raise CannotDecrypt(f"it isn't encrypted, and {self._source} has no identity provider for it")

    def lacks(self, data: bytes) -> str:
        """The name of the key that is needed for a value and isn't there; ``""`` if one may fit."""
        if not data.startswith(ENCRYPTED) or any(
            cipher.prefix and data.startswith(cipher.prefix) for cipher in self.ciphers
        ):
            return ""
        return shown_prefix(data)


def plain(source: str) -> Transformer:
    """What applies to objects without a rule: they are not encrypted."""
    return Transformer([NamedCipher(b"", NoCipher())], source)


def shown_prefix(data: bytes) -> str:
    """What an encrypted value says of its key, for messages: ``aescbc key "key1"``."""
    parts = data[: SHOWN * 2].split(b":")
    if len(parts) < 6:
        return quote(data[:SHOWN].decode("ascii", "replace"))
    _, _, provider, _, name, *_ = parts
    kind = "provider" if provider == b"kms" else "key"
    return f"{_text(provider)} {kind} {quote(_text(name))}"


def _text(part: bytes) -> str:
    return part[:SHOWN].decode("utf-8", "replace")
