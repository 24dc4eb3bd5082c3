"""web.example.com/v1: website as clients see them."""

from typing import Annotated

from oarlock import Column, Condition, Ge, Le, ListMap, MinLength, Model, Resource


class WebsiteSpec(Model):
    """What is wanted."""

    title: Annotated[str, MinLength(1)]
    replicas: Annotated[int, Ge(0), Le(10)] = 1


class WebsiteStatus(Model):
    """How it is."""

    observed_generation: int = 0
    ready_replicas: int = 0
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Website(
    Resource,
    group="web.example.com",
    version="v1",
    status_subresource=True,
    columns=[
        Column("Title", ".spec.title"),
        Column("Wanted", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
    ],
):
    """A website."""

    spec: WebsiteSpec
    status: WebsiteStatus | None = None
