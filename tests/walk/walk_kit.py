"""What the walks share: a loop whose time passes at once, declared test resources, and short names for paths.

The resources say everything a declaration can say once: boats have a hub that is neither the oldest nor the stored
version; ports belong to the cluster; tickets have every unusual fact; crates are what a CRD would declare.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, Self

from virtual_time import HastyLoop

from oarlock import (
    APIServer,
    Column,
    Context,
    FieldError,
    Ge,
    Invalid,
    Le,
    Model,
    Nullable,
    Resource,
    Spoke,
    StoredCollection,
    served_from,
    subresource,
)
from oarlock.endpoints.catalog import Catalog
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, InMemory

GROUP = "walk.example.com"


def walk(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An async test, run in a loop whose time passes at once."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=HastyLoop) as runner:
            runner.run(asyncio.wait_for(test(*args, **kwargs), 10_000_000))

    return run


class BoatSpec(Model):
    """What a boat is."""

    port: str
    crew: Annotated[int, Ge(0), Le(10)] = 1
    tags: list[str] = []
    captain: Annotated[str, Nullable] | None = None
    ballast: int | None = None


class BoatStatus(Model):
    """Where it is."""

    at_sea: bool | None = None


class Boat(
    Resource,
    group=GROUP,
    version="v2",
    status_subresource=True,
    selectable=[".spec.port"],
    short_names=["bo"],
    columns=[Column("Port", ".spec.port")],
):
    """A boat, in the version that hooks see."""

    spec: BoatSpec
    status: BoatStatus | None = None

    def default(self) -> None:
        if self.spec.port == "home":
            self.spec.port = "rotterdam"


class OldBoatSpec(Model):
    """What a boat is, said with other words."""

    harbour: str
    crew: Annotated[int, Ge(0), Le(10)] = 1
    tags: list[str] = []
    captain: Annotated[str, Nullable] | None = None
    ballast: int | None = None


class BoatV1(
    Spoke[Boat],
    version="v1",
    status_subresource=True,
    selectable=[".spec.harbour", ".spec.crew"],
):
    """A boat as it is stored."""

    spec: OldBoatSpec
    status: BoatStatus | None = None

    def to_hub(self) -> Boat:
        s = self.spec
        spec = BoatSpec(port=s.harbour, crew=s.crew, tags=s.tags, captain=s.captain, ballast=s.ballast)
        return Boat(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, hub: Boat) -> Self:
        s = hub.spec
        spec = OldBoatSpec(harbour=s.port, crew=s.crew, tags=s.tags, captain=s.captain, ballast=s.ballast)
        return cls(metadata=hub.metadata, spec=spec, status=hub.status)


class SmallSpec(Model):
    """Only where it belongs."""

    harbour: str


class BoatV1Alpha1(Spoke[Boat], version="v1alpha1", deprecated=True, status_subresource=True):
    """A boat as a version that can say little."""

    spec: SmallSpec
    status: BoatStatus | None = None

    def to_hub(self) -> Boat:
        return Boat(metadata=self.metadata, spec=BoatSpec(port=self.spec.harbour), status=self.status)

    @classmethod
    def from_hub(cls, hub: Boat) -> Self:
        return cls(metadata=hub.metadata, spec=SmallSpec(harbour=hub.spec.port), status=hub.status)


class Pour(Resource, group=GROUP, version="v1", scope="Cluster"):
    """What ``…/pour`` takes and gives."""

    litres: int = 1
    into: str = ""


class Boats(StoredCollection[Boat], stored_as=BoatV1):
    """Boats are written as v1. A crew over 5 needs ballast; lakes have no boats."""

    def prepare(self, new: Boat, old: Boat | None, ctx: Context) -> None:
        if new.spec.crew > 5 and not new.spec.ballast:
            new.spec.ballast = 100

    def validate(self, new: Boat, old: Boat | None, ctx: Context) -> Iterator[FieldError]:
        if new.spec.port == "lake":
            yield Invalid("spec.port", new.spec.port, "a lake is no port")
        if old is not None and old.spec.port == "anchored" != new.spec.port:
            yield Invalid("spec.port", new.spec.port, "an anchored boat stays")

    @subresource("pour")
    async def _pour(self, name: str, parent: Boat, body: Pour, ctx: Context) -> Pour:
        body.into = f"{name} at {parent.spec.port}"
        return body


class Port(Resource, group=GROUP, version="v1", scope="Cluster", generation=False):
    """A port of the cluster."""

    depth: int = 5
    note: str = ""


class Ticket(
    Resource,
    group=GROUP,
    version="v1",
    ttl_s=60,
    unconditional_update=True,
    create_on_update=True,
    delete_returns="object",
):
    """A ticket that vanishes, and that PUT makes."""

    seat: str = ""


CRATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def crate(version: str = "v1", **facts: Any) -> Served:
    """What a CRD would declare: untyped, one version or more of the same schema."""
    names = facts.pop("versions", (version,))
    versions = tuple(VersionDefinition(name, CRATE_SCHEMA, selectable=(".spec.colour",)) for name in names)
    definition = ResourceDefinition(
        GROUP,
        Names("crates", "Crate"),
        "Namespaced",
        versions,
        hub=version,
        stored_as=version,
        typed=False,
        **facts,
    )
    return Served(definition)


def everything(**settings: Any) -> APIServer:
    return APIServer(serve=[Boats, BoatV1Alpha1, Port, Ticket, crate()], **settings)


def fleet(**settings: Any) -> tuple[InMemory, MemoryBackend]:
    """A server of all test resources, and the store behind it."""
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    return InMemory(everything(**settings), backend=backend, clock=clock), backend


def path(resource: str, name: str = "", *, version: str = "v2", namespace: str = "default") -> str:
    base = f"/apis/{GROUP}/{version}"
    where = f"{base}/namespaces/{namespace}/{resource}" if namespace else f"{base}/{resource}"
    return f"{where}/{name}" if name else where


BOATS = path("boats")
BOATS_V1 = path("boats", version="v1")
ALL_BOATS = path("boats", namespace="")
PORTS = path("ports", version="v1", namespace="")
TICKETS = path("tickets", version="v1")
CRATES = path("crates", version="v1")


def boat(name: str = "a", **spec: Any) -> dict[str, Any]:
    metadata = {key: spec.pop(key) for key in ("labels", "finalizers", "annotations", "generateName") if key in spec}
    if name:
        metadata["name"] = name
    return {"metadata": metadata, "spec": {"port": "x", **spec}}


async def made(api: InMemory, where: str, body: Any) -> Any:
    answer = await api.post(where, body)
    assert answer.status == 201, answer
    return answer.json


def failure(answer: Answer) -> tuple[int, str, str]:
    """Code, reason and message of a Status."""
    status = answer.json
    assert status["kind"] == "Status"
    assert status["code"] == answer.status
    return answer.status, status.get("reason", ""), status["message"]


def causes(answer: Answer) -> list[str]:
    return [cause["field"] for cause in answer.json["details"]["causes"]]


def key(resource: str, *parts: str) -> str:
    return "/".join(("/registry", GROUP, resource, *parts))


def raw(api_version: str, kind: str, **rest: Any) -> bytes:
    """A value as a stranger might have written it: right, but not canonical."""
    return json.dumps({"zz": 1, "kind": kind, "apiVersion": api_version, **rest}, indent=1).encode()


def catalog(*items: Any, keep: Catalog | None = None, without: str = "", generation: int = 2) -> Catalog:
    """A catalog of what is declared, besides what `keep` has."""
    kept = [s for s in (keep.entries if keep else ()) if s.definition.names.plural != without]
    return Catalog.of([*kept, *served_from(items)], generation)


class Racing:
    """A store in which another writer is faster, `times` times."""

    def __init__(self, backend: Any, where: str, times: int, change: Any) -> None:
        self.left = times
        self.attempts = 0
        real = backend.put

        async def put(key: str, value: bytes, *, expect: int, **rest: Any) -> Any:
            if key == where:
                self.attempts += 1
                if self.left:
                    self.left -= 1
                    kv, _ = await backend.get(key)
                    theirs = change(json.loads(kv.value), self.attempts)
                    await real(key, json.dumps(theirs).encode(), expect=kv.mod_rev)
            return await real(key, value, expect=expect, **rest)

        backend.put = put
