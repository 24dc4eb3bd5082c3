"""A server that has what the examples don't: scale, lists told apart by key, unions, nulls, objects nobody keeps, a
custom resource, numbers for protobuf."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from oarlock import (
    APIServer,
    Context,
    Ge,
    IntOrString,
    Le,
    ListMap,
    ListSet,
    Model,
    Nullable,
    Proto,
    Quantity,
    Resource,
    Scale,
    VirtualCollection,
)
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

GROUP = "fleet.example.com"


class Hold(Model):
    """One hold."""

    name: str
    tons: Annotated[int, Ge(0), Le(1000)] = 1
    share: float | None = None


class BargeSpec(Model):
    """What is wanted."""

    replicas: Annotated[int, Ge(0), Le(100)] | None = None
    holds: Annotated[list[Hold], ListMap("name")] = []
    ports: Annotated[list[str], ListSet] = []
    captain: Annotated[str, Nullable] | None = None
    speed: Literal["slow", "fast"] = "slow"
    fuel: Quantity | None = None
    lock: IntOrString | None = None
    notes: dict[str, str] = {}


class BargeStatus(Model):
    """What there is."""

    replicas: int = 0
    phase: str = ""


class Barge(
    Resource,
    group=GROUP,
    version="v1",
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.replicas"),
):
    """A barge."""

    spec: BargeSpec = BargeSpec()
    status: BargeStatus | None = None


class Ticket(
    Resource, group=GROUP, version="v1", unconditional_update=True, create_on_update=True, delete_returns="object"
):
    """A ticket that PUT makes."""

    seat: str = ""


class Gull(Resource, group=GROUP, version="v1", scope="Cluster"):
    """A gull, which no store keeps."""

    colour: str = "white"


class Gulls(VirtualCollection[Gull]):
    """Gulls in a dict."""

    def __init__(self) -> None:
        self._gulls: dict[str, Gull] = {}

    async def get(self, name: str, ctx: Context) -> Gull | None:
        return self._gulls.get(name)

    async def list(self, ctx: Context) -> list[Gull]:
        return list(self._gulls.values())

    async def create(self, new: Gull, ctx: Context) -> Gull:
        return new if ctx.dry_run else self._gulls.setdefault(new.metadata.name, new)

    async def update(self, new: Gull, expected_version: str, ctx: Context) -> Gull:
        if not ctx.dry_run:
            self._gulls[new.metadata.name] = new
        return new

    async def delete(self, name: str, ctx: Context) -> None:
        if not ctx.dry_run:
            self._gulls.pop(name, None)


class KiteSpec(Model):
    """What is wanted."""

    colour: Annotated[str, Proto(1)] = "red"
    length: Annotated[int, Proto(2), Ge(1), Le(1000)] = 10
    tails: Annotated[list[str], Proto(3)] = []


class Kite(Resource, group=GROUP, version="v1", status_subresource=True):
    """A kite, its fields numbered."""

    spec: Annotated[KiteSpec, Proto(2)] = KiteSpec()
    status: Annotated[dict[str, str], Proto(3)] = {}


CRATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "when": {"type": "string", "format": "date-time", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
            },
        },
    },
}


def crates() -> Served:
    """What a CustomResourceDefinition declares."""
    versions = (VersionDefinition("v1", CRATE_SCHEMA),)
    names = Names("crates", "Crate")
    return Served(ResourceDefinition(GROUP, names, "Namespaced", versions, hub="v1", stored_as="v1", typed=False))


app = APIServer(serve=[Barge, Ticket, Gulls, Kite, crates()])
