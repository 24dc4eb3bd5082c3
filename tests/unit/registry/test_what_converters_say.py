"""What a converter doesn't say is taken to be the least cooperative, and one that says nothing is refused at once."""

from __future__ import annotations

from typing import Any, cast

import pytest

from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter, NoConversion, copy_unless_pure
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Served
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition
from oarlock.schema.types.resources import Resource, Spoke

DEFINITION = ResourceDefinition(
    "sea.example.com", Names("boats", "Boat"), "Namespaced", (VersionDefinition("v1", {}),), hub="v1", stored_as="v1"
)


class Quiet(Converter):
    """Says nothing of itself."""

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees


class Undeclared:
    """Has the methods, but isn't a Converter."""

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree] | None:
        return trees

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return trees


class Cup(Resource, group="sea.example.com", version="v1"):
    size: int = 1


class OldCup(Spoke[Cup], version="v1beta1"):
    def to_hub(self) -> Cup:
        return Cup(metadata=self.metadata)

    @classmethod
    def from_hub(cls, hub: Cup) -> OldCup:
        return cls(metadata=hub.metadata)


def test_one_that_says_nothing_waits_changes_what_it_is_given_and_carries_nothing_over() -> None:
    quiet, tree, live = Quiet(), {"a": 1}, {"a": 1, "b": 2}
    assert Served(DEFINITION, quiet).waits
    assert quiet.convert_now([tree], "v1", "v2") is None
    assert copy_unless_pure(quiet, tree) == tree
    assert copy_unless_pure(quiet, tree) is not tree
    assert quiet.carry_over(tree, live, "v2") is tree


def test_classes_and_no_conversion_never_wait() -> None:
    (cups,) = served_from([Cup, OldCup])
    assert not cups.waits
    assert cups.converter.pure
    assert not Served(DEFINITION, NoConversion()).waits
    assert not NoConversion().pure


def test_what_is_no_converter_is_refused_when_the_resource_is_made() -> None:
    with pytest.raises(TypeError, match="Undeclared converts without saying how"):
        Served(DEFINITION, cast("Any", Undeclared()))
