"""warehouse.example.com/v1: suppliers as clients see them."""

from oarlock import Column, Model, Resource


class SupplierSpec(Model):
    """What is wanted."""

    city: str
    preferred: bool = False


class Supplier(
    Resource,
    group="warehouse.example.com",
    version="v1",
    scope="Cluster",
    selectable=[".spec.preferred"],
    columns=[Column("City", ".spec.city"), Column("Preferred", ".spec.preferred", "boolean")],
):
    """A supplier."""

    spec: SupplierSpec
