"""The storage contract on a real etcd."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
from databases import EtcdServer

from oarlock.storage.backend import EPOCH_GAP, Backend, Compacted
from oarlock.storage.etcd.address import etcd_address
from oarlock.storage.etcd.backend import EtcdBackend
from oarlock.storage.etcd.client import Rpcs
from oarlock.storage.etcd.messages import messages
from oarlock.testing.clock import VirtualClock
from oarlock.testing.contracts.backend import BackendContract
from oarlock.testing.contracts.histories import HistoryContract
from oarlock.testing.contracts.support import record


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
        backend.store.leases.least_s = 3600
        backend.store.leases.known = self.leases.setdefault(folder, {})
        backend.test_clock = clock  # type: ignore[attr-defined]
        return backend

    replica = backend

    async def expire(self, backend: Any) -> None:
        now_ms = int(backend.test_clock.now() * 1000)
        for lease, ends_ms in list(backend.store.leases.known.items()):
            if ends_ms <= now_ms:
                await backend.store.client.write(Rpcs.REVOKE, messages.LeaseRevokeRequest(ID=lease))
                del backend.store.leases.known[lease]
                backend.store.leases.forget(lease)


ABOVE = 5_000_000_000


class RaisedEtcd(EtcdBackend):
    """Raises the revisions when it is first opened."""

    async def open_and_raise(self) -> None:
        await self.store.start()
        if not self.store.epochs.raising:
            await self.begin_epoch(ABOVE)


class TestRaisedEtcd(TestEtcd):
    """With revisions that are raised, because clients remember higher ones."""

    test_random_histories_are_those_of_the_model = None  # the model's history begins with nothing compacted

    def backend(self, folder: Path, clock: VirtualClock) -> Backend:
        url = self.stores.get(folder) or self.stores.setdefault(folder, self.server.fresh())
        backend = RaisedEtcd(etcd_address(url), clock)
        backend.start = backend.open_and_raise
        backend.store.leases.least_s = 3600
        backend.store.leases.known = self.leases.setdefault(folder, {})
        backend.test_clock = clock  # type: ignore[attr-defined]
        return backend

    replica = backend


@pytest.fixture
def url(etcd_server: EtcdServer) -> str:
    etcd_server.ensure_running()
    return etcd_server.fresh()


async def opened(url: str) -> EtcdBackend:
    backend = EtcdBackend(etcd_address(url), VirtualClock())
    await backend.start()
    return backend


@pytest.mark.anyio
async def test_an_epoch_far_above_begins_at_once_and_every_server_learns_of_it(url: str) -> None:
    first, second = await opened(url), await opened(url)
    try:
        made = await first.put("/registry/a/b/n/x", b"1", expect=0)
        watch: Any = await record(second, made.rev)
        rev = await asyncio.wait_for(first.begin_epoch(ABOVE), 10)
        assert rev > ABOVE + EPOCH_GAP
        assert isinstance(await watch.until_failed(), Compacted)
        assert await second.current_rev() >= rev
        kv, at = await second.get("/registry/a/b/n/x")
        assert kv is not None
        assert at >= rev
        assert kv.mod_rev == made.rev
        with pytest.raises(Compacted):
            await second.get("/registry/a/b/n/x", rev=made.rev)
        for never in (made.rev - 1, made.rev + 1, rev - 1, ABOVE):
            stale = await second.put("/registry/a/b/n/x", b"2", expect=never)
            assert not stale.ok
            assert stale.current == kv
        fresh = await second.put("/registry/a/b/n/x", b"2", expect=made.rev)
        assert fresh.ok
        assert fresh.rev > rev
    finally:
        await first.close()
        await second.close()


@pytest.mark.anyio
async def test_a_server_that_opens_later_goes_on_above(url: str) -> None:
    first = await opened(url)
    rev = await first.begin_epoch(ABOVE)
    await first.close()
    later = await opened(url)
    try:
        assert await later.current_rev() >= rev
        assert await later.begin_epoch(0) > rev
        assert await later.compact_rev() > rev
    finally:
        await later.close()
