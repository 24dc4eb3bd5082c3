"""The kinds that the controllers of these tests look after, and the server that has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from oarlock import APIServer, Model, ObjectMeta, Resource
from oarlock.apps.kinds.coordination import Lease
from oarlock.client import Client
from oarlock.testing import InMemory, VirtualClock

GROUP = "fleet.example.com"


class ShipSpec(Model):
    boats: int = 0
    flag: str = ""


class ShipStatus(Model):
    boats: int = 0


class Ship(Resource, group=GROUP, version="v1", status_subresource=True):
    """A ship, which has boats."""

    spec: ShipSpec
    status: ShipStatus | None = None


class Boat(Resource, group=GROUP, version="v1"):
    """A boat of a ship."""

    oars: int = 2


class Flag(Resource, group=GROUP, version="v1", scope="Cluster"):
    """A flag that ships fly."""

    colour: str = "white"


class EventSeries(Model):
    count: int
    last_observed_time: str


class Event(Resource, group="events.k8s.io", version="v1"):
    """As Kubernetes' own."""

    event_time: str
    type: str
    reason: str
    action: str
    note: str
    regarding: dict[str, str]
    related: dict[str, str] = {}
    reporting_controller: str
    reporting_instance: str
    series: EventSeries | None = None


SERVED = (Ship, Boat, Flag, Lease, Event)


@asynccontextmanager
async def fleet(clock: VirtualClock, serve: Sequence[type] = SERVED) -> AsyncIterator[Client]:
    """A client of a server that has no objects yet."""
    async with InMemory(APIServer(serve=list(serve)), clock=clock) as api, api.client() as client:
        yield client


def ship(name: str, boats: int = 0, *, flag: str = "", namespace: str = "sea") -> Ship:
    return Ship(metadata=ObjectMeta(name=name, namespace=namespace), spec=ShipSpec(boats=boats, flag=flag))
