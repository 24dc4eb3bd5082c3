"""A mistake in a declaration fails where the class is, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import pytest

from oarlock.meta.context import Context
from oarlock.registry.hooks.collection import StoredCollection, VirtualCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.schema.definition import Column, Rule, Scale
from oarlock.schema.types.declaring import (
    DeclarationError,
    DuplicateError,
    HookError,
    KeywordError,
    MissingConversion,
)
from oarlock.schema.types.definitions import definition_of, plural_of
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model
from oarlock.schema.types.views import object_schema

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Spec(Model):
    replicas: int = 1
    text: str = ""


class Status(Model):
    ready: int = 0


class Foo(
    Resource,
    group="foo.example.com",
    version="v1",
    short_names=["fo"],
    categories=["all"],
    columns=[Column("Replicas", ".spec.replicas", "integer")],
    selectable=[".spec.text"],
    scale=Scale(".spec.replicas", ".status.ready"),
    rules=[Rule("self.spec.replicas >= oldSelf.spec.replicas", "cannot shrink")],
    status_subresource=True,
    unconditional_update=True,
    create_on_update=True,
    delete_returns="object",
    ttl_s=60,
    name_rule="dns-label",
    gc_default="orphan",
):
    """A foo."""

    spec: Spec = Spec()
    status: Status | None = None


class FooV2(Spoke[Foo], version="v2", deprecated="use foo.example.com/v1", served=False):
    spec: Spec = Spec()

    def to_hub(self) -> Foo:
        return Foo(metadata=self.metadata, spec=self.spec)

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        return cls(metadata=hub.metadata, spec=hub.spec)


def test_every_keyword_ends_in_the_definition() -> None:
    made = definition_of(Foo, [FooV2], FooV2)
    assert made.group == "foo.example.com"
    assert (made.names.plural, made.names.singular, made.names.list_kind) == ("foos", "foo", "FooList")
    assert made.names.short_names == ("fo",)
    assert made.names.categories == ("all",)
    assert (made.hub, made.stored_as) == ("v1", "v2")
    assert made.unconditional_update
    assert made.create_on_update
    assert (made.delete_returns, made.ttl_s, made.name_rule, made.gc_default) == ("object", 60, "dns-label", "orphan")
    hub, spoke = made.versions
    assert hub.columns == (Column("Replicas", ".spec.replicas", "integer"),)
    assert hub.selectable == (".spec.text",)
    assert hub.scale == Scale(".spec.replicas", ".status.ready")
    assert hub.status
    assert hub.schema["x-kubernetes-validations"] == [
        {"rule": "self.spec.replicas >= oldSelf.spec.replicas", "message": "cannot shrink"}
    ]
    assert spoke.deprecation_warning == "foo.example.com/v2 Foo is deprecated; use foo.example.com/v1"
    assert not spoke.served


def test_columns_scale_and_rules_stay_with_their_version() -> None:
    spoke = definition_of(Foo, [FooV2]).version("v2")
    assert spoke.columns == ()
    assert spoke.scale is None
    assert not spoke.status
    assert "x-kubernetes-validations" not in spoke.schema


def test_a_whole_object_has_apiversion_kind_and_metadata() -> None:
    schema = object_schema(Foo)
    assert schema["description"] == "A foo."
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Flunder", "flunders"), ("Policy", "policies"), ("Class", "classes"), ("DemoPod", "demopods")],
)
def test_plurals(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"shortnames": ["a"]}, "unknown keyword 'shortnames' (did you mean 'short_names'?)"),
        ({"storage": 1}, "unknown keyword 'storage'"),
        ({"version": ...}, "the keyword 'version' is missing"),
        ({"group": ...}, "the keyword 'group' is missing"),
        ({"group": "nodots"}, "group='nodots' (a domain you own"),
        ({"group": 1}, "group=1"),
        ({"version": "V1"}, "version='V1'"),
        ({"kind": "lower"}, "kind='lower'"),
        ({"plural": "Foos"}, "plural='Foos'"),
        ({"scope": "Namespace"}, "scope='Namespace' (one of 'Namespaced', 'Cluster')"),
        ({"short_names": "fo"}, "short_names='fo' (a list of str)"),
        ({"columns": ["Ref"]}, "(a list of Column)"),
        ({"generation": "no"}, "generation='no' (a bool)"),
        ({"ttl_s": 0}, "ttl_s=0"),
        ({"ttl_s": 1.5}, "ttl_s=1.5 (an int)"),
        ({"deprecated": 3}, "deprecated=3 (a bool or str)"),
    ],
)
def test_a_wrong_keyword_is_refused_at_import(keywords: dict[str, Any], said: str) -> None:
    given = {"group": "foo.example.com", "version": "v1", **keywords}
    given = {key: value for key, value in given.items() if value is not ...}
    with pytest.raises(KeywordError) as caught:
        type(Model)("Bar", (Resource,), {"__annotations__": {}, "__module__": __name__}, **given)  # type: ignore[misc]
    assert said in str(caught.value)
    assert "class Bar" in str(caught.value)
    assert str(caught.value).startswith(__file__)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"columns": [Column("R", ".spec.replica")]}, "leads nowhere at 'replica' (did you mean 'replicas'?)"),
        ({"columns": [Column("R", "spec.replicas")]}, "a JSON path from the object's root"),
        ({"selectable": [".spec"]}, "isn't a string, integer or boolean"),
        ({"selectable": [".spec.text"] * 17}, "17 selectable fields (at most 16)"),
        ({"scale": Scale(".spec.replicas", ".status.x")}, "scale '.status.x' leads nowhere at 'status'"),
        ({"status_subresource": True}, "status_subresource=True without a status field"),
    ],
)
def test_paths_must_lead_somewhere(keywords: dict[str, Any], said: str) -> None:
    class Bar(Resource, group="foo.example.com", version="v1", **keywords):
        spec: Spec = Spec()

    with pytest.raises(KeywordError) as caught:
        definition_of(Bar)
    assert said in str(caught.value)
    assert __file__ in str(caught.value)


def test_a_spoke_needs_a_hub_and_both_conversions() -> None:
    with pytest.raises(MissingConversion, match="version 'v3' has no to_hub"):

        class NoWay(Spoke[Foo], version="v3"):
            pass

    with pytest.raises(MissingConversion, match=r"no from_hub, so it can't be converted .write @classmethod"):

        class OneWay(Spoke[Foo], version="v3"):
            def to_hub(self) -> Foo:
                return Foo()

    with pytest.raises(MissingConversion, match="is a class method"):

        class Instance(OneWay2, version="v3"):
            def from_hub(self, hub: Foo) -> Self:  # type: ignore[override]
                return self

    with pytest.raises(KeywordError, match="a spoke of what"):

        class NoHub(Spoke, version="v3"):  # type: ignore[type-arg]
            pass

    with pytest.raises(KeywordError, match="is no hub"):

        class WrongHub(Spoke["Foo"], version="v3"):
            pass


class OneWay2(Spoke[Foo], version="v4"):
    def to_hub(self) -> Foo:
        return Foo()

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        return cls()


def test_a_spoke_has_its_hub_s_names() -> None:
    for keyword in ("plural", "short_names", "scope"):
        with pytest.raises(KeywordError, match=f"unknown keyword '{keyword}' .a spoke has its hub's"):
            type(Model)(  # type: ignore[misc]
                "X", (FooV2,), {"__orig_bases__": (Spoke[Foo],), "__module__": __name__}, version="v9", **{keyword: "x"}
            )


def test_apiversion_and_kind_are_not_fields() -> None:
    with pytest.raises(KeywordError, match="'kind' is said by the class itself"):

        class Bar(Resource, group="foo.example.com", version="v1"):
            kind: str


HOOK_MISTAKES: list[tuple[type, str, Any, str]] = []


def mistake(base: Any, said: str) -> Callable[[F], F]:
    def keep(function: F) -> F:
        HOOK_MISTAKES.append((base, function.__name__, function, said))
        return function

    return keep


@mistake(StoredCollection[Foo], "did you mean 'validate'?; a helper's name starts with '_'")
def validat(self: Any, new: Foo, old: Foo | None, ctx: Context) -> None: ...


@mistake(StoredCollection[Foo], "write def prepare(self, new, old, ctx)")
def prepare(self: Any, new: Foo, ctx: Context) -> None: ...


@mistake(StoredCollection[Foo], "may not wait")
async def validate(self: Any, new: Foo, old: Foo | None, ctx: Context) -> None: ...


@mistake(StoredCollection[Foo], "a VirtualCollection has its own")
def get(self: Any, name: str) -> None: ...


@mistake(VirtualCollection[Foo], "PATCH is served when there are get and update")
async def patch(self: Any, name: str) -> None: ...


@mistake(VirtualCollection[Foo], "isn't async (write async def delete(self, name, ctx))")
def delete(self: Any, name: str, ctx: Context) -> None: ...


@mistake(VirtualCollection[Foo], "isn't an async generator")
async def watch(self: Any, ctx: Context) -> None: ...


@pytest.mark.parametrize(("base", "name", "function", "said"), HOOK_MISTAKES)
def test_a_method_the_server_would_never_call(base: Any, name: str, function: Any, said: str) -> None:
    with pytest.raises(HookError) as caught:
        exec(f"class K(base): {name} = function", {"base": base, "function": function, "__name__": __name__})
    assert said in str(caught.value)
    assert f"K.{name}" in str(caught.value)


def test_helpers_constants_and_own_base_classes_are_fine() -> None:
    class Base(StoredCollection[T], Generic[T]):
        LIMIT = 3

        def _helper(self) -> int:
            return 1

    class Foos(Base[Foo]):
        pass

    assert Foos.__resource__ is Foo
    assert Base.__resource__ is None


def test_a_collection_says_of_what() -> None:
    with pytest.raises(KeywordError, match="a collection of what"):

        class Nothing(StoredCollection):  # type: ignore[type-arg]
            pass

    with pytest.raises(KeywordError, match="isn't a Resource class"):

        class Text(StoredCollection["Foo"]):
            pass

    with pytest.raises(KeywordError, match="is no version of Foo"):

        class Other(StoredCollection[Foo], stored_as=Unrelated):
            pass

    with pytest.raises(HookError, match="serves no verb"):

        class Empty(VirtualCollection[Foo]):
            pass


class Unrelated(Resource, group="other.example.com", version="v1"):
    pass


def test_the_same_thing_twice() -> None:
    class Foos(StoredCollection[Foo]):
        pass

    class More(StoredCollection[Foo]):
        pass

    class Again(Resource, group="foo.example.com", version="v7", kind="Foo"):
        pass

    class SamePlural(Resource, group="foo.example.com", version="v7", plural="foos"):
        pass

    class TwiceV2(FooV2, Spoke[Foo], version="v2"):
        pass

    for items, said in (
        ([Foos, More], "Foos is the collection of this resource already"),
        ([Foo, Again], "two declarations of the kind 'Foo'"),
        ([Foo, SamePlural], "its plural 'foos' is taken: it is the plural of Foo"),
        ([FooV2, TwiceV2], "two classes declare version 'v2'"),
    ):
        with pytest.raises(DuplicateError, match=said):
            served_from(items)


def test_what_can_not_be_served() -> None:
    class Needy(StoredCollection[Foo]):
        def __init__(self, limit: int) -> None:
            self.limit = limit

    for item, said in (
        (Needy, r"can't be made: missing a required argument: 'limit' \(list Needy\(…\) instead"),
        (Model, "Model: can't be served"),
        (3, "3: can't be served"),
        (StoredCollection, "a collection of what"),
    ):
        with pytest.raises(DeclarationError, match=said):
            served_from([item])
    assert served_from([Needy(3)])[0].definition.names.kind == "Foo"
