"""Hints of a module without ``from __future__ import annotations``: Python 3.14 evaluates them when asked (PEP 649)."""

import sys
from typing import Annotated, Any

import pytest

from oarlock import Ge, Model, Resource
from oarlock.schema.types import reflect


class BoltSpec(Model):
    size: Annotated[int, Ge(0)] = 3
    labels: dict[str, str] = {}


class Bolt(Resource, group="lazy.example.com", version="v1"):
    spec: BoltSpec = BoltSpec()
    names: list[str] = []
    nut: BoltSpec | None = None


def test_a_field_may_have_a_model_as_its_default() -> None:
    assert Bolt().spec == BoltSpec(size=3)
    first, second = Bolt(), Bolt()
    assert first.spec is not second.spec
    assert reflect.schema_of(Bolt)["properties"]["spec"]["default"] == {"size": 3}


def test_types_of_the_function_around_the_class_are_found() -> None:
    class Thread(Model):
        pitch: int

    class Screw(Resource, group="lazy.example.com", version="v1"):
        thread: Thread
        spare: list[Thread] = []

    properties: Any = reflect.schema_of(Screw)["properties"]
    assert properties["thread"]["properties"] == properties["spare"]["items"]["properties"]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="earlier Pythons evaluate hints where they stand")
def test_a_hint_may_name_what_is_defined_below() -> None:
    class Hinge(Model):
        leaf: BoltSpec = BoltSpec(size=5)
        pin: Pin | None = None

    assert Hinge().leaf.size == 5
    assert reflect.schema_of(Hinge)["properties"]["pin"]["properties"]["length"]["type"] == "integer"


class Pin(Model):
    length: int
