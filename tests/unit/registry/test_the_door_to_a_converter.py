"""Whatever a converter does wrong, the answer names the object, and what it refuses with reaches who wrote it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oarlock.meta.errors import BadRequest, InvalidObject, ServiceUnavailable, StatusError
from oarlock.meta.fielderrors import Invalid
from oarlock.registry.conversions import MOST_TRIES, ConversionError, Conversions, Converter
from oarlock.schema.definition import Names, ResourceDefinition, VersionDefinition

VERSIONS = (VersionDefinition("v1", {}), VersionDefinition("v2", {}))
DEFINITION = ResourceDefinition(
    "sea.example.com", Names("boats", "Boat"), "Namespaced", VERSIONS, hub="v1", stored_as="v1"
)
Tree = dict[str, Any]


class Fragile(Converter):
    """Raises `error` for objects whose names are in `bad`, and loses one when it has `holes`."""

    def __init__(self, error: Exception, *bad: str, pure: bool = False, waits: bool = False, holes: int = 0) -> None:
        self.error = error
        self.bad = bad
        self.pure = pure
        self.waits = waits
        self.holes = holes
        self.calls = 0

    def convert_now(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree] | None:
        return None if self.waits else self._converted(trees)

    async def convert(self, trees: list[Tree], from_version: str, to_version: str) -> list[Tree]:
        return self._converted(trees)

    def _converted(self, trees: list[Tree]) -> list[Tree]:
        self.calls += 1
        for tree in trees:
            if tree["metadata"]["name"] in self.bad or "*" in self.bad:
                raise self.error
        return [dict(tree) for tree in trees[self.holes :]]


def boats(*names: str) -> list[Tree]:
    return [{"apiVersion": "sea.example.com/v1", "metadata": {"name": name, "namespace": "ns"}} for name in names]


def convert(converter: Converter, *names: str, stored: bool = False) -> list[Tree]:
    return asyncio.run(Conversions(DEFINITION, converter).convert(boats(*names), "v1", "v2", stored=stored))


@pytest.mark.parametrize("waits", [False, True])
def test_what_comes_back_says_its_version(waits: bool) -> None:
    made = convert(Fragile(KeyError(), waits=waits), "a", "b")
    assert [(tree["apiVersion"], tree["kind"]) for tree in made] == [("sea.example.com/v2", "Boat")] * 2


def test_the_object_is_named_where_it_can_be_found_out() -> None:
    with pytest.raises(ConversionError, match=r"converting sea.example.com/v1 Boat ns/b to v2 failed: code of this"):
        convert(Fragile(KeyError("x"), "b", pure=True), "a", "b", "c")
    with pytest.raises(ConversionError, match=r"Boat ns/b to v2"):
        convert(Fragile(KeyError("x"), "b"), "b")
    with pytest.raises(ConversionError, match=r"one of 3 objects, sea.example.com/v1 ns/a to sea.example.com/v1 ns/c"):
        convert(Fragile(KeyError("x"), "b", waits=True), "a", "b", "c")


def test_a_refusal_is_told_to_who_writes_and_to_nobody_else() -> None:
    refusal = BadRequest("no boats")
    with pytest.raises(BadRequest):
        convert(Fragile(refusal, "a"), "a")
    with pytest.raises(ConversionError, match="no boats"):
        convert(Fragile(refusal, "a"), "a", stored=True)
    with pytest.raises(InvalidObject, match=r"spec\.sail"):
        convert(Fragile(Invalid("spec.sail", 1, "torn"), "a"), "a")
    with pytest.raises(ConversionError, match=r"spec\.sail"):
        convert(Fragile(Invalid("spec.sail", 1, "torn"), "a"), "a", stored=True)
    with pytest.raises(ServiceUnavailable):
        convert(Fragile(ServiceUnavailable("nobody there"), "a"), "a", stored=True)


def test_one_that_loses_objects_is_noticed() -> None:
    with pytest.raises(ConversionError, match="3 objects became 2"):
        convert(Fragile(KeyError(), holes=1), "a", "b", "c")


def each(converter: Fragile, count: int) -> list[Tree | StatusError]:
    names = [f"b{number}" for number in range(count)]
    conversions = Conversions(DEFINITION, converter)
    return asyncio.run(conversions.each(names, lambda name: boats(name)[0], "v1", "v2"))


def test_of_many_those_that_fail_are_found_and_the_others_converted() -> None:
    converter = Fragile(BadRequest("no"), "b7", "b300", waits=True)
    made = each(converter, 500)
    assert [number for number, tree in enumerate(made) if isinstance(tree, StatusError)] == [7, 300]
    assert str(made[300]).startswith(
        "Internal error occurred: converting sea.example.com/v1 Boat ns/b300 to v2 failed: no; it is stored, and can "
    )
    assert converter.calls < 50


def test_nobody_is_asked_forever() -> None:
    broken = Fragile(BadRequest("no"), "*", waits=True)
    assert all(isinstance(tree, ConversionError) for tree in each(broken, 5000))
    assert broken.calls < 2 * MOST_TRIES
    away = Fragile(ServiceUnavailable("nobody there"), "*", waits=True)
    assert all(isinstance(tree, ServiceUnavailable) for tree in each(away, 500))
    assert away.calls == 1
