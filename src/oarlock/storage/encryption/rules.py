"""`EncryptionRules`: which transformer belongs to a key in the store.

A rule is for a resource (``secrets``, ``flunders.wardle.example.com``), for a group (``*.apps``, ``*.`` for the core
group), or for everything (``*.*``): the most special one applies. They are for objects, whose keys begin with
``/registry/``. What a server keeps for itself beside them, such as the records of definitions, is not encrypted: it
holds nothing of an object, and a server without the keys must be able to read it.

Must not know: how rules are written in a file. See also: `transformer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.meta.kinds import GroupResource
from oarlock.storage.encryption.kms.provider import KmsProvider
from oarlock.storage.encryption.transformer import Transformer, plain

__all__ = ["ANY", "EncryptionRules"]

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
