"""`OwnIssuer`: tokens of service accounts, which the server issues itself: its keys, what signs, and what verifies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oarlock.meta.context import Clock
from oarlock.policy.authn.authenticator import StoredObjects
from oarlock.policy.authn.tokens.jwt import VerificationKey
from oarlock.policy.authn.tokens.service_accounts import SecretTokenUses, ServiceAccountTokens
from oarlock.policy.authn.tokens.token_issuer import (
    SigningKey,
    TokenIssuer,
    distinct,
    load_signing_key,
    load_verification_keys,
)
from oarlock.server.config import ServerConfig
from oarlock.server.files.credentials import BadFile, locked, read_file, write_file


class TokenKeys:
    """The keys of a server's own issuer. Raises `BadFile`, `KeyFileError`."""

    def __init__(self, config: ServerConfig) -> None:
        self._signing_file = config.service_account_signing_key_file or _made_key(config.service_account_key)
        self._further_files = config.service_account_key_file
        self.files: tuple[Path, ...] = (self._signing_file, *self._further_files)
        self._read: list[bytes] = []
        self.read()

    def read(self) -> None:
        """Read the files again. Changes nothing if one can't be used, or if they are as they were."""
        contents = [read_file(file) for file in self.files]
        if contents == self._read:
            return  # checking an RSA key takes as long as a thousand requests
        signing = load_signing_key(contents[0], str(self._signing_file))
        others = zip(self._further_files, contents[1:], strict=True)
        further = [key for file, content in others for key in load_verification_keys(content, str(file))]
        self._signing, self._keys, self._read = signing, tuple(distinct([signing.public, *further])), contents

    def signing(self) -> SigningKey:
        """The key that signs."""
        return self._signing

    def verifying(self) -> tuple[VerificationKey, ...]:
        """The keys that verify, that which signs first."""
        return self._keys


def _made_key(file: Path) -> Path:
    """The file with the server's own key, made if there is none. All servers that start at once get the same."""
    try:
        if not file.exists():
            with locked(file.parent):
                if not file.exists():
                    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
                    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                    write_file(file, pem, 0o600)
    except OSError as error:
        raise BadFile(f"{file}: {error.strerror}") from error
    return file


class OwnIssuer:
    """Made of the options of a server. `files` are those of its keys. Raises `BadFile`, `KeyFileError`."""

    def __init__(self, config: ServerConfig, audiences: Sequence[str], objects: StoredObjects, clock: Clock) -> None:
        self._config, self._audiences, self._clock = config, audiences, clock
        self._objects = objects if config.service_account_lookup else None
        self._keys = TokenKeys(config)
        self.files = self._keys.files
        self.uses = SecretTokenUses()
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
            self._config.service_account_issuer,
            self._keys.verifying,
            self._audiences,
            self._objects,
            self._clock,
            self.uses,
        )
