"""restaurant.example.com/v1beta1: pizzas with so much of each topping, and toppings with their cost."""

from __future__ import annotations

from typing import Annotated

from oarlock import Column, Doc, Ge, ListMap, Model, Resource


class PizzaTopping(Model):
    """So much of a topping."""

    name: Annotated[str, Doc("The name of a Topping.")]
    quantity: Annotated[int, Ge(1)] = 1


class PizzaSpec(Model):
    """What the guest wants."""

    toppings: Annotated[list[PizzaTopping], ListMap("name")] = []


class PizzaStatus(Model):
    """What it costs."""

    cost: float | None = None


class Pizza(
    Resource,
    group="restaurant.example.com",
    version="v1beta1",
    categories=["all"],
    status_subresource=True,
    columns=[
        Column("Toppings", expression="self.spec.toppings.map(t, t.name).join(', ')"),
        Column("Cost", ".status.cost", type="number"),
    ],
):
    """A pizza."""

    spec: PizzaSpec
    status: PizzaStatus | None = None

    def default(self) -> None:
        """Who says nothing gets a margherita with salami, as in the book."""
        if not self.spec.toppings:
            self.spec.toppings = [PizzaTopping(name=name) for name in ("salami", "mozzarella", "tomato")]


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
