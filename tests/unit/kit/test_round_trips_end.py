"""`assert_round_trips` ends in time, and finds what it finds all the same."""

from __future__ import annotations

from typing import Self

import pytest

from oarlock import Resource, Spoke
from oarlock.testing import LossyRoundTrip, assert_round_trips
from oarlock.testing.roundtrips import FIRST


class Cup(Resource, group="kitchen.example.com", version="v1"):
    """A cup."""

    size: int = 0
    colour: str = ""


class SameCup(Spoke[Cup], version="v1beta1"):
    """The same."""

    size: int = 0
    colour: str = ""

    def to_hub(self) -> Cup:
        count.append("")
        return Cup(metadata=self.metadata, size=self.size, colour=self.colour)

    @classmethod
    def from_hub(cls, hub: Cup) -> Self:
        return cls(metadata=hub.metadata, size=hub.size, colour=hub.colour)


class PaleCup(Spoke[Cup], version="v1alpha1"):
    """Without its colour."""

    size: int = 0
    colour: str = ""

    def to_hub(self) -> Cup:
        return Cup(metadata=self.metadata, size=self.size)

    @classmethod
    def from_hub(cls, hub: Cup) -> Self:
        return cls(metadata=hub.metadata, size=hub.size, colour=hub.colour)


count: list[str] = []


def test_without_time_a_few_examples_are_tried() -> None:
    count.clear()
    assert_round_trips(Cup, SameCup, limit_s=0)
    assert 0 < len(count) <= FIRST


def test_with_time_all_of_them_are() -> None:
    count.clear()
    assert_round_trips(Cup, SameCup, examples=3 * FIRST, limit_s=60)
    assert len(count) > 2 * FIRST


@pytest.mark.parametrize("limit_s", [0, 60])
def test_what_is_lost_is_shown_small(limit_s: float) -> None:
    with pytest.raises(LossyRoundTrip) as raised:
        assert_round_trips(Cup, PaleCup, limit_s=limit_s)
    assert len(raised.value.tree["colour"]) == 1
    assert "colour" in str(raised.value)
