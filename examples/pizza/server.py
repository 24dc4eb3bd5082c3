"""Everything that is served, with an option of its own beside those of every server.

oarlock serve pizza/server.py, or python -m pizza.server --refuse pineapple
"""

from __future__ import annotations

import argparse
from collections.abc import Collection

from oarlock import APIServer, Informer, StoredCollection

from .admission import KnownToppings
from .api import v1alpha1
from .api.v1beta1 import Pizza, Topping


class Pizzas(StoredCollection[Pizza]):
    """Pizzas are stored in v1beta1, which says all that v1alpha1 says."""


def make_server(refused: Collection[str] = ()) -> APIServer:
    """A restaurant that never makes pizzas with what is `refused`."""
    toppings = Informer(Topping)
    return APIServer(
        serve=[Pizzas, v1alpha1.Pizza, Topping],
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
