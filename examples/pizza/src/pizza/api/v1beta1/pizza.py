"""restaurant.example.com/v1beta1: pizzas with so much of each topping."""

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
