"""A version is stored when it can say all that the hub can, or when its collection says what is lost."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

import pytest

from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.schema.types.declaring import KeywordError
from oarlock.schema.types.markers import JSON, Ge, Le, ListMap, Pattern
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model, replace

GROUP = "sea.example.com"


class Wheel(Model):
    name: str
    size: Annotated[int, Ge(1), Le(4)] = 1


class Engine(Model):
    power: float
    fuel: str = "coal"


class CartSpec(Model):
    owner: str
    colour: Literal["red", "blue", "green"] = "red"
    parked: bool = False
    code: Annotated[str, Pattern(r"^[A-Z]{3}-\d+$")] | None = None
    wheels: Annotated[list[Wheel], ListMap("name")] = []
    notes: dict[str, str] = {}
    engine: Engine | None = None
    built: datetime | None = None
    free: JSON | None = None


class Cart(Resource, group=GROUP, version="v2"):
    spec: CartSpec


class Whole(Spoke[Cart], version="v1"):
    """Says everything, with another word for one thing."""

    class Spec(Model):
        holder: str
        rest: CartSpec | None = None

    spec: Spec

    def to_hub(self) -> Cart:
        assert self.spec.rest is not None
        return Cart(metadata=self.metadata, spec=replace(self.spec.rest, owner=self.spec.holder))

    @classmethod
    def from_hub(cls, hub: Cart) -> Self:
        return cls(metadata=hub.metadata, spec=cls.Spec(holder=hub.spec.owner, rest=hub.spec))


class Little(Spoke[Cart], version="v1"):
    """Says who owns it, whether it is blue, and how its wheels are called."""

    class Spec(Model):
        owner: str
        blue: bool = False
        wheels: list[str] = []

    spec: Spec

    def to_hub(self) -> Cart:
        wheels = [Wheel(name=name) for name in self.spec.wheels]
        colour: Any = "blue" if self.spec.blue else "red"
        return Cart(metadata=self.metadata, spec=CartSpec(owner=self.spec.owner, colour=colour, wheels=wheels))

    @classmethod
    def from_hub(cls, hub: Cart) -> Self:
        spec = hub.spec
        wheels = [wheel.name for wheel in spec.wheels]
        return cls(metadata=hub.metadata, spec=cls.Spec(owner=spec.owner, blue=spec.colour == "blue", wheels=wheels))


LOST = [
    "spec.colour=green",
    "spec.parked=true",
    "spec.wheels[].size",
    "spec.notes",
    "spec.engine",
    "spec.built",
    "spec.free",
]


def test_one_that_says_everything_is_stored() -> None:
    class Carts(StoredCollection[Cart], stored_as=Whole):
        pass

    assert served_from([Carts])[0].definition.stored_as == "v1"


def test_one_that_says_less_is_refused_with_what_would_be_lost_and_how_to_say_so() -> None:
    class Carts(StoredCollection[Cart], stored_as=Little):
        pass

    with pytest.raises(KeywordError) as caught:
        served_from([Carts])
    text = str(caught.value)
    assert "class Carts: stored_as=Little can't say " + ", ".join(LOST) in text
    assert f"loses={LOST!r}" in text


def test_what_is_said_to_be_lost_may_be() -> None:
    class Carts(StoredCollection[Cart], stored_as=Little, loses=LOST):
        pass

    class Broad(StoredCollection[Cart], stored_as=Little, loses=["spec"]):
        pass

    class Forgetful(StoredCollection[Cart], stored_as=Little, loses=[*LOST[:4], *LOST[5:]]):
        pass

    assert served_from([Carts])
    assert served_from([Broad])
    with pytest.raises(KeywordError, match=r"can't say spec\.engine, which"):
        served_from([Forgetful])


def test_nothing_is_lost_where_nothing_is_stored_otherwise() -> None:
    with pytest.raises(KeywordError, match="says nothing"):

        class Carts(StoredCollection[Cart], loses=["spec.engine"]):
            pass

    with pytest.raises(KeywordError, match="says nothing"):

        class Text(StoredCollection[Cart], stored_as=Little, loses="spec.engine"):
            pass


class Pair(Resource, group=GROUP, version="v2"):
    """One of two, told apart by a word that is in no schema."""

    left: str = ""
    right: str = ""
    side: str = ""


class OldPair(Spoke[Pair], version="v1"):
    which: str = ""
    side: str = ""

    def to_hub(self) -> Pair:
        if self.side == "Right":
            return Pair(metadata=self.metadata, right=self.which, side=self.side)
        return Pair(metadata=self.metadata, left=self.which, side=self.side)

    @classmethod
    def from_hub(cls, hub: Pair) -> Self:
        return cls(metadata=hub.metadata, which=hub.right if hub.side == "Right" else hub.left, side=hub.side)


class Fussy(Spoke[Pair], version="v1"):
    """Raises for whatever isn't as it should be; nothing can be said of it."""

    def to_hub(self) -> Pair:
        return Pair(metadata=self.metadata)

    @classmethod
    def from_hub(cls, hub: Pair) -> Self:
        raise ValueError(hub.left)


def test_what_depends_on_another_field_and_what_cannot_be_tried_is_let_through() -> None:
    class Pairs(StoredCollection[Pair], stored_as=OldPair):
        pass

    class FussyPairs(StoredCollection[Pair], stored_as=Fussy):
        pass

    assert served_from([Pairs])
    assert served_from([FussyPairs])
