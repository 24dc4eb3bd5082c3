"""What the server does with objects of the kind Pizza beyond storing them."""

from oarlock import StoredCollection

from ..api.v1beta1.pizza import Pizza


class Pizzas(StoredCollection[Pizza]):
    """Pizzas are stored in v1beta1, which says all that v1alpha1 says."""
