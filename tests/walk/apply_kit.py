"""What the walks of apply share: barges, which have every kind of list and map, and short names for who owns what."""

from __future__ import annotations

import json
from typing import Annotated, Any, Self

from oarlock import APIServer, Atomic, ListMap, ListSet, Model, Resource, Scale, Spoke
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import Answer, InMemory

GROUP = "apply.example.com"
V1 = f"{GROUP}/v1"
V1BETA1 = f"{GROUP}/v1beta1"
BARGES = f"/apis/{V1}/namespaces/default/barges"
OLD_BARGES = f"/apis/{V1BETA1}/namespaces/default/barges"
ONE = f"{BARGES}/one"
OLD_ONE = f"{OLD_BARGES}/one"

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Hold(Model):
    """One hold."""

    name: str
    tons: int = 1


class Flag(Model):
    """What flies at the stern."""

    colour: str = ""
    stripes: int | None = None


class Condition(Model):
    """What is the case with a barge."""

    type: str
    status: str = ""


class BargeSpec(Model):
    """What is wanted."""

    cargo: str = ""
    captain: str | None = None
    replicas: int | None = None
    holds: Annotated[list[Hold], ListMap("name")] = []
    ports: Annotated[list[str], ListSet] = []
    crew: list[str] = []
    flag: Annotated[Flag, Atomic] | None = None
    notes: dict[str, str] = {}


class BargeStatus(Model):
    """What there is."""

    phase: str | None = None
    replicas: int | None = None
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Barge(
    Resource,
    group=GROUP,
    version="v1",
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.replicas"),
):
    """A barge."""

    spec: BargeSpec
    status: BargeStatus | None = None


class OldSpec(Model):
    """What is wanted, where the cargo is called the load."""

    load: str = ""
    captain: str | None = None


class OldBarge(Spoke[Barge], version="v1beta1", status_subresource=True):
    """A barge as it was."""

    spec: OldSpec
    status: BargeStatus | None = None

    def to_hub(self) -> Barge:
        spec = BargeSpec(cargo=self.spec.load, captain=self.spec.captain)
        return Barge(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, hub: Barge) -> Self:
        spec = OldSpec(load=hub.spec.cargo, captain=hub.spec.captain)
        return cls(metadata=hub.metadata, spec=spec, status=hub.status)


def canal(*serve: Any, **settings: Any) -> tuple[InMemory, VirtualClock, MemoryBackend]:
    """A server of barges (or of what is given), the clock it goes by, and its store."""
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    server = APIServer(serve=serve or (Barge, OldBarge), **settings)
    return InMemory(server, backend=backend, clock=clock), clock, backend


def barge(spec: Any = None, *, api_version: str = V1, **metadata: Any) -> dict[str, Any]:
    config = {"apiVersion": api_version, "kind": "Barge", "metadata": {"name": "one", **metadata}}
    return config if spec is None else {**config, "spec": spec}


async def send(api: InMemory, config: Any, manager: str = "m", where: str = ONE, **options: Any) -> Answer:
    """Apply `config` (bytes as they are). A manager that is empty isn't named."""
    named = {"fieldManager": manager, **options} if manager else options
    query = "&".join(f"{name}={value}" for name, value in named.items())
    return await api.patch(f"{where}?{query}", config, APPLY)


async def apply(api: InMemory, spec: Any, manager: str = "m", where: str = ONE, **options: Any) -> Any:
    """Apply a barge with this spec, which must succeed: the object then."""
    answer = await send(api, barge(spec), manager, where, **options)
    assert answer.status in (200, 201), answer.body
    return answer.json


def entries(tree: Any) -> list[tuple[str, str]]:
    """Manager and operation of each entry, in their order; a subresource after a slash."""
    found = []
    for entry in tree["metadata"].get("managedFields", []):
        where = f"/{entry['subresource']}" if "subresource" in entry else ""
        found.append((entry["manager"], entry["operation"] + where))
    return found


def owned(tree: Any, manager: str, operation: str = "Apply") -> set[str]:
    """The paths that a manager owns, such as ``spec.holds[fore].tons``; of all its entries of this operation."""
    paths: set[str] = set()
    for entry in tree["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            assert entry["fieldsType"] == "FieldsV1"
            _collect(entry["fieldsV1"], "", paths)
    return paths


def _collect(fields: dict[str, Any], path: str, paths: set[str]) -> None:
    if not fields or "." in fields:
        paths.add(path)
    for name, below in fields.items():
        if name != ".":
            _collect(below, path + _step(name, path), paths)


def _step(name: str, path: str) -> str:
    kind, _, rest = name.partition(":")
    if kind == "f":
        return f".{rest}" if path else rest
    value = json.loads(rest)
    return f"[{next(iter(value.values()))}]" if kind == "k" else f"[={value}]"


def time_of(tree: Any, manager: str) -> str | None:
    times: list[str | None] = [e.get("time") for e in tree["metadata"]["managedFields"] if e["manager"] == manager]
    return times[0]
