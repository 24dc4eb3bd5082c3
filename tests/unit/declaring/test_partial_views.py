"""What can be read of an object whose class has changed is read, whatever is wrong with the rest."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock.schema.types.markers import ListMap, Nullable
from oarlock.schema.types.projections import projection_of
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model


class Wheel(Model):
    name: str
    size: int
    spare: bool = False


class CartSpec(Model):
    owner: str
    colour: Literal["red", "blue"]
    built: datetime
    wheels: Annotated[list[Wheel], ListMap("name")]
    labels: dict[str, int]
    horse: Wheel | None = None
    load: float = 1.5
    note: Annotated[str, Nullable] | None


class Cart(Resource, group="sea.example.com", version="v1"):
    spec: CartSpec


PROJECTION = projection_of(Cart)
WHOLE: dict[str, Any] = {
    "owner": "me",
    "colour": "blue",
    "built": "2020-01-01T00:00:00Z",
    "wheels": [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
    "labels": {"a.b/c": 1, "d": 2},
    "note": None,
}


def cart(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {**copy.deepcopy(WHOLE), **spec}}


def test_one_that_fits_is_what_it_is() -> None:
    assert PROJECTION.partial_view(cart()) == PROJECTION.view(cart())


@pytest.mark.parametrize(
    ("field", "value", "seen"),
    [
        ("owner", 5, ""),
        ("colour", "green", "red"),
        ("built", "yesterday", datetime.fromisoformat("1970-01-01T00:00:00Z")),
        ("labels", {"a.b/c": "x", "d": 2}, {"d": 2}),
        ("labels", [], {}),
        ("horse", {"name": "h"}, Wheel(name="h", size=0)),
        ("horse", "h", None),
        ("load", "much", 1.5),
        ("note", 4, None),
    ],
)
def test_what_cannot_be_read_is_as_if_nobody_had_set_it(field: str, value: Any, seen: Any) -> None:
    found = PROJECTION.partial_view(cart(**{field: value}))
    assert found is not None
    assert getattr(found.spec, field) == seen
    whole = PROJECTION.view(cart())
    for other in ("owner", "colour", "built", "wheels", "labels", "horse", "load", "note"):
        if other != field:
            assert getattr(found.spec, other) == getattr(whole.spec, other)


def test_inside_of_lists_too() -> None:
    wheels = [{"name": "a", "size": "big", "spare": True}, {"size": 2}, "c"]
    found = PROJECTION.partial_view(cart(wheels=wheels))
    assert found is not None
    assert found.spec.wheels == [
        Wheel(name="a", size=0, spare=True),
        Wheel(name="", size=2),
        Wheel(name="", size=0),
    ]


def test_where_everything_is_wrong_there_is_the_name() -> None:
    for spec in ("x", None, [], {"wheels": "x", "labels": 5}):
        found = PROJECTION.partial_view({"metadata": {"name": "a", "labels": "x"}, "spec": spec})
        assert found is not None
        assert (found.metadata.name, found.metadata.labels, found.spec.owner) == ("a", {}, "")
    assert PROJECTION.partial_view({"metadata": {"name": "a"}}) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WHOLE, "name", "size"]), inner),
    max_leaves=12,
)


@pytest.mark.slow
@examples(300)
@given(JSON, st.dictionaries(st.sampled_from([*WHOLE, "horse", "load"]), JSON))
def test_whatever_is_stored_can_be_looked_at_and_stays_as_it_is(spec: Any, fields: dict[str, Any]) -> None:
    for tree in ({"metadata": {"name": "a"}, "spec": spec}, cart(**fields)):
        before = copy.deepcopy(tree)
        found = PROJECTION.partial_view(tree)
        assert isinstance(found, Cart)
        assert isinstance(found.spec, CartSpec)
        assert tree == before
