"""The storage contract on a real etcd."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from databases import EtcdServer

from oarlock.storage.backend import Backend
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.storage.etcd.client import Rpcs
from oarlock.storage.etcd.messages import messages
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract


class TestEtcd(BackendContract, HistoryContract):
    """Leases end by etcd's clock. So that tests can move it, they are long here, and what is due is revoked."""

    server: ClassVar[EtcdServer]
    stores: ClassVar[dict[Path, str]] = {}
    leases: ClassVar[dict[Path, dict[int, int]]] = {}

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls, etcd_server: EtcdServer) -> None:
        etcd_server.ensure_running()
        cls.server = etcd_server

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        url = self.stores.get(folder) or self.stores.setdefault(folder, self.server.fresh())
        backend = EtcdBackend(etcd_address(url), clock)
        backend.leases.least_s = 3600
        backend.leases.known = self.leases.setdefault(folder, {})
        backend.test_clock = clock  # type: ignore[attr-defined]
        return backend

    replica = backend

    async def expire(self, backend: Any) -> None:
        now_ms = int(backend.test_clock.now() * 1000)
        for lease, ends_ms in list(backend.leases.known.items()):
            if ends_ms <= now_ms:
                await backend.client.write(Rpcs.REVOKE, messages.LeaseRevokeRequest(ID=lease))
                del backend.leases.known[lease]
                backend.leases.forget(lease)
