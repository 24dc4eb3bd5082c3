"""What is listed in the wrong place, or isn't what a list takes, is told when the server is made."""

from __future__ import annotations

from typing import Any, Self

import pytest

from oarlock import (
    Admission,
    APIServer,
    Authorizer,
    Decision,
    DeclarationError,
    Informer,
    Resource,
    Review,
    Spoke,
    StoredCollection,
    Target,
    User,
    subresource,
)


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


class NoOthers(Admission[Other]):
    async def validate(self, review: Review[Other]) -> None: ...


class Newer(Spoke[Cup], version="v2"):
    """A version that isn't served."""

    def to_hub(self) -> Cup:
        return Cup(metadata=self.metadata)

    @classmethod
    def from_hub(cls, hub: Cup) -> Self:
        return cls(metadata=hub.metadata)


class NoNewer(Admission[Newer]):
    async def validate(self, review: Review[Newer]) -> None: ...


class NothingNamed(Admission[Resource]):
    async def validate(self, review: Review[Resource]) -> None: ...


class Sip(Resource, group="shop.example.com", version="v1"):
    """What is sipped."""


class Sipped(StoredCollection[Cup]):
    @subresource("sip")
    async def _sip(self, body: Sip) -> Sip:
        return body


class NoSips(Admission[Sip], subresources=["sip"]):
    async def validate(self, review: Review[Sip]) -> None: ...


class Guard(Authorizer):
    async def decide(self, user: User, target: Target) -> Decision:
        return Decision.allow()


class Hasty(Authorizer):
    def decide(self, user: User, target: Target) -> Decision:  # type: ignore[override]
        return Decision.allow()


class Poured(NoCups, subresources=["status", "scale", "pour"]):
    """Names what there is, or may be."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"serve": Cups}, r"serve=Cups isn't a list \(write serve=\[…\]\)"),
        ({"serve": [Cups], "admission": NoCups()}, "isn't a list .write admission="),
        ({"serve": [Cups], "admission": [NoCups]}, r"NoCups isn't an Admission plugin \(write NoCups\(…\)\)"),
        ({"serve": [Cups], "admission": ["no"]}, "'no' isn't an Admission plugin$"),
        ({"serve": [Cups], "admission": [Spilt()]}, r"has a subresource 'poor' \(did you mean 'pour'\?\)"),
        ({"serve": [Cups], "informers": Informer(Cup)}, "isn't a list .write informers="),
        ({"serve": [Cups], "informers": [Cup]}, r"Cup isn't an Informer \(write Informer\(Cup\)\)"),
        ({"serve": [Cups], "informers": [Informer(Other)]}, r"Other is not stored here \(add it to serve=\[…\]\)"),
        ({"serve": [Cups, Cups]}, "Cups: is listed twice"),
        ({"serve": [Cup, Newer, Cup]}, "Cup: is listed twice"),
        ({"serve": [Cups, Newer, Newer]}, "Newer: is listed twice"),
        ({"serve": [Cups], "admission": [NoOthers()]}, r"v1 Other is not served here \(add it to serve=\[…\]\)"),
        ({"serve": [Cups], "admission": [NoNewer()]}, "v2 Cup is not served here"),
        ({"serve": [Cups], "admission": [NoSips()]}, "v1 Sip is not served here"),
        ({"serve": [Cups], "authorizer": Guard}, r"Guard isn't an Authorizer \(write Guard\(…\)\)"),
        ({"serve": [Cups], "authorizer": object()}, r"isn't an Authorizer \(write class object\(Authorizer\)\)"),
        ({"serve": [Cups], "authorizer": Hasty()}, r"Hasty.decide: isn't async \(write async def decide\(self, user, "),
        ({"serve": ["cups"]}, "'cups': can't be served"),
    ],
)
def test_a_mistake_is_told_when_the_server_is_made(given: Any, says: str) -> None:
    with pytest.raises(DeclarationError, match=says) as told:
        APIServer(**given)
    assert __file__ in told.value.place


def test_an_authorizer_that_can_be_asked_is_taken() -> None:
    assert APIServer(serve=[Cups], authorizer=Guard()).authorizer is not None
    with pytest.raises(TypeError, match="abstract"):
        type("Dumb", (Authorizer,), {})()


def test_plugins_may_name_every_subresource_there_is() -> None:
    assert len(APIServer(serve=[Cups], admission=[Poured()]).admission) == 1


def test_plugins_may_be_for_any_version_for_what_a_subresource_takes_and_for_everything() -> None:
    plugins = [NoNewer(), NoCups(), NoSips(), NothingNamed()]
    assert len(APIServer(serve=[Cup, Sipped, Newer], admission=plugins).admission) == 4
