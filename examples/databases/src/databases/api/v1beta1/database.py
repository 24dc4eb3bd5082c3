"""db.example.com/v1beta1: databases as they were at first, with their size as a text."""

from typing import Annotated, Literal, Self

from oarlock import Model, Pattern, Spoke

from ..v1 import database as hub
from ..v1.database import DatabaseStatus


class DatabaseSpec(Model):
    """What the user wants."""

    engine: Literal["postgres", "sqlite"]
    size: Annotated[str, Pattern("^[1-9][0-9]{0,3}Gi$")] = "1Gi"
    replicas: int = 1


class Database(
    Spoke[hub.Database],
    version="v1beta1",
    deprecated="use db.example.com/v1 Database",
    status_subresource=True,
):
    """A database that somebody else looks after."""

    spec: DatabaseSpec
    status: DatabaseStatus | None = None

    def to_hub(self) -> hub.Database:
        spec = hub.DatabaseSpec(
            engine=self.spec.engine, storage_gi=int(self.spec.size.removesuffix("Gi")), replicas=self.spec.replicas
        )
        return hub.Database(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, hub: hub.Database) -> Self:
        spec = DatabaseSpec(engine=hub.spec.engine, size=f"{hub.spec.storage_gi}Gi", replicas=hub.spec.replicas)
        return cls(metadata=hub.metadata, spec=spec, status=hub.status)
