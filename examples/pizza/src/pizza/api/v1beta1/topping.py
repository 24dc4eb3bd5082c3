"""restaurant.example.com/v1beta1: toppings with their cost."""

from typing import Annotated

from oarlock import Column, Ge, Model, Resource


class ToppingSpec(Model):
    """What is known of a topping."""

    cost: Annotated[float, Ge(0)]


class Topping(
    Resource,
    group="restaurant.example.com",
    version="v1beta1",
    scope="Cluster",
    columns=[Column("Cost", ".spec.cost", type="number")],
):
    """Something to put on a pizza."""

    spec: ToppingSpec
