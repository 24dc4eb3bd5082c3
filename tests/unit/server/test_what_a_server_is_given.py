"""What is listed in the wrong place, or isn't what a list takes, is told when the server is made."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock import Admission, APIServer, DeclarationError, Informer, Resource, Review, StoredCollection, subresource


class Cup(Resource, group="shop.example.com", version="v1"):
    """A cup."""


class Other(Resource, group="shop.example.com", version="v1"):
    """Not stored."""


class Cups(StoredCollection[Cup]):
    """Cups."""

    @subresource("pour", method="GET")
    async def _pour(self, parent: Cup) -> Cup:
        return parent


class NoCups(Admission[Cup]):
    async def validate(self, review: Review[Cup]) -> None: ...


class Spilt(NoCups, subresources=["status", "*", "poor"]):
    """Names what isn't there."""


class Poured(NoCups, subresources=["status", "scale", "pour"]):
    """Names what there is, or may be."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"serve": Cups}, r"serve=Cups is no list \(write serve=\[…\]\)"),
        ({"serve": [Cups], "admission": NoCups()}, "is no list .write admission="),
        ({"serve": [Cups], "admission": [NoCups]}, r"NoCups isn't an Admission plugin \(write NoCups\(…\)\)"),
        ({"serve": [Cups], "admission": ["no"]}, "'no' isn't an Admission plugin$"),
        ({"serve": [Cups], "admission": [Spilt()]}, r"has a subresource 'poor' \(did you mean 'pour'\?\)"),
        ({"serve": [Cups], "informers": Informer(Cup)}, "is no list .write informers="),
        ({"serve": [Cups], "informers": [Cup]}, r"Cup isn't an Informer \(write Informer\(Cup\)\)"),
        ({"serve": [Cups], "informers": [Informer(Other)]}, r"Other is not stored here \(add it to serve=\[…\]\)"),
        ({"serve": ["cups"]}, "'cups': can't be served"),
    ],
)
def test_a_mistake_is_told_when_the_server_is_made(given: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=says) as told:
        APIServer(**given)
    assert __file__ in told.value.place


def test_plugins_may_name_every_subresource_there_is() -> None:
    assert len(APIServer(serve=[Cups], admission=[Poured()]).admission) == 1
