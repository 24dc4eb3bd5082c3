"""A fleet, with a controller that counts its rounds on each ship, for tests of `oarlock run`."""

from __future__ import annotations

import os

from oarlock import APIServer, Resource
from oarlock.apps.kinds.coordination import Lease
from oarlock.controllers import Controller, ObjectKey, Result

GROUP = "fleet.example.com"


class Ship(Resource, group=GROUP, version="v1"):
    """A ship, with who saw it last and how often it was seen."""

    by: str = ""
    rounds: int = 0


class Rounds(Controller[Ship]):
    """Sees each ship again and again."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        def seen(ship: Ship) -> None:
            ship.by = os.environ.get("CAPTAIN", "")
            ship.rounds += 1

        await self.client.change(Ship, key.name, seen, namespace=key.namespace)
        return Result(requeue_after_s=0.05)


controllers = [Rounds()]


def fleet_server() -> APIServer:
    return APIServer(serve=[Ship, Lease])
