"""A server that clients made for whole clusters get along with: moorings, and what such clients look for besides.

kr8s and kopf look into the core group first, kopf waits until there are namespaces, and helm keeps what it installed in
secrets, which it sends as protobuf.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from oarlock import (
    APIServer,
    IntOrString,
    ListMap,
    Model,
    Proto,
    Resource,
    RetainKeys,
    Scale,
    Served,
    served_from,
)


class Anchor(Model):
    """Iron on the ground."""

    kilograms: int = 20


class Hold(Model):
    """What it holds on to: one of these."""

    kind: Literal["anchor", "ring"] = "anchor"
    anchor: Anchor | None = None
    ring: str | None = None


class MooringSpec(Model):
    """What is wanted."""

    depth: int = 3
    boats: int = 1
    spare: IntOrString = "10%"
    hold: Annotated[Hold, RetainKeys] = Hold()


class Condition(Model):
    """One thing that is so, or isn't."""

    type: str
    status: Literal["True", "False"]


class MooringStatus(Model):
    """What there is."""

    phase: str | None = None
    boats: int = 0
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Mooring(
    Resource,
    group="moorings.example.com",
    version="v1",
    short_names=["mo"],
    status_subresource=True,
    scale=Scale(".spec.boats", ".status.boats"),
):
    """A place to stay."""

    spec: MooringSpec = MooringSpec()
    status: MooringStatus | None = None


class Light(Model):
    """A light on a buoy."""

    name: str
    colour: str = "white"


class BuoySpec(Model):
    """What is wanted."""

    lights: Annotated[list[Light], ListMap("name")] = []


class Secret(Resource, group="core.example.com", version="v1", unconditional_update=True):
    """What nobody else may read, with the numbers Kubernetes gives its fields."""

    data: Annotated[dict[str, bytes], Proto(2)] = {}
    type: Annotated[str, Proto(3)] = "Opaque"


class Namespace(Resource, group="core.example.com", version="v1", scope="Cluster"):
    """A name, to which nothing happens."""


class Buoy(Resource, group="moorings.example.com", version="v1"):
    """What floats."""

    spec: BuoySpec = BuoySpec()


def as_a_custom_resource(cls: Any) -> Served:
    """What a CustomResourceDefinition would make of the class."""
    (served,) = served_from([cls])
    return replace(served, definition=replace(served.definition, typed=False))


def in_the_core_group(cls: Any) -> Served:
    """A class can't say that its group is Kubernetes' own."""
    (served,) = served_from([cls])
    return replace(served, definition=replace(served.definition, group=""))


app = APIServer(serve=[Mooring, as_a_custom_resource(Buoy), in_the_core_group(Secret), in_the_core_group(Namespace)])
