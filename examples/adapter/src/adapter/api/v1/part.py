"""warehouse.example.com/v1: parts as clients see them. A part's namespace is the site it lies at."""

from typing import Annotated

from oarlock import Column, Doc, Ge, Model, Resource


class PartSpec(Model):
    """What is wanted."""

    title: str
    stock: Annotated[int, Ge(0)] = 0
    supplier: Annotated[str, Doc("The name of a Supplier.")]


class Part(
    Resource,
    group="warehouse.example.com",
    version="v1",
    short_names=["pa"],
    selectable=[".spec.supplier"],
    columns=[
        Column("Title", ".spec.title"),
        Column("Stock", ".spec.stock", "integer"),
        Column("Supplier", ".spec.supplier"),
    ],
):
    """A part."""

    spec: PartSpec
