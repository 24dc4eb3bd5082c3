"""Options of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oarlock.server.options.option import OptionGroup, Problem, option
from oarlock.server.options.types import DurationType, PathType, URLType
from oarlock.storage.backend import StorageError
from oarlock.storage.compactor import INTERVAL_S
from oarlock.storage.passwords import without_password
from oarlock.storage.url import check_url

__all__ = ["StorageOptions", "StoreOptions"]


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreOptions(OptionGroup):
    """Which store it is."""

    title = "Storage"

    storage: str = option(
        "sqlite:///oarlock.db",
        URLType(),
        "Keep objects here: sqlite:///relative.db, sqlite:////absolute.db or memory://.",
    )

    @property
    def shown_storage(self) -> str:
        """The URL as it may be shown."""
        return without_password(self.storage)

    def check(self) -> Iterator[Problem]:
        try:
            check_url(self.storage)
        except StorageError as error:
            yield Problem("storage", str(error))


@dataclass(frozen=True, kw_only=True, repr=False)
class StorageOptions(StoreOptions):
    data_dir: Path | None = option(
        None,
        PathType("DIR"),
        "Keep the token, kubeconfig and certificates made here; beside the SQLite file unless given.",
    )
    compaction_interval_s: float = option(
        INTERVAL_S,
        DurationType(),
        "How often history is compacted, so that one to two intervals of it are kept; 0s leaves that to others, "
        "such as `oarlock storage compact`.",
        flag="etcd-compaction-interval",
    )
