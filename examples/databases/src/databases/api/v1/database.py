"""db.example.com/v1: the version the controller works with."""

from typing import Annotated, Literal

from oarlock import Column, Condition, Doc, Ge, Le, ListMap, Model, Resource, Rule, Scale


class DatabaseSpec(Model):
    """What the user wants."""

    engine: Annotated[
        Literal["postgres", "sqlite"],
        Doc("What runs it."),
        Rule("self == oldSelf", message="an engine can't be exchanged: make another database and move"),
    ]
    storage_gi: Annotated[int, Ge(1), Le(1024), Rule("self >= oldSelf", message="storage can't shrink")] = 1
    replicas: Annotated[int, Ge(0), Le(5), Doc("How many servers it has; 0 stops it.")] = 1


class DatabaseStatus(Model):
    """How it is."""

    ready_replicas: int = 0
    addresses: list[str] = []
    observed_generation: int = 0
    conditions: Annotated[list[Condition], ListMap("type")] = []


class Database(
    Resource,
    group="db.example.com",
    version="v1",
    short_names=["db"],
    categories=["all"],
    status_subresource=True,
    scale=Scale(".spec.replicas", ".status.readyReplicas"),
    rules=[
        Rule(
            "self.spec.engine != 'sqlite' || self.spec.replicas <= 1",
            message="sqlite has one server",
            field_path=".spec.replicas",
        )
    ],
    columns=[
        Column("Engine", ".spec.engine"),
        Column("Replicas", ".status.readyReplicas", type="integer"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Why", '.status.conditions[?(@.type=="Ready")].message', priority=1),
    ],
):
    """A database that somebody else looks after."""

    spec: DatabaseSpec
    status: DatabaseStatus | None = None
