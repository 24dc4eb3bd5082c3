"""Options of the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.option import OptionGroup, Problem, option, options_of
from oarlock.server.options.types import BooleanType, DurationType, PathType, StringListType, StringType, URLType
from oarlock.storage.backend import StorageError
from oarlock.storage.compactor import INTERVAL_S
from oarlock.storage.etcd.address import DEFAULT_PREFIX, etcd_url
from oarlock.storage.passwords import without_password
from oarlock.storage.url import FORMS, check_url

_DEFAULT = "sqlite:///oarlock.db"


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreOptions(OptionGroup):
    """Which store it is."""

    title = "Storage"

    storage: str = option(
        _DEFAULT,
        URLType(),
        f"Store objects here: {FORMS}.",
    )
    etcd_servers: tuple[str, ...] = option(
        (),
        StringListType("URLS"),
        "Store objects in this etcd: https://host:2379. The same as --storage=etcd://host:2379/registry?…, with "
        "kube-apiserver's flag.",
    )
    etcd_cafile: Path | None = option(
        None, PathType(), "Trust etcd members whose certificates are signed by this authority."
    )
    etcd_certfile: Path | None = option(None, PathType(), "The client certificate for etcd.")
    etcd_keyfile: Path | None = option(None, PathType(), "The private key of --etcd-certfile.")
    etcd_prefix: str = option(DEFAULT_PREFIX, StringType("PREFIX"), "The prefix of all keys in --etcd-servers.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.etcd_servers:
            # From here on there is one way to say it; who copies or prints the options has that.
            object.__setattr__(self, "storage", self._etcd_url())
            for declared in options_of(StoreOptions):
                if declared.field.startswith("etcd_"):
                    object.__setattr__(self, declared.field, declared.default)

    def _etcd_url(self) -> str:
        files = {"ca": self.etcd_cafile, "cert": self.etcd_certfile, "key": self.etcd_keyfile}
        return etcd_url(self.etcd_servers, self.etcd_prefix, files)

    @property
    def shown_storage(self) -> str:
        """The URL as it may be shown."""
        return without_password(self.storage)

    def check(self) -> Iterator[Problem]:
        try:
            check_url(self.storage)
        except StorageError as error:
            yield Problem("storage", str(error))
        if self.etcd_servers:
            yield from self._check_etcd()
            return
        for name in ("etcd_cafile", "etcd_certfile", "etcd_keyfile", "etcd_prefix"):
            if getattr(self, name) not in (None, DEFAULT_PREFIX):
                yield Problem(name, "needs `etcd_servers`: set it, or write everything into `storage`")

    def _check_etcd(self) -> Iterator[Problem]:
        if self.storage != _DEFAULT:
            yield Problem("etcd_servers", "can't be combined with `storage`: set one of them")
        for name, other in (("etcd_certfile", "etcd_keyfile"), ("etcd_keyfile", "etcd_certfile")):
            if getattr(self, name) is not None and getattr(self, other) is None:
                yield Problem(name, f"give `{other}` too")
                return
        try:
            check_url(self._etcd_url())
        except (StorageError, ValueError) as error:
            yield Problem("etcd_servers", str(error))


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadStoreOptions(StoreOptions):
    """A store whose values are read or written."""

    encryption_provider_config: Path | None = option(
        None,
        PathType(),
        "Encrypt stored objects as this EncryptionConfiguration says (apiserver.config.k8s.io/v1, YAML or JSON).",
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class StorageOptions(ReadStoreOptions):
    data_dir: Path | None = option(
        None,
        PathType("DIR"),
        "The directory of the generated token, kubeconfig and certificates. By default the folder of the SQLite file.",
    )
    compaction_interval_s: float = option(
        INTERVAL_S,
        DurationType(),
        "How often history is compacted; one to two intervals of history are kept. 0s turns it off: compact with "
        "`oarlock storage compact`.",
        flag="etcd-compaction-interval",
    )
    encryption_provider_config_automatic_reload: bool = option(
        False, BooleanType(), "Read --encryption-provider-config again when it changes."
    )

    def check(self) -> Iterator[Problem]:
        if self.encryption_provider_config_automatic_reload and self.encryption_provider_config is None:
            yield Problem("encryption_provider_config_automatic_reload", "needs `encryption_provider_config`")
