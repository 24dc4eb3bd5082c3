"""``oarlock run`` says at the start that a server has no Leases for controllers that have to hold one."""

from __future__ import annotations

import pytest

from oarlock import APIServer, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.cli.running import check_leases
from oarlock.controllers import Controller, ObjectKey
from oarlock.controllers.running.group import ControllerGroup
from oarlock.server.command import CommandError
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio


class Lamp(Resource, group="lamps.example.com", version="v1"):
    lit: bool = False


class Lighting(Controller[Lamp], lease="default/lighting"):
    async def reconcile(self, key: ObjectKey) -> None:
        return None


async def test_a_lease_that_cannot_be_held_is_told_before_anything_runs() -> None:
    groups = [ControllerGroup([Lighting()])]
    async with InMemory(APIServer(serve=[Lamp])) as api:
        with pytest.raises(CommandError, match="have the lease default/lighting, and the server has no Leases"):
            await check_leases(groups, api.client())
    async with InMemory(ControlPlane(serve=[Lamp])) as api:
        await check_leases(groups, api.client())
