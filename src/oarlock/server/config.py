"""`ServerConfig`: all settings of a server process, as one value.

The command line and the configuration file make one, and so may a program. Opens nothing. See also: ``options``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.groups.audit import AuditOptions
from oarlock.server.options.groups.authentication import AuthenticationOptions, OpenIDOptions
from oarlock.server.options.groups.authorization import AuthorizationOptions
from oarlock.server.options.groups.generic import (
    ClusterRulesOptions,
    ConsoleOptions,
    FeatureOptions,
    GenericOptions,
    LogOptions,
    VersionOptions,
)
from oarlock.server.options.groups.serving import ServingOptions
from oarlock.server.options.groups.storage import StorageOptions
from oarlock.server.options.option import Problem
from oarlock.storage.url import sqlite_path

__all__ = ["EVERY_INTERFACE", "ExtensionConfig", "ServerConfig"]

EVERY_INTERFACE = ("", "0.0.0.0", "::")
"""Listen addresses that mean every interface, and so can't be shown to clients."""
DATA_DIRECTORY = "oarlock-data"
"""The data directory of a store that is on another machine, relative to the working directory."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerConfig(
    ServingOptions,
    StorageOptions,
    AuthenticationOptions,
    OpenIDOptions,
    AuthorizationOptions,
    AuditOptions,
    GenericOptions,
    FeatureOptions,
    ConsoleOptions,
    VersionOptions,
    LogOptions,
):
    """The settings of one process, as ``oarlock serve --help`` and docs/flags.md describe them.

    Times are in seconds, sizes in bytes. Raises `ConfigError`, which lists every invalid value.
    """

    def check(self) -> Iterator[Problem]:
        if self.workers > 1 and self.in_memory:
            yield Problem(
                "workers", "need a shared store, and each process has memory of its own: set another `storage`"
            )

        if self.serving_certificate_secret and self.authentication_kubeconfig is None:
            yield Problem("serving_certificate_secret", "needs `authentication_kubeconfig`: the cluster that has it")

    @property
    def in_memory(self) -> bool:
        """Whether the store ends with the process."""
        return self.storage.startswith("memory:")

    @property
    def data_directory(self) -> Path:
        """Where generated files are kept: token, kubeconfig, certificates. Raises StorageError."""
        return self.default_data_directory if self.data_dir is None else self.data_dir

    @property
    def default_data_directory(self) -> Path:
        """The folder of the SQLite file; the working directory for ``memory:``; else `DATA_DIRECTORY`."""
        path = sqlite_path(self.storage)
        if path is not None:
            return path.parent
        return Path() if self.in_memory else Path(DATA_DIRECTORY)

    @property
    def store_name(self) -> str:
        """The prefix of files that belong to the store: ``oarlock`` for ``sqlite:///oarlock.db``."""
        path = sqlite_path(self.storage)
        return "oarlock" if path is None else path.stem

    @property
    def certificates(self) -> Path:
        """The directory of generated certificates."""
        return self.cert_dir or self.data_directory / "pki"

    @property
    def admin_token(self) -> Path:
        """The file of the generated admin token."""
        return self.data_directory / f"{self.store_name}.token"

    @property
    def service_account_key(self) -> Path:
        """The file of the generated key that signs tokens of service accounts."""
        return self.data_directory / f"{self.store_name}.service-accounts.key"

    @property
    def store_mark(self) -> Path:
        """The file in which a server remembers what it has seen of its store."""
        return self.data_directory / f"{self.store_name}.seen"

    @property
    def kubeconfig(self) -> Path | None:
        """The path of the kubeconfig to write; None for none."""
        if self.write_kubeconfig is not None or self.token_auth_file is not None:
            return self.write_kubeconfig
        return self.data_directory / f"{self.store_name}.kubeconfig"


@dataclass(frozen=True, kw_only=True, repr=False)
class ExtensionConfig(ServerConfig, ClusterRulesOptions):
    """The settings of a server that a cluster may stand in front of: those of `ServerConfig`, and whose rules hold."""
