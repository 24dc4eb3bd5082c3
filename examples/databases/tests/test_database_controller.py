"""The controller of the kind Database, on the real server in memory and in virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from oarlock import ObjectMeta
from oarlock.client import Client
from oarlock.controllers import ControllerGroup
from oarlock.testing import InMemory, VirtualClock

from databases.api.v1.database import Database, DatabaseSpec
from databases.controllers.database import RETRY_S, DatabaseController
from databases.engines import Engines
from databases.server import make_server

pytestmark = pytest.mark.anyio


def orders() -> Database:
    return Database(metadata=ObjectMeta(name="orders", namespace="shop"), spec=DatabaseSpec(engine="postgres"))


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@asynccontextmanager
async def controlled(engines: Engines, clock: VirtualClock) -> AsyncIterator[Client]:
    """A client of a server whose databases are looked after."""
    async with InMemory(make_server(), clock=clock) as api:
        client = api.client()
        async with ControllerGroup([DatabaseController(engines)]).running(client, clock) as run:
            await run.synced()
            yield client


async def become_ready(client: Client, name: str, status: str = "True", replicas: int = 1) -> Database:
    """Wait until the controller says so."""
    async for event in client.watch(Database, namespace="shop", field_selector=f"metadata.name={name}"):
        seen = event.object.status
        if seen and seen.conditions[0].status == status and seen.ready_replicas == replicas:
            return event.object
    raise AssertionError("a watch has no end")


async def test_a_database_is_run_scaled_and_removed(tmp_path: Path) -> None:
    async with controlled(Engines(tmp_path), VirtualClock()) as client:
        await client.create(orders())
        ready = await become_ready(client, "orders")
        assert ready.metadata.finalizers == ["db.example.com/servers"]
        await client.scale(Database, "orders", 3, namespace="shop")
        await become_ready(client, "orders", replicas=3)
        assert files(tmp_path) == ["shop.orders.0.db", "shop.orders.1.db", "shop.orders.2.db"]
        await client.delete(Database, "orders", namespace="shop")
        async for event in client.watch(Database, resource_version=ready.metadata.resource_version):
            if event.type == "DELETED":
                break
        assert files(tmp_path) == []


async def test_without_room_it_is_tried_again_every_half_minute(tmp_path: Path) -> None:
    clock, engines = VirtualClock(), Engines(tmp_path, capacity=0)
    async with controlled(engines, clock) as client:
        await client.create(orders())
        waiting = await become_ready(client, "orders", status="False", replicas=0)
        assert waiting.status is not None
        assert waiting.status.conditions[0].message == "there is room for 0 of 1 servers"
        engines.capacity = 10
        await clock.run(RETRY_S)
        await become_ready(client, "orders")
