"""``--encryption-provider-config`` for commands that read the values of a store."""

from __future__ import annotations

from pathlib import Path

from oarlock.meta.context import Clock
from oarlock.server.options.groups.storage import ReadStoreOptions
from oarlock.storage.backend import Backend
from oarlock.storage.care.opening import Wrap

__all__ = ["decrypted_with", "encryption_of"]


def encryption_of(options: ReadStoreOptions) -> Wrap | None:
    """What `opened` wraps the backend with; None without the option."""
    return decrypted_with(options.encryption_provider_config)


def decrypted_with(path: Path | None) -> Wrap | None:
    """The same for the path of an EncryptionConfiguration."""
    if path is None:
        return None

    def wrap(backend: Backend, clock: Clock) -> Backend:
        from oarlock.server.encryption.reload import encrypted  # noqa: PLC0415 (few commands need the ciphers)

        return encrypted(backend, path, clock)

    return wrap
