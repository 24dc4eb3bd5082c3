"""One class in two homes: our own server, and a control plane with its definition and webhooks."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Self

from crd_kit import established

from oarlock import (
    Admission,
    APIServer,
    Context,
    Denied,
    FieldError,
    Ge,
    Informer,
    Invalid,
    Model,
    Resource,
    Review,
    Spoke,
    StoredCollection,
)
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.webhooks.server import WebhookServer, reviewed
from oarlock.cli.declaring_commands import exported
from oarlock.cli.deploying.webhook_objects import ClusterWebhooks, PlacedWebhooks
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.testing.server import InMemory

__all__ = ["GROUP", "BerthV1", "BerthV1alpha1", "harbour", "in_cluster", "webhooks_of", "wreck_known"]

GROUP = "harbour.example.com"

Tree = dict[str, Any]


class Rope(Model):
    length: Annotated[int, Ge(1)] = 10
    knot: str = ""


class BerthSpec(Model):
    """Where a ship lies."""

    ship: str
    depth: Annotated[int, Ge(0)] = 3
    ropes: list[Rope] = []
    pilot: str = ""
    checked: str = ""


class BerthStatus(Model):
    free: bool | None = None
    note: str = ""


class BerthV1(Resource, group=GROUP, version="v1", kind="Berth", status_subresource=True):
    """A berth."""

    spec: BerthSpec
    status: BerthStatus | None = None

    def default(self) -> None:
        """The pilot of those who name none."""
        self.spec.pilot = self.spec.pilot or "harbour-master"


class BerthV1alpha1Spec(Model):
    """Where a ship lay, before ropes were known."""

    vessel: str
    depth: Annotated[int, Ge(0)] = 3
    pilot: str = ""
    checked: str = ""


class BerthV1alpha1(Spoke[BerthV1], version="v1alpha1", deprecated="use v1", status_subresource=True):
    """A berth without ropes."""

    spec: BerthV1alpha1Spec
    status: BerthStatus | None = None

    def to_hub(self) -> BerthV1:
        spec = self.spec
        made = BerthSpec(ship=spec.vessel, depth=spec.depth, pilot=spec.pilot, checked=spec.checked)
        return BerthV1(metadata=self.metadata, spec=made, status=self.status)

    @classmethod
    def from_hub(cls, hub: BerthV1) -> Self:
        spec = hub.spec
        made = BerthV1alpha1Spec(vessel=spec.ship, depth=spec.depth, pilot=spec.pilot, checked=spec.checked)
        return cls(metadata=hub.metadata, spec=made, status=hub.status)


class WreckSpec(Model):
    ship: str


class Wreck(Resource, group=GROUP, version="v1"):
    """A ship that can't be moored any more."""

    spec: WreckSpec


class Berths(StoredCollection[BerthV1]):
    def prepare(self, new: BerthV1, old: BerthV1 | None, ctx: Context) -> None:
        if not ctx.target.subresource:
            new.spec.checked = f"{new.spec.ship}/{len(new.spec.ropes)}"
        if new.spec.depth > 50:
            ctx.warn("spec.depth: nobody dives there")

    def validate(self, new: BerthV1, old: BerthV1 | None, ctx: Context) -> Iterator[FieldError]:
        for at, rope in enumerate(new.spec.ropes):
            if rope.length > 100:
                yield Invalid(f"spec.ropes[{at}].length", rope.length, "longer than any rope there is")
        if new.spec.ship == "ghost":
            yield Invalid("spec.ship", new.spec.ship, "there is no such ship")
        if old is not None and new.spec.depth < old.spec.depth:
            yield Invalid("spec.depth", new.spec.depth, "the sea gets no shallower")
        if new.status is not None and new.status.note == "lie":
            yield Invalid("status.note", new.status.note, "must be true")


class Pilots(Admission[BerthV1], operations=["CREATE", "UPDATE", "DELETE"]):
    """Names the pilot of the user who asks, and lets no wreck be moored, and no ship of the navy leave."""

    waits = False

    def __init__(self, wrecks: Informer[Wreck]) -> None:
        self.wrecks = wrecks

    async def mutate(self, review: Review[BerthV1]) -> None:
        if review.new is not None and review.object.spec.pilot == "me":
            review.object.spec.pilot = review.user.name

    async def validate(self, review: Review[BerthV1]) -> None:
        if review.operation == "DELETE":
            if review.old_object is not None and review.old_object.spec.ship.startswith("navy-"):
                raise Denied("the navy says when it leaves")
            return
        if any(wreck.spec.ship == review.object.spec.ship for wreck in self.wrecks):
            raise Denied(f"{review.object.spec.ship} is a wreck")


def harbour() -> APIServer:
    """The server of berths and wrecks."""
    wrecks = Informer(Wreck)
    return APIServer(
        serve=[Berths, BerthV1alpha1, Wreck],
        admission=[Pilots(wrecks)],
        informers=[wrecks],
        garbage_collection="external",
    )


class _Silent:
    def print_result(self, line: str) -> None: ...

    def print_message(self, line: str) -> None: ...


@asynccontextmanager
async def webhooks_of(server: APIServer, api: InMemory, folder: Path, *names: str) -> AsyncIterator[Running]:
    """The webhooks of `server` on a port, whose informers follow the control plane `api`; `names` are its host's."""
    webhooks = WebhookServer(
        resources=reviewed(server.catalog.resources), code=server.user_code, connect=api.server.client
    )
    config = ServerConfig(secure_port=0, data_dir=folder, cert_dir=folder / "pki", tls_sans=names)
    running = await start(webhooks, config, SystemClock(), _Silent())
    try:
        yield running
    finally:
        await running.close()


def objects_of(server: APIServer, client_config: Callable[[str], Tree]) -> list[Tree]:
    """What tells a cluster of the webhooks of `server`."""
    place = PlacedWebhooks("harbour", client_config)
    return ClusterWebhooks(reviewed(server.catalog.resources), server.user_code.admission, place).objects()


async def configured(server: APIServer, api: InMemory, running: Running) -> None:
    """Tell the control plane of webhooks, and wait until they know what they read."""
    address = running.parts.server.address
    assert address is not None
    assert address.ca is not None
    ca = base64.b64encode(address.ca).decode()
    for tree in objects_of(server, lambda path: {"url": f"{address.url}{path}", "caBundle": ca}):
        path = f"/apis/{tree['apiVersion']}/{tree['kind'].lower()}s/{tree['metadata']['name']}"
        made = await api.patch(f"{path}?fieldManager=test&force=true", tree, "application/apply-patch+yaml")
        assert made.status in (200, 201), made.json
    for informer in server.user_code.informers:
        await informer.synced()


@asynccontextmanager
async def in_cluster(folder: Path) -> AsyncIterator[InMemory]:
    """A control plane with the definitions of the harbour, and its webhooks beside."""
    server = harbour()
    async with InMemory(ControlPlane()) as api:
        for served in server.catalog.resources:
            tree = exported(served.definition)
            await established(api, tree)
        async with webhooks_of(server, api, folder) as running:
            await configured(server, api, running)
            yield api


async def wreck_known(api: InMemory) -> None:
    """Wait until plugins refuse the ship of the wreck."""
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "Berth", "metadata": {"name": "x"}, "spec": {"ship": "titanic"}}
    path = f"/apis/{GROUP}/v1/namespaces/default/berths?dryRun=All"
    async with asyncio.timeout(60):
        while (await api.post(path, tree)).status == 201:  # noqa: ASYNC110
            await asyncio.sleep(0)
