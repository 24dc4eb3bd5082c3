"""Plugins see typed objects in their own version; what they change or refuse reaches the request."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any, Self

import pytest

from oarlock.meta.context import Context, Target, User
from oarlock.meta.errors import Denied, Forbidden
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.chain import AdmissionChain
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.admission.typed import TypedPlugin
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.workers import at_once
from oarlock.registry.write.write_request import AdmissionRequest, Gate, Reviewers
from oarlock.schema.types.declaring import DeclarationError, HookError, KeywordError
from oarlock.schema.types.resources import Resource, Spoke
from oarlock.schema.types.shapes import Model

Tree = dict[str, Any]


class Still:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


class Spec(Model):
    text: str = ""
    extra: str | None = None


class Foo(Resource, group="foo.example.com", version="v1"):
    spec: Spec = Spec()


class OldFoo(Spoke[Foo], version="v1beta1"):
    words: str = ""

    def to_hub(self) -> Foo:
        return Foo(metadata=self.metadata, spec=Spec(text=self.words))

    @classmethod
    def from_hub(cls, hub: Foo) -> Self:
        return cls(metadata=hub.metadata, words=hub.spec.text)


class Bar(Resource, group="foo.example.com", version="v1"):
    pass


SERVED = {served.definition.names.plural: served for served in served_from([OldFoo, Bar])}


def context(version: str = "v1", resource: str = "foos", name: str = "", sub: str = "") -> Context:
    return Context(User("u"), Target("create", "foo.example.com", version, resource, sub, "ns", name, "Foo"), Still())


def reviewers(*plugins: Admission[Any], ctx: Context, operation: str = "CREATE") -> Reviewers | None:
    gate: Gate = AdmissionChain(map(TypedPlugin, plugins))
    served = SERVED.get(ctx.target.resource, SERVED["bars"])
    return gate.reviewers(AdmissionRequest(ctx, operation, served))


def mutated(plugins: Sequence[Admission[Any]], tree: Tree, ctx: Context, operation: str = "CREATE") -> Any:
    original = copy.deepcopy(tree)
    interested = reviewers(*plugins, ctx=ctx, operation=operation)
    if interested is None:
        return tree
    result = asyncio.run(interested.mutate(tree, None, at_once))
    assert tree == original, "the input was changed"
    return result


class Shout(Admission[Foo]):
    async def mutate(self, review: Review[Foo]) -> None:
        review.object.spec.text += "!"


class ShoutOld(Admission[OldFoo]):
    async def mutate(self, review: Review[OldFoo]) -> None:
        review.object.words += "?"


class Label(Admission[Resource], subresources=["*"]):
    async def mutate(self, review: Review[Resource]) -> None:
        review.object.metadata.labels["seen"] = review.operation


def test_plugins_change_one_after_another_and_unknown_fields_survive() -> None:
    tree = {"metadata": {"name": "a", "u": 1}, "spec": {"text": "t", "u": 2}}
    result = mutated([Shout(), Shout(), Label()], tree, context())
    assert result == {
        "metadata": {"name": "a", "u": 1, "labels": {"seen": "CREATE"}},
        "spec": {"text": "t!!", "u": 2},
    }


def test_a_plugin_that_changes_nothing_returns_the_very_tree() -> None:
    class Idle(Admission[Foo]):
        async def mutate(self, review: Review[Foo]) -> None:
            assert review.name == "a"

    tree = {"metadata": {"name": "a"}, "spec": {}}
    assert mutated([Idle()], tree, context()) is tree


def test_a_plugin_works_in_its_own_version() -> None:
    tree = {"metadata": {"name": "a", "u": 1}, "words": "w", "u": 2}
    assert mutated([Shout(), ShoutOld()], tree, context("v1beta1")) == {**tree, "words": "w!?"}


def test_what_the_plugin_s_version_can_not_say_stays() -> None:
    tree = {"metadata": {"name": "a"}, "spec": {"text": "t", "extra": "E"}}
    assert mutated([ShoutOld()], tree, context())["spec"] == {"text": "t?", "extra": "E"}


def test_other_kinds_operations_and_subresources_go_past() -> None:
    tree: Tree = {"metadata": {"name": "a"}, "spec": {"text": "t"}}
    assert mutated([Shout()], tree, context(resource="bars")) is tree
    assert mutated([Shout()], tree, context(), "CONNECT") is tree
    assert mutated([Shout()], tree, context(sub="status"), "UPDATE") is tree
    assert mutated([Label()], tree, context(sub="status"), "UPDATE") is not tree
    assert mutated([Label()], tree, context(resource="unheard-of")) is not tree


class Guard(Admission[Foo], operations=["CREATE", "DELETE"]):
    async def validate(self, review: Review[Foo]) -> None:
        if review.operation == "DELETE":
            assert review.old_object is not None
            assert review.new is None
            with pytest.raises(LookupError):
                _ = review.object
            raise Denied(f"{review.old_object.spec.text} stays, {review.user.name}")
        review.object.spec.text = "not kept"
        if not review.dry_run and review.namespace == "ns":
            raise Denied("not here")


@pytest.mark.parametrize(
    ("name", "metadata", "shown"),
    [("a", {}, "a"), ("", {"name": "b"}, "b"), ("", {"generateName": "c-"}, "c-"), ("", {}, "Unknown")],
)
def test_a_refusal_is_worded_as_kubernetes_words_it(name: str, metadata: Tree, shown: str) -> None:
    interested = reviewers(Guard(), ctx=context(name=name))
    assert interested is not None
    with pytest.raises(Forbidden) as caught:
        asyncio.run(interested.validate({"metadata": metadata, "spec": {}}, None, at_once))
    assert caught.value.message == f'foos.foo.example.com "{shown}" is forbidden: not here'
    assert caught.value.code == 403


def test_delete_has_only_an_old_object() -> None:
    old = {"metadata": {"name": "a"}, "words": "w"}
    interested = reviewers(Guard(), ctx=context("v1beta1", name="a"), operation="DELETE")
    assert interested is not None
    assert asyncio.run(interested.mutate(None, old, at_once)) is None
    with pytest.raises(Forbidden, match="w stays, u"):
        asyncio.run(interested.validate(None, old, at_once))


def test_nobody_is_interested_in_other_operations() -> None:
    assert reviewers(ctx=context()) is None
    assert reviewers(Guard(), ctx=context(), operation="UPDATE") is None
    assert reviewers(Guard(), ctx=context(), operation="DELETE") is not None

    class Nothing(Admission[Foo]):
        pass

    assert reviewers(Nothing(), ctx=context()) is None


def test_may_asks_who_was_handed_in() -> None:
    asked: list[str] = []

    async def may(ctx: Context, verb: str) -> None:
        asked.append(verb)

    asyncio.run(AdmissionChain([], may).may(context(), "create"))
    asyncio.run(AdmissionChain([]).may(context(), "create"))
    assert asked == ["create"]


def test_mistakes_in_a_plugin_fail_at_import() -> None:
    with pytest.raises(KeywordError, match="admission to what"):

        class A(Admission):  # type: ignore[type-arg]
            pass

    with pytest.raises(DeclarationError, match="isn't a declared resource"):

        class B(Admission[int]):
            pass

    with pytest.raises(KeywordError, match="a list of CREATE, UPDATE, DELETE, CONNECT"):

        class C(Admission[Foo], operations=["PATCH"]):  # type: ignore[list-item]
            pass

    with pytest.raises(HookError, match="did you mean 'validate'"):

        class D(Admission[Foo]):
            async def validat(self, review: Review[Foo]) -> None: ...

    with pytest.raises(HookError, match="isn't async"):

        class E(Admission[Foo]):
            def mutate(self, review: Review[Foo]) -> None: ...  # type: ignore[override]

    with pytest.raises(HookError, match="write async def validate"):

        class F(Admission[Foo]):
            async def validate(self, request: Any) -> None: ...


class Asked:
    """A plugin that notes about which resources it is asked."""

    waits = False

    only_operations = ("CREATE",)

    def __init__(self, *only_kinds: str) -> None:
        self.only_kinds = only_kinds or None
        self.resources: list[str] = []

    def handles(self, request: AdmissionRequest) -> bool:
        self.resources.append(request.ctx.target.resource)
        return False

    async def mutate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any) -> Any:
        return new

    async def validate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any, hub: Any) -> None:
        return None


def test_a_plugin_for_some_kinds_and_operations_is_asked_about_them_and_about_bodies_that_may_be_it() -> None:
    foos, everything = Asked("Foo"), Asked()
    chain = AdmissionChain([foos, everything])
    for plural in ("foos", "bars"):
        assert chain.reviewers(AdmissionRequest(context(resource=plural), "CREATE", SERVED[plural])) is None
    body = GroupVersionKind("foo.example.com", "v1", "Foo")
    chain.reviewers(AdmissionRequest(context(resource="bars", sub="swap"), "CREATE", SERVED["bars"], body))
    chain.reviewers(AdmissionRequest(context(), "DELETE", SERVED["foos"]))
    assert (foos.resources, everything.resources) == (["foos", "bars"], ["foos", "bars", "bars"])
    chain.plugins = (everything,)
    chain.reviewers(AdmissionRequest(context(), "CREATE", SERVED["foos"]))
    assert foos.resources == ["foos", "bars"]


class AskedAboutUpdatesOfFoos(Asked):
    only_operations = ("CREATE", "UPDATE")
    only_updates_of = ("Foo",)


def test_a_plugin_for_updates_of_some_kinds_is_asked_about_creations_of_every_kind() -> None:
    plugin = AskedAboutUpdatesOfFoos()
    chain = AdmissionChain([plugin])
    for operation in ("CREATE", "UPDATE"):
        for plural in ("foos", "bars"):
            chain.reviewers(AdmissionRequest(context(resource=plural), operation, SERVED[plural]))
    assert plugin.resources == ["foos", "bars", "foos"]


class Mutes(Asked):
    """Is interested in everything, and changes nothing: it says so."""

    mutates = False

    def handles(self, request: AdmissionRequest) -> bool:
        return True

    async def mutate(self, request: AdmissionRequest, new: Any, old: Any, offload: Any) -> Any:
        raise AssertionError("it is asked to mutate")


def test_a_plugin_that_says_that_it_changes_nothing_is_not_asked_to() -> None:
    reviewers = AdmissionChain([Mutes()]).reviewers(AdmissionRequest(context(), "CREATE", SERVED["foos"]))
    assert reviewers is not None
    new = {"metadata": {}}
    assert asyncio.run(reviewers.mutate(new, None, at_once)) is new
