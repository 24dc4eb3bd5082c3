"""restaurant.example.com/v1alpha1: pizzas as they were at first. A topping that is wanted twice is written twice."""

from __future__ import annotations

from collections import Counter
from typing import Self

from oarlock import Model, Spoke

from . import v1beta1


class PizzaSpec(Model):
    """What the guest wants."""

    toppings: list[str] = []


class Pizza(
    Spoke[v1beta1.Pizza],
    version="v1alpha1",
    deprecated="use restaurant.example.com/v1beta1 Pizza",
    status_subresource=True,
):
    """A pizza."""

    spec: PizzaSpec
    status: v1beta1.PizzaStatus | None = None

    def to_hub(self) -> v1beta1.Pizza:
        counted = Counter(self.spec.toppings)
        toppings = [v1beta1.PizzaTopping(name=name, quantity=number) for name, number in counted.items()]
        return v1beta1.Pizza(metadata=self.metadata, spec=v1beta1.PizzaSpec(toppings=toppings), status=self.status)

    @classmethod
    def from_hub(cls, hub: v1beta1.Pizza) -> Self:
        toppings = [topping.name for topping in hub.spec.toppings for _ in range(topping.quantity)]
        return cls(metadata=hub.metadata, spec=PizzaSpec(toppings=toppings), status=hub.status)
