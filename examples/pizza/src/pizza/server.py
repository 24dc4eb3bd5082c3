"""Everything that is served, with an option of its own beside those of every server.

oarlock serve src/pizza/server.py, or python -m pizza.server --refuse pineapple
"""

import argparse
from collections.abc import Collection

from oarlock import APIServer, Informer

from .admission.pizza import KnownToppings
from .api.v1alpha1.pizza import Pizza as PizzaV1alpha1
from .api.v1beta1.topping import Topping
from .collections.pizzas import Pizzas
from .collections.toppings import Toppings


def make_server(refused: Collection[str] = ()) -> APIServer:
    """A restaurant that never makes pizzas with what is `refused`."""
    toppings = Informer(Topping)
    return APIServer(
        serve=[Pizzas, PizzaV1alpha1, Toppings],
        admission=[KnownToppings(toppings, refused)],
        informers=[toppings],
        name="pizza",
    )


server = make_server()

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--refuse", action="append", default=[])
    own, others = parser.parse_known_args()
    make_server(own.refuse).main(others)
