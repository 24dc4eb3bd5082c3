"""What is listed in the wrong place, or isn't what a list takes, is told when the server is made."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock import Admission, APIServer, DeclarationError, Informer, Resource, Review, StoredCollection


class Cup(Resource, group="shop.example.com", version="v1"):
    """A cup."""


class Other(Resource, group="shop.example.com", version="v1"):
    """Not stored."""


class Cups(StoredCollection[Cup]):
    """Cups."""


class NoCups(Admission[Cup]):
    async def validate(self, review: Review[Cup]) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"serve": Cups}, r"serve=Cups is no list \(write serve=\[…\]\)"),
        ({"serve": [Cups], "admission": NoCups()}, "is no list .write admission="),
        ({"serve": [Cups], "admission": [NoCups]}, r"NoCups isn't an Admission plugin \(write NoCups\(…\)\)"),
        ({"serve": [Cups], "admission": ["no"]}, "'no' isn't an Admission plugin$"),
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
