"""`ServerConfig`: all settings of a server process, as one value.

Independent of the command line (`options`); opens nothing. The defaults are those of `oarlock serve`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oarlock.storage.compactor import INTERVAL_S
from oarlock.storage.url import sqlite_path

__all__ = ["EVERY_INTERFACE", "ServerConfig"]

MIB = 1024 * 1024
EVERY_INTERFACE = ("", "0.0.0.0", "::")
"""Listen addresses that mean every interface, and so can't be shown to clients."""
DATA_DIRECTORY = "oarlock-data"
"""The data directory of a store that is on another machine, relative to the working directory."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of one process. Times in seconds, sizes in bytes.

    `storage` is a URL (``memory://``, ``sqlite:///relative``, ``sqlite:////absolute``). Without certificate files a
    serving certificate is generated in `cert_dir`, by default ``pki`` in the data directory, for this machine and the
    names and addresses in `tls_sans`. Without `token_auth_file` an admin token is generated in the data directory.
    `data_dir` is that directory; by default, for SQLite, the folder of its file. `secure_port` 0 takes any free port.
    `compaction_interval_s` is the interval of compactions; history is kept for one to two intervals.
    """

    bind_address: str = "127.0.0.1"
    secure_port: int = 6443
    storage: str = "sqlite:///oarlock.db"
    data_dir: Path | None = None
    cert_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    tls_sans: tuple[str, ...] = ()
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    anonymous_paths: tuple[str, ...] = ()
    write_kubeconfig: Path | None = None
    request_timeout_s: float = 60.0
    max_request_bytes: int = 3 * MIB
    shutdown_delay_s: float = 0.0
    http2: bool = True
    verbosity: int = 0
    max_read_only_in_flight: int = 400
    max_mutating_in_flight: int = 200
    max_unsent_bytes: int = 256 * MIB
    compaction_interval_s: float = INTERVAL_S

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
        return Path() if self.storage.startswith("memory:") else Path(DATA_DIRECTORY)

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
    def kubeconfig(self) -> Path | None:
        """The path of the kubeconfig to write; None for none."""
        if self.write_kubeconfig is not None or self.token_auth_file is not None:
            return self.write_kubeconfig
        return self.data_directory / f"{self.store_name}.kubeconfig"
