"""What the clients of these tests read and write."""

from __future__ import annotations

from typing import Annotated, Any

from oarlock import APIServer, Column, Ge, Model, Resource, Scale, Spoke

GROUP = "client.example.com"


class BoatSpec(Model):
    crew: Annotated[int, Ge(0)] = 1
    name: str = ""


class BoatStatus(Model):
    crew: int = 0


class Boat(
    Resource,
    group=GROUP,
    version="v1",
    columns=[Column("Crew", ".spec.crew", type="integer")],
    status_subresource=True,
    scale=Scale(".spec.crew", ".status.crew"),
):
    """A boat."""

    spec: BoatSpec
    status: BoatStatus | None = None


class OldBoat(Spoke[Boat], version="v1beta1"):
    """A boat as it was."""

    people: int = 1

    def to_hub(self) -> Boat:
        return Boat(metadata=self.metadata, spec=BoatSpec(crew=self.people))

    @classmethod
    def from_hub(cls, hub: Boat) -> OldBoat:
        return cls(metadata=hub.metadata, people=hub.spec.crew)


class Harbour(Resource, group=GROUP, version="v1", scope="Cluster"):
    """A harbour, of which there is one for all namespaces."""

    berths: int = 0


def boat_server() -> APIServer:
    return APIServer(serve=[Boat, OldBoat, Harbour])


def tree(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Boat",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
