"""Versions convert through the hub; what a version can't say stays with the live object."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Annotated, Any, Self

import pytest

from oarlock.registry.conversions import Converter, NoConversion
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.schema.types.classes_conversion import ClassConversion, merge_from_live
from oarlock.schema.types.markers import JSON, ListMap
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model
from oarlock.schema.types.views import ViewError

Tree = dict[str, Any]


class Port(Model):
    name: str
    number: int = 80
    secret: str | None = None


class HubSpec(Model):
    image: str = "busybox"
    msg: str = ""
    ports: Annotated[list[Port], ListMap("name")] = []
    extra: str | None = None
    free: JSON = None
    when: datetime | None = None


class Status(Model):
    phase: str | None = None


class Foo(Resource, group="foo.example.com", version="v2"):
    spec: HubSpec = HubSpec()
    status: Status | None = None


class OldPort(Model):
    name: str
    number: int = 80


class OldSpec(Model):
    message: str
    ports: list[OldPort] = []
    free: JSON = None


class OldFoo(Spoke[Foo], version="v1"):
    """Says less: the image is an annotation, there's no status, no extra, no secret."""

    spec: OldSpec

    def to_hub(self) -> Foo:
        image = self.metadata.annotations.pop("image", "busybox")
        ports = [Port(name=p.name, number=p.number) for p in self.spec.ports]
        return Foo(
            metadata=self.metadata,
            spec=HubSpec(image=image, msg=self.spec.message, ports=ports, free=self.spec.free),
        )

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        hub.metadata.annotations["image"] = hub.spec.image
        ports = [OldPort(name=p.name, number=p.number) for p in hub.spec.ports]
        return cls(metadata=hub.metadata, spec=OldSpec(message=hub.spec.msg, ports=ports, free=hub.spec.free))


class Forgetful(Spoke[Foo], version="v3"):
    """Doesn't pass metadata on."""

    spec: HubSpec = HubSpec()
    status: Status | None = None

    def to_hub(self) -> Foo:
        return Foo(spec=self.spec, status=self.status)

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        return cls(spec=hub.spec, status=hub.status)


conversion = ClassConversion(Foo, [OldFoo, Forgetful])


def old(**spec: Any) -> Tree:
    metadata = {"name": "a", "labels": {"x": "y"}, "annotations": {"image": "nginx"}, "managedFields": [{"a": 1}]}
    return {"apiVersion": "foo.example.com/v1", "kind": "Foo", "metadata": metadata, "spec": {"message": "hi", **spec}}


def one(tree: Tree, source: str, target: str) -> Tree:
    kept = copy.deepcopy(tree)
    (made,) = conversion.convert_now([tree], source, target)
    assert tree == kept, "the input was changed"
    return made


def test_a_spoke_becomes_the_hub_and_comes_back() -> None:
    tree = old(ports=[{"name": "p", "number": 1}], free={"a": [1, None]})
    hub = one(tree, "v1", "v2")
    assert list(hub) == ["apiVersion", "kind", "metadata", "spec"]
    assert hub["apiVersion"] == "foo.example.com/v2"
    assert hub["spec"] == {
        "image": "nginx",
        "msg": "hi",
        "ports": [{"name": "p", "number": 1}],
        "free": {"a": [1, None]},
    }
    assert one(hub, "v2", "v1") == tree


def test_of_metadata_only_labels_and_annotations_change() -> None:
    hub = one(old(), "v1", "v2")
    assert hub["metadata"] == {"name": "a", "labels": {"x": "y"}, "managedFields": [{"a": 1}]}


def test_metadata_that_is_not_passed_on_is_carried_over() -> None:
    tree = {**one(old(), "v1", "v2"), "apiVersion": "foo.example.com/v3"}
    assert one(tree, "v3", "v2")["metadata"] is tree["metadata"]


def test_one_spoke_becomes_another() -> None:
    made = one(old(), "v1", "v3")
    assert made["apiVersion"] == "foo.example.com/v3"
    assert made["spec"] == {"image": "nginx", "msg": "hi"}


def test_times_are_spelled_as_kubernetes_does() -> None:
    tree = {"metadata": {"name": "a"}, "spec": {"when": "2026-01-01T02:00:00.5+02:00"}}
    assert one(tree, "v3", "v2")["spec"]["when"] == "2026-01-01T00:00:00Z"


def test_the_same_version_is_left_alone() -> None:
    trees = [old()]
    assert conversion.convert_now(trees, "v1", "v1") is trees


def test_a_tree_its_class_can_not_hold() -> None:
    with pytest.raises(ViewError, match=r"spec.message: Required value"):
        conversion.convert_now([{"metadata": {"name": "a"}, "spec": {}}], "v1", "v2")


def test_what_a_spoke_can_not_say_is_taken_from_the_live_object() -> None:
    live = {
        "metadata": {"name": "a", "resourceVersion": "1"},
        "spec": {
            "image": "nginx",
            "msg": "hi",
            "extra": "E",
            "ports": [{"name": "p", "number": 1, "secret": "s"}, {"name": "q", "number": 2, "secret": "t"}],
        },
        "status": {"phase": "Ready"},
    }
    put = old(ports=[{"name": "q", "number": 3}, {"name": "new", "number": 4}])
    put["spec"]["message"] = "changed"
    merged = conversion.carry_over(one(put, "v1", "v2"), live, "v1")
    assert merged["spec"] == {
        "image": "nginx",
        "msg": "changed",
        "extra": "E",
        "ports": [{"name": "q", "number": 3, "secret": "t"}, {"name": "new", "number": 4}],
    }
    assert merged["status"] == {"phase": "Ready"}
    assert merged["metadata"] == one(put, "v1", "v2")["metadata"]


def test_through_the_hub_nothing_is_carried_over() -> None:
    new: Tree = {"metadata": {}, "spec": {}}
    assert conversion.carry_over(new, {"metadata": {}, "spec": {"extra": "E"}}, "v2") is new


@pytest.mark.parametrize(
    ("new", "live", "seen", "merged"),
    [
        ({}, {"a": 1}, {}, {"a": 1}),
        ({"a": 2}, {"a": 1}, {}, {"a": 2}),
        ({}, {}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": 1}, {}),
        ({}, {"a": 1}, {"a": 1}, {}),
        ({"a": {"b": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}),
        ({}, {"a": {"b": 1, "c": 3}}, {"a": {"b": 1}}, {}),
        ({"l": [2, 1]}, {"l": [1, 2]}, {"l": [1, 2]}, {"l": [2, 1]}),
        (
            {"l": [{"n": 2}]},
            {"l": [{"n": 1, "x": 1}, {"n": 2, "x": 2}]},
            {"l": [{"n": 1}, {"n": 2}]},
            {"l": [{"n": 2, "x": 2}]},
        ),
        ({"l": [5]}, {"l": [1, 2]}, {"l": [1]}, {"l": [5]}),
    ],
)
def test_three_ways(new: Tree, live: Tree, seen: Tree, merged: Tree) -> None:
    assert merge_from_live(new, live, seen, {}) == {**merged, "metadata": {}}


def test_one_version_needs_no_conversion() -> None:
    class Alone(Resource, group="foo.example.com", version="v1"):
        pass

    (alone,) = served_from([Alone])
    (many,) = served_from([OldFoo, Foo, Forgetful])
    assert isinstance(alone.converter, NoConversion)
    converter: Converter = many.converter
    assert converter.convert_now([old()], "v1", "v2")
    assert [v.name for v in many.definition.served_versions()] == ["v3", "v2", "v1"]
