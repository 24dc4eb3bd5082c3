"""Users' code, wrapped: hooks work on typed objects, the server on trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

import pytest

from oarlock.meta import errors
from oarlock.meta.context import Context, Target, User
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.kinds import GroupVersionKind
from oarlock.meta.options import ListOptions, WatchOptions
from oarlock.registry.hooks.collection import StoredCollection, VirtualCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.hooks.subresource import subresource
from oarlock.registry.served import Served
from oarlock.registry.virtual.pages import Page
from oarlock.schema.types.declaring import DuplicateError, HookError
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model, ObjectMeta

Tree = dict[str, Any]
T = TypeVar("T")


class Still:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


def context(**target: str) -> Context:
    made = Target("update", "foo.example.com", "v1", "foos", "", "ns", "a", "Foo")
    return Context(User("u"), replace(made, **target), Still())


class Spec(Model):
    text: str = ""
    number: int = 0


class Foo(Resource, group="foo.example.com", version="v1"):
    spec: Spec = Spec()

    def default(self) -> None:
        if not self.spec.text:
            self.spec.text = "filled in"


class OldFoo(Spoke[Foo], version="v1beta1"):
    words: str = ""

    def to_hub(self) -> Foo:
        return Foo(metadata=self.metadata, spec=Spec(text=self.words))

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        return cls(metadata=hub.metadata, words=hub.spec.text)


class Pour(Resource, group="pour.example.com", version="v1alpha1"):
    cups: int = 1


class Foos(StoredCollection[Foo]):
    def prepare(self, new: Foo, old: Foo | None, ctx: Context) -> None:
        new.spec.number = 1 if old is None else old.spec.number + 1

    def validate(self, new: Foo, old: Foo | None, ctx: Context) -> Iterator[FieldError]:
        new.spec.text = "changes in validate are not kept"
        if ctx.user.name == "nobody":
            yield Invalid("spec.text", new.spec.text, "no")
            yield Invalid("metadata.name", new.metadata.name, "no")

    @subresource("pour")
    async def pour(self, name: str, body: Pour, ctx: Context) -> Pour:
        body.cups += len(name)
        return body

    @subresource("copy", method="GET", versions=["v1beta1"])
    async def _copy(self, parent: Foo) -> Foo:
        parent.spec.text += " copied"
        return parent

    @subresource("raw", method="GET")
    async def _raw(self, parent: dict[str, Any]) -> Pour | None:
        assert parent["apiVersion"]
        return None


def run(waiting: Awaitable[T]) -> T:
    async def wait() -> T:
        return await waiting

    return asyncio.run(wait())


def served(*items: Any) -> Served:
    (made,) = served_from(items)
    return made


FOOS = served(Foos, OldFoo)


def test_default_fills_in_per_version_and_keeps_the_tree() -> None:
    default = FOOS.hooks.default
    assert set(default) == {"v1"}
    ctx = Context.for_test()
    filled = default["v1"]({"metadata": {}, "spec": {"u": 1}}, ctx)
    assert filled == {"metadata": {}, "spec": {"u": 1, "text": "filled in"}}
    tree = {"metadata": {}, "spec": {"text": "x"}}
    assert default["v1"](tree, ctx) is tree


def test_prepare_changes_the_tree_it_returns_and_nothing_else() -> None:
    prepare = FOOS.hooks.prepare
    assert prepare is not None
    new, old = (
        {"metadata": {"name": "a", "managedFields": []}, "spec": {"u": 1}},
        {"metadata": {}, "spec": {"number": 4}},
    )
    assert prepare(new, None, context()) == {**new, "spec": {"u": 1, "number": 1}}
    assert prepare(new, old, context())["spec"] == {"u": 1, "number": 5}
    assert new["spec"] == {"u": 1}


def test_validate_yields_every_mistake_and_changes_nothing() -> None:
    validate = FOOS.hooks.validate
    assert validate is not None
    tree = {"metadata": {"name": "a"}, "spec": {"text": "t"}}
    assert list(validate(tree, tree, context())) == []
    found = list(validate(tree, None, context().as_user(User("nobody"))))
    assert [error.path for error in found] == ["spec.text", "metadata.name"]
    assert tree["spec"] == {"text": "t"}


def test_a_hook_that_answers_wrongly_is_told_so() -> None:
    class Wrong(StoredCollection[Foo]):
        def prepare(self, new: Foo, old: Foo | None, ctx: Context) -> None:
            return new  # type: ignore[return-value]

        def validate(self, new: Foo, old: Foo | None, ctx: Context) -> Iterator[FieldError]:
            yield "spec is wrong"  # type: ignore[misc]

    hooks = served(Wrong).hooks
    assert hooks.prepare is not None
    assert hooks.validate is not None
    tree: Tree = {"metadata": {}, "spec": {}}
    with pytest.raises(TypeError, match="it changes the object in place"):
        hooks.prepare(tree, None, context())
    with pytest.raises(TypeError, match="it yields field errors"):
        list(hooks.validate(tree, None, context()))


def test_hooks_that_are_not_written_are_not_called() -> None:
    class Plain(StoredCollection[Foo]):
        pass

    hooks = served(Plain).hooks
    assert hooks.prepare is None
    assert hooks.validate is None


def test_subresources_are_in_the_definition_of_their_versions() -> None:
    def names(version: str) -> list[str]:
        return [s.name for s in FOOS.definition.version(version).subresources]

    assert names("v1") == ["raw", "pour"]
    assert names("v1beta1") == ["copy", "raw", "pour"]
    pour = FOOS.definition.version("v1").subresources[1]
    assert (pour.verbs, pour.kind) == (("create",), GroupVersionKind("pour.example.com", "v1alpha1", "Pour"))
    assert "cups" in pour.request_schema["properties"]
    assert pour.response_schema == pour.request_schema


def test_a_body_and_an_answer_are_typed() -> None:
    call = FOOS.hooks.subresources["pour"].call
    parent: Tree = {"metadata": {"name": "a"}, "spec": {}}
    answer = run(call(context(subresource="pour"), parent, {"metadata": {"odd": 1}, "cups": 2}))
    assert answer == {"metadata": {"odd": 1}, "cups": 3}


def test_the_parent_comes_in_the_version_that_is_asked_for_and_the_answer_goes_back() -> None:
    call = FOOS.hooks.subresources["copy"].call
    parent: Tree = {"metadata": {"name": "a"}, "words": "w"}
    answer = run(call(context(version="v1beta1", subresource="copy"), parent, None))
    assert answer == {
        "apiVersion": "foo.example.com/v1beta1",
        "kind": "Foo",
        "metadata": {"name": "a"},
        "words": "w copied",
    }
    raw = FOOS.hooks.subresources["raw"].call
    assert run(raw(context(), {"apiVersion": "x", "metadata": {}}, None)) is None


def test_subresource_mistakes() -> None:
    with pytest.raises(HookError, match="no subresource can be called 'status'"):
        subresource("status")
    with pytest.raises(HookError, match="no subresource is served with 'PATCH'"):
        subresource("x", method="PATCH")  # type: ignore[arg-type]
    with pytest.raises(HookError, match="a subresource is async"):

        @subresource("x")
        def plain(body: Pour) -> Pour:
            return body

    with pytest.raises(HookError, match="the server has no 'nme' to give"):

        class A(StoredCollection[Foo]):
            @subresource("x")
            async def x(self, nme: str, body: Pour) -> Pour:
                return body

    with pytest.raises(
        HookError, match=r"it takes no body .add the parameter body; or say method=\"POST\" for an action"
    ):

        class B(StoredCollection[Foo]):
            @subresource("x")
            async def x(self, name: str) -> Pour:
                return Pour()

    with pytest.raises(HookError, match="a GET has an answer"):

        class Silent(StoredCollection[Foo]):
            @subresource("x", method="GET")
            async def x(self) -> None: ...

    with pytest.raises(HookError, match="the body is Spec, which has no kind"):

        class C(StoredCollection[Foo]):
            @subresource("x")
            async def x(self, body: Spec) -> Pour:
                return Pour()

    with pytest.raises(DuplicateError, match="one serves 'x' already"):

        class D(StoredCollection[Foo]):
            @subresource("x")
            async def one(self, body: Pour) -> Pour:
                return body

            @subresource("x")
            async def two(self, body: Pour) -> Pour:
                return body

    class E(StoredCollection[Foo]):
        @subresource("x", versions=["v9"])
        async def x(self, body: Pour) -> Pour:
            return body

    with pytest.raises(HookError, match="there is no version 'v9'"):
        served(E)


class Memory(VirtualCollection[Foo]):
    """Keeps foos in a dict."""

    def __init__(self) -> None:
        self.foos: dict[str, Foo] = {}

    async def get(self, name: str, ctx: Context) -> Foo | None:
        return self.foos.get(name)

    async def list(self, ctx: Context) -> tuple[Sequence[Foo], str]:
        return [*self.foos.values()], "7"

    async def create(self, new: Foo, ctx: Context, dry_run: bool) -> Foo:
        if not dry_run:
            self.foos[new.metadata.name] = new
        new.spec.number = 9
        return new

    async def update(self, new: Foo, expected_version: str, ctx: Context) -> Foo:
        if expected_version == "old":
            raise errors.Conflict(ctx.target.group_resource, ctx.target.name)
        return Foo(metadata=ObjectMeta(name=new.metadata.name), spec=new.spec)

    async def delete(self, name: str, ctx: Context, *, dry_run: bool = False) -> Foo | None:
        return self.foos.get(name) if dry_run else self.foos.pop(name, None)

    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Foo]]:
        for foo in self.foos.values():
            yield "ADDED", foo


def test_a_virtual_collection_serves_what_is_written() -> None:
    made = served(Memory(), OldFoo)
    assert made.virtual is not None
    assert made.verbs() == ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert made.virtual.takes_dry_run == {"create", "delete"}
    assert "v1" in made.hooks.default

    class ReadOnly(VirtualCollection[Foo]):
        async def list(self, ctx: Context) -> Sequence[Foo]:
            return [Foo(metadata=ObjectMeta(name="x"))]

    read_only = served(ReadOnly)
    assert read_only.verbs() == ("list",)
    assert read_only.virtual is not None
    assert read_only.virtual.list is not None
    assert run(read_only.virtual.list("ns", context(), ListOptions())) == Page(
        [
            {
                "apiVersion": "foo.example.com/v1",
                "kind": "Foo",
                "metadata": {"name": "x", "namespace": "ns"},
                "spec": {"text": "", "number": 0},
            }
        ]
    )


def test_virtual_methods_work_on_trees() -> None:
    async def walk() -> None:
        virtual = served(Memory()).virtual
        assert virtual is not None
        assert virtual.create is not None
        assert virtual.get is not None
        assert virtual.update is not None
        assert virtual.list is not None
        assert virtual.watch is not None
        assert virtual.delete is not None
        ctx = context()
        new = {"apiVersion": "foo.example.com/v1", "kind": "Foo", "metadata": {"name": "a", "u": 1}, "spec": {"v": 2}}
        made = await virtual.create(new, ctx, True)
        assert made["spec"] == {"v": 2, "number": 9}, "what the class doesn't know survives"
        assert await virtual.get("ns", "a", ctx) is None
        await virtual.create(new, ctx, False)
        found = await virtual.get("ns", "a", ctx)
        assert found is not None
        assert found["metadata"] == {"name": "a", "namespace": "ns"}
        assert [kind async for kind, _ in virtual.watch("ns", ctx, WatchOptions())] == ["ADDED"]
        page = await virtual.list("", ctx, ListOptions())
        assert (len(page.items), page.resource_version) == (1, "7")
        assert "namespace" not in page.items[0]["metadata"]
        assert (await virtual.update(new, "", ctx, False))["metadata"]["namespace"] == "ns"
        with pytest.raises(errors.Conflict):
            await virtual.update(new, "old", ctx, False)
        assert await virtual.delete("ns", "a", ctx, True) is not None
        assert await virtual.delete("ns", "a", ctx, False) is not None
        assert await virtual.delete("ns", "a", ctx, False) is None

    run(walk())


def test_a_virtual_method_that_returns_something_else() -> None:
    class Wrong(VirtualCollection[Foo]):
        async def get(self, name: str, ctx: Context) -> Foo | None:
            return {"metadata": {}}  # type: ignore[return-value]

    virtual = served(Wrong).virtual
    assert virtual is not None
    assert virtual.get is not None
    with pytest.raises(TypeError, match=r"expected a tests\..*Foo, got"):
        run(virtual.get("", "a", context()))
