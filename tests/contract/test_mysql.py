"""The contract of backends, on a real MariaDB."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from databases import MariadbServer

from oarlock.storage.backend import Backend, Rev
from oarlock.storage.mysql.address import parse_address
from oarlock.storage.mysql.driver import MysqlDriver
from oarlock.storage.sql.server.backend import SqlServerBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract

pytestmark = pytest.mark.slow

LOSE = """
DELETE FROM kv;
DELETE FROM log WHERE rev > {rev};
INSERT INTO kv (`key`, rev, create_rev, expires) SELECT log.key, log.rev, log.create_rev, log.expires FROM log
  WHERE log.op != 3 AND NOT EXISTS (SELECT 1 FROM log AS later WHERE later.key = log.key AND later.rev > log.rev);
UPDATE meta SET rev = {rev};
"""


class TestMariadb(BackendContract, HistoryContract):
    """Each folder is a database; that of the folder before is removed."""

    server: ClassVar[MariadbServer]
    databases: ClassVar[dict[Path, str]] = {}

    @pytest.fixture(autouse=True)
    @classmethod
    def _server(cls, mariadb: MariadbServer) -> None:
        cls.server = mariadb
        cls.databases.clear()

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        if folder not in self.databases:
            self.server.drop(*self.databases.values())
            self.databases.clear()
            self.databases[folder] = self.server.fresh()
        return self.replica(folder, clock)

    def replica(self, folder: Path, clock: VirtualClock) -> Backend:
        return SqlServerBackend(MysqlDriver(parse_address(self.databases[folder])), clock=clock)

    async def lose_after(self, backend: Backend, rev: Rev) -> None:
        [url] = self.databases.values()
        self.server.sql(LOSE.format(rev=rev), url.rpartition("/")[2])
