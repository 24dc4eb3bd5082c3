"""A server of something that can be scaled."""

from __future__ import annotations

from oarlock import APIServer, Model, Resource, Scale


class CrewSpec(Model):
    """What is wanted."""

    rowers: int = 1


class CrewStatus(Model):
    """What there is."""

    rowers: int = 0


class Crew(
    Resource,
    group="crews.example.com",
    version="v1",
    status_subresource=True,
    scale=Scale(".spec.rowers", ".status.rowers"),
):
    """People in a boat."""

    spec: CrewSpec
    status: CrewStatus | None = None


app = APIServer(serve=[Crew])
