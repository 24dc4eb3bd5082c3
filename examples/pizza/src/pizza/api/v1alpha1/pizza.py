"""restaurant.example.com/v1alpha1: pizzas as they were at first. A topping that is wanted twice is written twice."""

from collections import Counter
from typing import Self

from oarlock import Model, Spoke

from ..v1beta1 import pizza as hub
from ..v1beta1.pizza import PizzaStatus


class PizzaSpec(Model):
    """What the guest wants."""

    toppings: list[str] = []


class Pizza(
    Spoke[hub.Pizza],
    version="v1alpha1",
    deprecated="use restaurant.example.com/v1beta1 Pizza",
    status_subresource=True,
):
    """A pizza."""

    spec: PizzaSpec
    status: PizzaStatus | None = None

    def to_hub(self) -> hub.Pizza:
        counted = Counter(self.spec.toppings)
        toppings = [hub.PizzaTopping(name=name, quantity=number) for name, number in counted.items()]
        return hub.Pizza(metadata=self.metadata, spec=hub.PizzaSpec(toppings=toppings), status=self.status)

    @classmethod
    def from_hub(cls, hub: hub.Pizza) -> Self:
        toppings = [topping.name for topping in hub.spec.toppings for _ in range(topping.quantity)]
        return cls(metadata=hub.metadata, spec=PizzaSpec(toppings=toppings), status=hub.status)
