"""The examples declare what they should, lose nothing between versions, and answer as was recorded."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
from pathlib import Path
from typing import Any, Self

import pytest

from oarlock.meta import errors
from oarlock.meta.context import Context, Target, User
from oarlock.meta.options import ListOptions
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Served
from oarlock.registry.workers import at_once
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.schema.compiled import compile_version
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model
from oarlock.testing import LossyRoundTrip, assert_round_trips

Tree = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]


class Still:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def examples_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("examples", "examples/hello/src"):
        monkeypatch.syspath_prepend(str(ROOT / path))


def load(name: str) -> Any:
    return importlib.import_module(name)


def flunders() -> Served:
    return served_from([load("wardle.flunders").Flunders])[0]


def foos() -> Served:
    return served_from([load("hello.api.v1.foo").Foo, load("hello.collections.foos").Foos])[0]


def context(kind: str, version: str, name: str = "", sub: str = "") -> Context:
    group, resource = ("hello.zeng.dev", "foos") if kind == "Foo" else ("wardle.example.com", "flunders")
    return Context(User("u"), Target("create", group, version, resource, sub, "default", name, kind), Still())


def settled(served: Served, version: str, tree: Tree) -> Tree:
    """The tree as the server sees it after decoding."""
    compiled = compile_version(served.definition, version)
    compiled.normalize(tree)
    compiled.default(tree)
    default = served.hooks.default.get(version)
    return default(tree, Context.for_test()) if default else tree


class Empty(Model):
    pass


class Counted(Model):
    count: int | None = None


class Thing(Resource, group="lossy.example.com", version="v2"):
    spec: Empty = Empty()


class OldThing(Spoke[Thing], version="v1"):
    spec: Counted = Counted()

    def to_hub(self) -> Thing:
        return Thing(metadata=self.metadata)

    @classmethod
    def from_hub(cls, hub: Thing) -> Self:
        return cls(metadata=hub.metadata)


@pytest.mark.slow
def test_no_version_loses_anything() -> None:
    assert_round_trips(load("wardle.flunders").Flunders, load("wardle.api.v1alpha1").Fischer)
    assert_round_trips(
        load("hello.collections.foos").Foos, load("hello.api.v1.foo").Foo, load("hello.collections.greetings").Greetings
    )


def test_wardle_s_definitions_say_what_was_recorded() -> None:
    flunder, fischer = served_from([load("wardle.flunders").Flunders, load("wardle.api.v1alpha1").Fischer])
    definition = flunder.definition
    assert [v.name for v in definition.served_versions()] == ["v1beta1", "v1alpha1"]
    assert (definition.stored_as, definition.names.plural, definition.names.short_names) == ("v1alpha1", "flunders", ())
    assert not definition.generation
    assert not definition.unconditional_update
    old = definition.version("v1alpha1")
    assert old.deprecation_warning == (
        "wardle.example.com/v1alpha1 Flunder is deprecated in v1.3+, unavailable in v1.10+"
    )
    assert [column.name for column in old.columns] == ["Created At"]
    assert fischer.definition.scope == "Cluster"
    assert fischer.definition.versions[0].deprecated
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert flunder.verbs() == fischer.verbs() == verbs


@pytest.mark.parametrize("number", [70, 80, 92, 107, 238, 254])
def test_what_is_stored_of_a_flunder_is_what_was_recorded(golden: list[Tree], number: int) -> None:
    exchange = next(e for e in golden if e["id"] == number)
    version = exchange["request"]["path"].split("/")[3]
    recorded = json.loads(exchange["response"]["body"])
    served = flunders()
    tree = settled(served, version, json.loads(exchange["request"]["body"]))
    (there,) = served.converter.convert_now([tree], version, "v1alpha1") or ()  # type: ignore[misc]
    (back,) = served.converter.convert_now([there], "v1alpha1", version) or ()  # type: ignore[misc]
    for shown in (tree, back):
        assert {k: v for k, v in shown.items() if k in ("spec", "status")} == {
            k: v for k, v in recorded.items() if k in ("spec", "status")
        }


def test_a_flunder_that_was_stored_is_shown_in_both_versions(golden: list[Tree]) -> None:
    exchange = {e["id"]: e for e in golden}
    old = json.loads(exchange[73]["response"]["body"])
    new = json.loads(exchange[77]["response"]["body"])
    converter = flunders().converter
    assert converter.convert_now([old], "v1alpha1", "v1beta1") == [new]
    assert converter.convert_now([new], "v1beta1", "v1alpha1") == [old]


@pytest.mark.parametrize(
    ("spec", "messages"),
    [
        ({}, []),
        ({"flunderReference": "a", "referenceType": "Flunder"}, []),
        ({"fischerReference": "a", "referenceType": "Fischer"}, []),
        (
            {"flunderReference": "a", "fischerReference": "b"},
            ['spec.fischerReference: Invalid value: "b": cannot be set with flunderReference at the same time'],
        ),
        (
            {"flunderReference": "a"},
            ['spec.flunderReference: Invalid value: "a": cannot be set if referenceType is not Flunder'],
        ),
        (
            {"fischerReference": "a", "referenceType": "Flunder"},
            ['spec.fischerReference: Invalid value: "a": cannot be set if referenceType is not Fischer'],
        ),
        (
            {"referenceType": "Fischer"},
            ['spec.fischerReference: Invalid value: "": cannot be empty if referenceType is Fischer'],
        ),
        (
            {"referenceType": "Flunder"},
            ['spec.flunderReference: Invalid value: "": cannot be empty if referenceType is Flunder'],
        ),
        ({"referenceType": "X"}, ['spec.referenceType: Invalid value: "X": must be Flunder or Fischer']),
    ],
)
def test_what_a_flunder_may_point_at(spec: Tree, messages: list[str]) -> None:
    validate = flunders().hooks.validate
    assert validate is not None
    found = validate({"metadata": {"name": "a"}, "spec": spec}, None, context("Flunder", "v1beta1"))
    assert [error.message for error in found] == messages


def test_a_fischer_bans_a_name() -> None:
    fischer = load("wardle.api.v1alpha1").Fischer(disallowed_flunders=["badname"])
    plugin = load("wardle.admission").BanFlunder([fischer])
    create = AdmissionRequest(context("Flunder", "v1alpha1"), "CREATE", flunders())
    member = TypedPlugin(plugin)
    assert member.handles(create)
    assert member.only_operations == {"CREATE"}

    async def ask(name: str) -> None:
        await member.validate(create, {"metadata": {"name": name}, "spec": {}}, None, at_once)

    asyncio.run(ask("goodname"))
    with pytest.raises(errors.Forbidden) as caught:
        asyncio.run(ask("badname"))
    assert caught.value.message == (
        'flunders.wardle.example.com "badname" is forbidden: this name may not be used, please change the resource name'
    )


def test_hello_s_definition() -> None:
    definition = foos().definition
    assert [v.name for v in definition.served_versions()] == ["v2", "v1"]
    assert definition.names.short_names == ("fo",)
    assert definition.version("v2").status
    assert not definition.version("v1").status
    assert [c.name for c in definition.version("v2").columns] == ["Status", "Age", "Message", "Message1"]
    assert definition.version("v1").subresources[0].kind.api_version == "transformation.zeng.dev/v1beta1"


def test_a_foo_of_v1_keeps_its_image_in_an_annotation() -> None:
    served = foos()
    tree = {"metadata": {"name": "x"}, "spec": {"msg": "hi"}}
    old = settled(served, "v1", tree)
    assert old["metadata"] == {
        "name": "x",
        "labels": {"hello.zeng.dev/metadata.name": "x"},
        "annotations": {"spec.image": "busybox:1.36"},
    }
    mine = {"metadata": {"name": "x", "annotations": {"spec.image": "mine"}}, "spec": {"msg": "hi"}}
    assert settled(served, "v1", mine)["metadata"]["annotations"] == {"spec.image": "mine"}
    made = served.converter.convert_now([mine], "v1", "v2") or []
    assert made[0]["spec"] == {"image": "mine", "config": {"msg": "hi"}}
    assert "annotations" not in made[0]["metadata"]


def test_a_foo_without_an_image_is_told_what_is_missing() -> None:
    with pytest.raises(errors.InvalidObject) as caught:
        settled(foos(), "v2", {"metadata": {"name": "x"}, "spec": {"config": {}}})
    assert sorted(error.message for error in caught.value.errors) == [
        "spec.config.msg: Required value",
        "spec.image: Required value",
    ]


def test_an_update_through_v1_keeps_the_status() -> None:
    served = foos()
    live = {
        "metadata": {"name": "x", "labels": {}},
        "spec": {"image": "nginx", "config": {"msg": "hi"}},
        "status": {"phase": "Ready"},
    }
    (old,) = served.converter.convert_now([live], "v2", "v1") or [{}]
    old["spec"]["msg"] = "changed"
    (new,) = served.converter.convert_now([old], "v1", "v2") or [{}]
    merged = served.converter.carry_over(new, live, "v1")
    assert merged["status"] == {"phase": "Ready"}
    assert merged["spec"] == {"image": "nginx", "config": {"msg": "changed"}}


def test_a_foo_starts_as_processing_whatever_the_client_says() -> None:
    prepare = foos().hooks.prepare
    assert prepare is not None
    tree = {
        "metadata": {"name": "x"},
        "spec": {"image": "i", "config": {"msg": "m"}},
        "status": {"phase": "Ready"},
    }
    ctx = context("Foo", "v2")
    assert prepare(tree, None, ctx)["status"] == {"phase": "Processing"}
    assert prepare(tree, tree, ctx) is tree


def test_base64_of_a_foo() -> None:
    call = foos().hooks.subresources["base64"].call
    parent = {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"msg": "hello 👋"}}
    ctx = context("Foo", "v1", "x", "base64")

    async def encode(path: str) -> Any:
        answer = await call(ctx, parent, {"spec": {"fieldPath": path}, "metadata": {}})
        return json.loads(base64.b64decode((answer or {})["status"]["output"]))

    assert asyncio.run(encode("")) == parent
    assert asyncio.run(encode("spec.msg")) == "hello 👋"
    with pytest.raises(errors.BadRequest, match=r"undefined field path spec\.nope"):
        asyncio.run(encode("spec.nope"))


def test_greetings_are_made_when_somebody_asks() -> None:
    (served,) = served_from([load("hello.collections.greetings").Greetings])
    assert served.verbs() == ("get", "list")
    virtual = served.virtual
    assert virtual is not None
    assert virtual.get is not None
    assert virtual.list is not None
    get, list_ = virtual.get, virtual.list

    async def walk() -> None:
        ctx = context("Foo", "v2")
        found = await get("", "french", ctx)
        assert found is not None
        assert found["status"]["text"].startswith("bonjour")
        assert await get("", "klingon", ctx) is None
        assert len((await list_("", ctx, ListOptions())).items) == 3

    asyncio.run(walk())


class Bag(Resource, group="trips.example.com", version="v2"):
    """What is empty by default, and what may be empty or not there."""

    tags: list[str] = []
    notes: dict[str, str] = {}
    choices: list[str] | None = None


class OldBag(Spoke[Bag], version="v1"):
    tags: list[str] = []
    notes: dict[str, str] = {}
    choices: list[str] | None = None

    def to_hub(self) -> Bag:
        return Bag(metadata=self.metadata, tags=self.tags, notes=self.notes, choices=self.choices)

    @classmethod
    def from_hub(cls, hub: Bag) -> Self:
        return cls(metadata=hub.metadata, tags=hub.tags, notes=hub.notes, choices=hub.choices or None)


@pytest.mark.slow
def test_what_is_empty_by_default_is_no_loss_and_what_may_be_none_is() -> None:
    with pytest.raises(LossyRoundTrip) as caught:
        assert_round_trips(OldBag)
    assert {key: value for key, value in caught.value.tree.items() if key in ("tags", "notes", "choices")} == {
        "choices": []
    }


@pytest.mark.slow
def test_a_version_that_loses_something_is_found_with_the_smallest_example() -> None:
    with pytest.raises(LossyRoundTrip) as caught:
        assert_round_trips(OldThing)
    assert caught.value.tree["spec"] == {"count": 0}
    assert "v1 Thing → v2 → v1 loses something" in str(caught.value)
    assert "spec.count: 0 → nothing" in str(caught.value)
