"""`OwnIssuer`: tokens of service accounts, which the server issues itself: its keys, what signs, and what verifies."""

from __future__ import annotations

from collections.abc import Sequence

from oarlock.meta.context import Clock
from oarlock.policy.authn.stored_objects import StoredObjects
from oarlock.policy.authn.tokens.service_accounts import ServiceAccountTokens
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
from oarlock.server.config import ServerConfig
from oarlock.server.files.token_keys import TokenKeys

__all__ = ["OwnIssuer"]


class OwnIssuer:
    """Made of the options of a server. `files` are those of its keys. Raises `BadFile`, `KeyFileError`."""

    def __init__(self, config: ServerConfig, audiences: Sequence[str], objects: StoredObjects, clock: Clock) -> None:
        self._config, self._audiences, self._clock = config, audiences, clock
        self._objects = objects if config.service_account_lookup else None
        self._keys = TokenKeys(config)
        self.files = self._keys.files
        self.issuer = TokenIssuer(
            config.service_account_issuer[0],
            self._keys.signing,
            self._keys.verifying,
            audiences,
            clock,
            config.service_account_max_token_expiration_s,
        )

    def tokens(self) -> ServiceAccountTokens:
        """What verifies tokens with the keys, which are read again. Raises `BadFile`, `KeyFileError`."""
        self._keys.read()
        return ServiceAccountTokens(
            self._config.service_account_issuer, self._keys.verifying, self._audiences, self._objects, self._clock
        )
