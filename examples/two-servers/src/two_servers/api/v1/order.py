"""shop.example.com/v1: order as clients see them."""

from oarlock import Model, Resource


class OrderSpec(Model):
    """What is wanted."""

    item: str
    count: int = 1


class Order(
    Resource,
    group="shop.example.com",
    version="v1",
    short_names=["od"],
):
    """An order."""

    spec: OrderSpec
