"""What databases promise: the API by itself, and the controller on the real server in memory, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oarlock import APIServer, ObjectMeta
from oarlock.client import Client
from oarlock.controllers import ControllerGroup
from oarlock.testing import InMemory, VirtualClock, assert_round_trips

from .api import v1beta1
from .api.v1 import Database, DatabaseSpec
from .controller import RETRY_S, Databases
from .engines import Engines

pytestmark = pytest.mark.anyio
SHOP = "/apis/db.example.com/v1/namespaces/shop/databases"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def database(name: str, **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"engine": "postgres", **spec}}


async def test_what_cannot_be_is_refused_with_every_reason() -> None:
    async with InMemory(APIServer(serve=[Database])) as api:
        made = await api.post(SHOP, database("orders", storageGi=20))
        assert made.json["spec"] == {"engine": "postgres", "storageGi": 20, "replicas": 1}
        changed = await api.patch(f"{SHOP}/orders", {"spec": {"engine": "sqlite", "storageGi": 10, "replicas": 2}})
        assert changed.status == 422
        refused = {cause["field"] for cause in changed.json["details"]["causes"]}
        assert refused == {"spec.engine", "spec.storageGi", "spec.replicas"}


async def test_an_old_client_sees_the_size_as_a_text() -> None:
    async with InMemory(APIServer(serve=[Database, v1beta1.Database])) as api:
        await api.post(SHOP, database("orders", storageGi=20))
        old = await api.get(f"{SHOP}/orders".replace("v1", "v1beta1"))
        assert old.json["spec"]["size"] == "20Gi"
        assert old.warnings == ["db.example.com/v1beta1 Database is deprecated; use db.example.com/v1 Database"]


def test_no_version_loses_anything() -> None:
    assert_round_trips(Database, v1beta1.Database, examples=50)


def orders() -> Database:
    return Database(metadata=ObjectMeta(name="orders", namespace="shop"), spec=DatabaseSpec(engine="postgres"))


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@asynccontextmanager
async def controlled(engines: Engines, clock: VirtualClock) -> AsyncIterator[Client]:
    """A client of a server whose databases are looked after."""
    async with InMemory(APIServer(serve=[Database]), clock=clock) as api:
        client = api.client()
        async with ControllerGroup([Databases(engines)]).running(client, clock) as run:
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
