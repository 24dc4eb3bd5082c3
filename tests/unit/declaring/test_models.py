"""Objects of declared classes: what is written, what is left out, and what is never shared."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from oarlock.schema.types.declaring import KeywordError
from oarlock.schema.types.markers import JSON, Name, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model, ObjectMeta, replace
from oarlock.schema.types.views import ViewError, builtins_of, view, wire


class Port(Model):
    name: str = "z"


class Spec(Model):
    limit: ClassVar[int] = 7
    big: int = 100000
    text: str = "a b"
    maybe: int | None = None
    names: list[str] = []
    labels: dict[str, str] = {}
    two: list[int] = [1, 2]
    main: Port = Port(name="m")
    zero: Annotated[str, OmitEmpty] = ""
    count: Annotated[int, OmitEmpty] = 0
    required: int


class Foo(Resource, group="foo.example.com", version="v1"):
    spec: Spec = Spec(required=1)
    free: JSON = None
    when: datetime | None = None
    ratio: float | None = None


def test_defaults_are_always_written_and_empty_ones_left_out() -> None:
    assert builtins_of(Spec(required=3)) == {
        "big": 100000,
        "text": "a b",
        "two": [1, 2],
        "main": {"name": "m"},
        "required": 3,
    }
    assert builtins_of(Spec(required=3, big=int("100000"), zero="".join([]), count=0)) == builtins_of(Spec(required=3))


def test_mutable_defaults_are_made_anew() -> None:
    one, other = Spec(required=1), Spec(required=1)
    one.two.append(3)
    one.main.name = "changed"
    one.names.append("n")
    assert other == Spec(required=1)
    assert Foo().spec is not Foo().spec


def test_models_are_keyword_only_and_behave_like_values() -> None:
    with pytest.raises(TypeError):
        Port("z")  # type: ignore[call-arg]
    spec = Spec(required=1)
    assert pickle.loads(pickle.dumps(spec)) == spec == copy.deepcopy(spec)
    assert replace(spec, big=2).big == 2
    assert spec.big == 100000
    assert "required=1" in repr(spec)


def test_a_whole_object_says_what_it_is() -> None:
    tree = wire(Foo(metadata=ObjectMeta(name="a")))
    assert list(tree) == ["apiVersion", "kind", "metadata", "spec"]
    assert tree["apiVersion"] == "foo.example.com/v1"
    assert tree["kind"] == "Foo"
    assert tree["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("when", "spelled"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05Z"),
        (datetime.fromisoformat("2026-01-02T03:04:05+02:00"), "2026-01-02T01:04:05Z"),
        (datetime(3, 1, 2), "0003-01-02T00:00:00Z"),
    ],
)
def test_times_are_written_as_kubernetes_writes_them(when: datetime, spelled: str) -> None:
    assert wire(Foo(when=when))["when"] == spelled


def test_a_whole_float_is_written_without_a_point() -> None:
    assert msgspec.json.encode(wire(Foo(ratio=3.0))["ratio"]) == b"3"
    assert wire(Foo(ratio=0.5))["ratio"] == 0.5


def test_a_view_shares_nothing_with_its_tree() -> None:
    tree: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"required": 1}, "free": {"deep": [1]}}
    kept = copy.deepcopy(tree)
    foo = view(tree, Foo)
    foo.free["deep"].append(2)
    foo.metadata.labels["x"] = "y"
    assert tree == kept


@pytest.mark.parametrize(
    ("tree", "path", "said"),
    [
        ({"metadata": {"name": "n"}, "spec": {}}, "spec.required", "spec.required: Required value"),
        ({"metadata": {"name": "n"}, "spec": {"required": "1"}}, "spec.required", "must be of type integer"),
        ({"metadata": {"name": "n"}, "spec": {"required": 1, "two": [1, "x"]}}, "spec.two[1]", "of type integer"),
        ({"metadata": {"name": "n"}, "spec": []}, "spec", "must be of type object"),
        ({"metadata": {"name": "n", "generation": "x"}}, "metadata.generation", "Expected int, got str"),
    ],
)
def test_a_tree_that_does_not_fit_is_a_422(tree: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(ViewError) as caught:
        view(tree, Foo)
    error = caught.value
    assert error.code == 422
    assert 'Foo.foo.example.com "n" is invalid' in error.message
    assert error.errors[0].path == path
    assert said in error.errors[0].message


def test_a_tree_that_does_not_fit_is_told_every_mistake() -> None:
    tree = {"metadata": {"name": "n"}, "spec": {"big": "x", "two": ["y"]}}
    with pytest.raises(ViewError) as caught:
        view(tree, Foo)
    assert sorted(e.path for e in caught.value.errors) == ["spec.big", "spec.required", "spec.two[0]"]


def test_names_that_python_reserves_end_with_an_underscore() -> None:
    class Rule(Model):
        from_: str
        self_: Annotated[str, Name("Self")]

    assert builtins_of(Rule(from_="a", self_="b")) == {"from": "a", "Self": "b"}


def test_classes_inside_functions_see_their_neighbours() -> None:
    class Inner(Model):
        x: int = 1

    class Outer(Model):
        inner: Inner = Inner()
        rest: Annotated[dict[str, Inner], Name("theRest")] = {}

    assert builtins_of(Outer(rest={"a": Inner(x=2)})) == {"inner": {"x": 1}, "theRest": {"a": {"x": 2}}}


def test_a_subclass_may_redefine_a_default_and_require_what_was_optional() -> None:
    class Base(Model):
        a: int = 1
        b: int = 1

    class Derived(Base):
        a: int = 2
        b: int

    assert builtins_of(Derived(b=5)) == {"a": 2, "b": 5}
    with pytest.raises(TypeError, match="b"):
        Derived()  # type: ignore[call-arg]


def test_a_model_takes_no_keywords() -> None:
    with pytest.raises(KeywordError, match="a Model takes no keyword 'group'"):

        class Wrong(Model, group="x"):  # type: ignore[call-arg]
            pass
