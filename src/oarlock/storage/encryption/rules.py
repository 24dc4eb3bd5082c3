"""`EncryptionRules`: which transformer belongs to a key in the store.

A rule is for a resource (``secrets``, ``flunders.wardle.example.com``), for a group (``*.apps``, ``*.`` for the core
group), or for everything (``*.*``): the most special one applies. They are for objects, whose keys begin with
``/registry/``. What a server keeps for itself beside them, such as the records of definitions, is not encrypted: it
holds nothing of an object, and a server without the keys must be able to read it.

Must not know: how rules are written in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupResource
from oarlock.storage.backend import Stale
from oarlock.storage.encryption.ciphers import ENCRYPTED, CannotDecrypt, Cipher, KeyMissing, NoCipher
from oarlock.storage.encryption.kms.provider import KmsProvider

__all__ = ["ANY", "EncryptionRules", "NamedCipher", "Transformer", "plain", "shown_prefix"]

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


ANY = "*"
_ROOT = "/registry/"
_SKIP = len(_ROOT)
_MANY = 10_000
"""So many resources are remembered."""


class EncryptionRules:
    """The rules of one configuration. `providers` are its key management services, in order.

    `source` names the configuration in messages, `digest` is of its text.
    """

    def __init__(
        self,
        rules: Mapping[GroupResource, Transformer],
        providers: Sequence[KmsProvider] = (),
        *,
        source: str = "the configuration",
        digest: str = "",
    ) -> None:
        self.providers: Final = tuple(providers)
        self.source: Final = source
        self.digest: Final = digest
        self._rules: Final = dict(rules)
        self._plain: Final = plain(source)
        self._by_prefix: dict[str, Transformer] = {}

    @property
    def encrypting(self) -> tuple[KmsProvider, ...]:
        """The providers that something is encrypted with; others are only there to decrypt."""
        first = [rule.ciphers[0].cipher for rule in self._rules.values()]
        return tuple(provider for provider in self.providers if provider in first)

    def transformer(self, key: str) -> Transformer | None:
        """The transformer for the value at `key`; None for a key that isn't an object's."""
        if not key.startswith(_ROOT):
            return None
        prefix = key[: key.find("/", key.find("/", _SKIP) + 1) + 1]
        found = self._by_prefix.get(prefix)
        if found is None:
            found = self._find(prefix)
            if len(self._by_prefix) >= _MANY:
                self._by_prefix.clear()
            self._by_prefix[prefix] = found
        return found

    def _find(self, prefix: str) -> Transformer:
        group, _, resource = prefix[_SKIP:-1].partition("/")
        names = [GroupResource(group, resource), GroupResource(group, ANY)]
        if not group:
            # a group that is stored without its name has no resource that another such group has too
            names[1:1] = [
                GroupResource(name, resource) for name, group in BUILT_IN_GROUPS.items() if group.stored_by_name
            ]
        for name in (*names, GroupResource(ANY, ANY)):
            if name in self._rules:
                return self._rules[name]
        return self._plain
