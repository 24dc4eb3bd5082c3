"""No flunder may have a name that a fischer disallows."""

from __future__ import annotations

from collections.abc import Iterable

from oarlock import Admission, Denied, Review

from .api.v1alpha1 import Fischer
from .api.v1beta1 import Flunder


class BanFlunder(Admission[Flunder], operations=["CREATE"]):
    """Looks through `fischers` whenever a flunder is created: an informer in the server, a plain list in a test."""

    waits = False  # it only looks at what is in memory, so a create needs no task for it

    def __init__(self, fischers: Iterable[Fischer]) -> None:
        self.fischers = fischers

    async def validate(self, review: Review[Flunder]) -> None:
        if any(review.name in fischer.disallowed_flunders for fischer in self.fischers):
            raise Denied("this name may not be used, please change the resource name")
