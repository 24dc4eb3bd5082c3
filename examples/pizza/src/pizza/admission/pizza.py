"""Pizzas may name only toppings that there are, and none that the restaurant doesn't make."""

from collections.abc import Collection, Iterable

from oarlock import Admission, Denied, Review

from ..api.v1beta1.pizza import Pizza
from ..api.v1beta1.topping import Topping


class KnownToppings(Admission[Pizza]):
    """Looks through `toppings`: an informer in the server, a plain list in a test. `refused` are never made."""

    waits = False  # it only looks at what is in memory, so a write needs no task for it

    def __init__(self, toppings: Iterable[Topping], refused: Collection[str] = ()) -> None:
        self._toppings = toppings
        self._refused = refused

    async def validate(self, review: Review[Pizza]) -> None:
        known = {topping.metadata.name for topping in self._toppings}
        for topping in review.object.spec.toppings:
            if topping.name in self._refused:
                raise Denied(f"{topping.name} is never put on a pizza here")
            if topping.name not in known:
                raise Denied(f"unknown topping: {topping.name}")
