"""A pydantic model and a dataclass, served as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic.alias_generators import to_camel

from oarlock.meta.context import Context, Target
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.hooks.subresource import subresource
from oarlock.schema.definition import Column, Rule
from oarlock.schema.foreign.dataclasses import dataclass_shape
from oarlock.schema.foreign.pydantic import pydantic_shape
from oarlock.schema.foreign.shape import Foreign, Shape, ShapeError
from oarlock.schema.types.declaring import DeclarationError, KeywordError
from oarlock.schema.types.definitions import definition_of
from oarlock.schema.types.markers import AsJSON, Doc, Ge, Name
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import ObjectMeta
from oarlock.schema.types.views import ViewError


class Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)


class PydanticPort(Camel):
    """A port."""

    name: str
    port_number: int = pydantic.Field(80, ge=1, lt=100)


class PydanticSpec(Camel):
    ports: list[PydanticPort] = []
    kind_of: Literal["a", "b"] = "a"
    const: Literal["x"] = "x"
    maybe: int | None = None
    main: PydanticPort | None = None
    either: int | str = 3
    free: Any = None
    loose: dict[str, Any] = {}
    by_name: dict[str, PydanticPort] = {}


class PydanticFoo(Camel):
    """A foo of pydantic's."""

    metadata: dict[str, Any] = {}
    spec: PydanticSpec = PydanticSpec()


@dataclass
class DataPort:
    name: str
    port_number: Annotated[int, Ge(1)] = 80


@dataclass
class DataSpec:
    """What is wanted."""

    ports: list[DataPort] = field(default_factory=list)
    main: DataPort | None = None
    named: dict[str, DataPort] = field(default_factory=dict)
    pod_cidr: Annotated[str, Name("podCIDR")] = "10.0.0.0/8"


@dataclass
class DataFoo:
    spec: DataSpec
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


pydantic_foo: Foreign[PydanticFoo] = Foreign(
    pydantic_shape(PydanticFoo),
    group="foo.example.com",
    version="v1",
    kind="Foo",
    columns=[Column("Kind", ".spec.kindOf")],
    short_names=["fo"],
    rules=[Rule("true")],
)
data_foo = Foreign(dataclass_shape(DataFoo), group="data.example.com", version="v1", kind="Foo", scope="Cluster")


def test_a_pydantic_model_has_a_structural_schema() -> None:
    definition = definition_of(pydantic_foo)
    assert definition.names.short_names == ("fo",)
    schema = definition.versions[0].schema
    assert schema["description"] == "A foo of pydantic's."
    assert schema["x-kubernetes-validations"] == [{"rule": "true"}]
    assert schema["properties"]["metadata"] == {"type": "object"}
    spec = schema["properties"]["spec"]["properties"]
    port = {
        "description": "A port.",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "portNumber": {"type": "integer", "minimum": 1, "maximum": 100, "exclusiveMaximum": True, "default": 80},
        },
        "required": ["name"],
    }
    assert spec["ports"] == {"type": "array", "items": port}
    assert spec["kindOf"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert spec["const"] == {"type": "string", "enum": ["x"], "default": "x"}
    assert spec["maybe"] == {"type": "integer", "nullable": True}
    assert spec["main"] == {**port, "nullable": True}
    assert spec["either"]["x-kubernetes-int-or-string"]
    assert spec["free"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert spec["loose"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert spec["byName"]["additionalProperties"] == port


def test_a_dataclass_has_one_too() -> None:
    schema = definition_of(data_foo).versions[0].schema
    assert "description" not in schema
    assert schema["required"] == ["spec"]
    spec = schema["properties"]["spec"]
    assert spec["description"] == "What is wanted."
    assert spec["properties"]["podCIDR"] == {"type": "string", "default": "10.0.0.0/8"}
    assert spec["properties"]["main"]["properties"]["portNumber"]["minimum"] == 1


@pytest.mark.parametrize("foreign", [pydantic_foo, data_foo])
def test_trees_become_objects_and_come_back(foreign: Foreign[Any]) -> None:
    tree = {"metadata": {"name": "a"}, "spec": {"ports": [{"name": "p", "portNumber": 5}], "main": {"name": "m"}}}
    model = foreign.view(tree)
    assert model.spec.ports[0].port_number == 5
    back = foreign.wire(model)
    assert back["kind"] == "Foo"
    assert back["metadata"] == {"name": "a"}
    assert back["spec"]["main"] == {"name": "m", "portNumber": 80}
    assert isinstance(model, PydanticFoo | DataFoo)
    with pytest.raises(ViewError, match='"a" is invalid'):
        foreign.view({"metadata": {"name": "a"}, "spec": {"ports": [{}]}})


class PydanticFoos(StoredCollection[PydanticFoo], of=pydantic_foo):
    def prepare(self, new: PydanticFoo, old: PydanticFoo | None, ctx: Any) -> None:
        new.spec.ports[0].port_number += 1

    def validate(self, new: PydanticFoo, old: PydanticFoo | None, ctx: Any) -> Iterator[FieldError]:
        yield Invalid("spec", new.spec.kind_of)


class DataFoos(StoredCollection[DataFoo], of=data_foo):
    def prepare(self, new: DataFoo, old: DataFoo | None, ctx: Any) -> None:
        new.spec.ports[0].port_number += 1


@pytest.mark.parametrize("collection", [PydanticFoos, DataFoos])
def test_hooks_change_foreign_objects_and_unknown_fields_survive(collection: Any) -> None:
    (served,) = served_from([collection])
    assert served.hooks.prepare is not None
    tree = {"metadata": {"name": "a", "u": 1}, "spec": {"u": 2, "ports": [{"name": "p", "portNumber": 5, "u": 3}]}}
    ctx = Context.for_test()
    assert served.hooks.prepare(tree, None, ctx) == {
        "metadata": {"name": "a", "u": 1},
        "spec": {"u": 2, "ports": [{"name": "p", "portNumber": 6, "u": 3}]},
    }


def test_a_foreign_type_is_served_without_a_collection() -> None:
    shape: Shape[dict[str, Any]] = Shape(lambda: {"properties": {"x": {"type": "string"}}}, dict, dict)
    (served,) = served_from([Foreign(shape, group="any.example.com", version="v1", kind="Thing", plural="stuff")])
    assert served.definition.names.plural == "stuff"
    assert list(served.definition.versions[0].schema["properties"]) == ["apiVersion", "kind", "metadata", "x"]


def test_mistakes_are_told() -> None:
    with pytest.raises(KeywordError, match="unknown keyword 'shortnames'"):
        Foreign(dataclass_shape(DataFoo), group="a.b", version="v1", kind="Foo", shortnames=[])  # type: ignore[call-arg]
    with pytest.raises(KeywordError, match="kind='foo'"):
        Foreign(dataclass_shape(DataFoo), group="a.b", version="v1", kind="foo")

    class Union(pydantic.BaseModel):
        x: PydanticPort | PydanticSpec

    class Callbacks(pydantic.BaseModel):
        after: Callable[[], int] | None = None

    class Twins(pydantic.BaseModel):
        a_b: int = 1
        aB: int = 1

    class TwoNames(pydantic.BaseModel):
        x: int = pydantic.Field(1, validation_alias="in", serialization_alias="out")

    for model, said in (
        (Union, r"Union.x: a union has no structural schema (give it a discriminator, or say that it is JSON: "),
        (
            PydanticTree,
            "PydanticTree.kids[]: PydanticTree contains itself (say that it is JSON: Annotated[…, AsJSON], or ",
        ),
        (Callbacks, "Callbacks.after: "),
        (Twins, "Twins.aB: two fields have this name"),
        (TwoNames, "TwoNames.in: it is read as 'in', and something is written as 'out' (give the field one alias"),
    ):
        with pytest.raises(DeclarationError) as caught:
            definition_of(Foreign(pydantic_shape(model), group="a.b", version="v1", kind="Foo"))
        assert said in str(caught.value)
        assert str(caught.value).startswith(__file__)


class PydanticTree(pydantic.BaseModel):
    kids: list[PydanticTree] = []


@dataclass
class DataTree:
    kids: list[DataTree] = field(default_factory=list)


@dataclass
class DataUnion:
    x: DataPort | DataSpec
    y: float | str = 1.5


@dataclass
class DataInit:
    x: InitVar[int]
    y: int = 1

    def __post_init__(self, x: int) -> None:
        self.y = x


@dataclass
class DataSets:
    ports: set[DataFrozen]


@dataclass(frozen=True)
class DataFrozen:
    name: str


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (
            DataTree,
            "DataTree.kids[]: DataTree contains itself (say that it is JSON: Annotated[…, AsJSON], or dataclass_",
        ),
        (
            DataUnion,
            "DataUnion.x: a union has no structural schema (give each choice a field of one name that is a Lit",
        ),
        (DataInit, "DataInit: DataInit can't be made without 'x', which is no field"),
        (DataSets, "DataSets.ports: only a set of scalars can be told apart from a list (write list"),
    ],
)
def test_what_a_dataclass_may_not_have_is_told_with_the_way_out(cls: Any, said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        definition_of(Foreign(dataclass_shape(cls), group="a.b", version="v1", kind="Foo"))
    assert said in str(caught.value)
    assert str(caught.value).startswith(__file__)


JSON_FIELD = {"x-kubernetes-preserve-unknown-fields": True, "x-oarlock-as-json": True}


class MarkedPydantic(pydantic.BaseModel):
    kids: Annotated[list[PydanticTree], AsJSON, pydantic.Field(description="Below.")] = []
    either: Annotated[float | bytes | None, AsJSON] = None


@dataclass
class MarkedData:
    kids: Annotated[list[DataTree], AsJSON, Doc("Below.")] = field(default_factory=list)
    either: Annotated[float | str | None, AsJSON] = None


@pytest.mark.parametrize("shape", [pydantic_shape(MarkedPydantic), dataclass_shape(MarkedData)])
def test_a_field_may_be_published_as_json_and_is_still_read_as_its_type(shape: Shape[Any]) -> None:
    properties = shape.schema()["properties"]
    assert properties["kids"] == {"description": "Below.", **JSON_FIELD}
    assert properties["either"] == JSON_FIELD
    foreign = Foreign(shape, group="a.example.com", version="v1", kind="Foo")
    tree = {"metadata": {}, "kids": [{"kids": [{}], "other": 1}], "either": "x"}
    seen: Any = foreign.view(tree)
    assert isinstance(seen.kids[0].kids[0], PydanticTree | DataTree)
    assert foreign.settled(tree) is tree
    with pytest.raises(ViewError) as caught:
        foreign.view({"metadata": {"name": "a"}, "kids": [{"kids": 1}]})
    assert [error.path for error in caught.value.errors] == ["kids[0].kids"]


@pytest.mark.parametrize(
    "shape",
    [
        pydantic_shape(PydanticTree, as_json=["kids"]),
        dataclass_shape(DataTree, as_json=["kids"]),
        dataclass_shape(DataUnion, as_json=["x", "y"]),
    ],
)
def test_a_type_nobody_may_touch_has_the_same_way_out(shape: Shape[Any]) -> None:
    schema = shape.schema()
    assert schema["properties"].popitem()[1].items() >= JSON_FIELD.items()


def test_the_way_out_must_lead_to_a_field() -> None:
    for shape in (pydantic_shape(PydanticSpec, as_json=["port"]), dataclass_shape(DataSpec, as_json=["port"])):
        with pytest.raises(DeclarationError, match=r"as_json='port': no field \(did you mean 'ports'\?\)"):
            shape.schema()
    with pytest.raises(DeclarationError, match=r"as_json='q': no field \(there are [a-z]"):
        pydantic_shape(PydanticSpec, as_json=["q"]).schema()


class Snake(pydantic.BaseModel):
    port_number: int = 80
    named: int = pydantic.Field(1, alias="as_it_is")
    inner_parts: dict[str, Inner] = {}
    lower_case: str = "a"

    @pydantic.field_validator("lower_case")
    @classmethod
    def lower(cls, value: str) -> str:
        if not value:
            raise ValueError("empty")
        return value.lower()


class Inner(pydantic.BaseModel):
    first_name: str


@dataclass
class DataSnake:
    port_number: int = 80
    named: Annotated[int, Name("as_it_is")] = 1
    inner_parts: dict[str, DataInner] = field(default_factory=dict)
    lower_case: str = "a"


@dataclass
class DataInner:
    first_name: str


@pytest.mark.parametrize(
    "make", [lambda **how: pydantic_shape(Snake, **how), lambda **how: dataclass_shape(DataSnake, **how)]
)
def test_names_are_camel_case_in_every_shape_unless_they_are_said(make: Any) -> None:
    camel, own = make(), make(names="own")
    assert list(camel.schema()["properties"]) == ["portNumber", "as_it_is", "innerParts", "lowerCase"]
    assert list(own.schema()["properties"]) == ["port_number", "as_it_is", "inner_parts", "lower_case"]
    tree = {"portNumber": 5, "as_it_is": 2, "innerParts": {"a_b": {"firstName": "x"}}, "lowerCase": "b"}
    seen = camel.view(tree)
    assert (seen.port_number, seen.named, seen.inner_parts["a_b"].first_name) == (5, 2, "x")
    assert camel.wire(seen) == tree
    assert own.view({"port_number": 7}).port_number == 7
    with pytest.raises(ViewError) as caught:
        Foreign(camel, group="a.example.com", version="v1", kind="Foo").view(
            {"innerParts": {"a_b": {}}, "lowerCase": 1}
        )
    assert sorted(error.path for error in caught.value.errors) == ["innerParts[a_b].firstName", "lowerCase"]


class Cat(pydantic.BaseModel):
    type: Literal["cat"]
    cat: int = 1


class Dog(pydantic.BaseModel):
    type: Literal["dog"]
    barks: bool = True
    cat: str = "enemy"


class Owner(pydantic.BaseModel):
    pets: list[Annotated[Cat | Dog, pydantic.Field(discriminator="type")]] = []
    ports: dict[str, Annotated[int, pydantic.Field(ge=1)] | str] = {}


def test_a_choice_has_the_fields_of_all() -> None:
    pet = pydantic_shape(Owner).schema()["properties"]["pets"]["items"]
    assert pet["properties"]["type"] == {"type": "string", "enum": ["cat", "dog"]}
    assert pet["properties"]["barks"] == {"type": "boolean"}
    assert pet["properties"]["cat"]["x-oarlock-as-json"]
    assert pet["required"] == ["type"]


def test_errors_name_the_field_and_not_what_was_tried() -> None:
    owners = Foreign(pydantic_shape(Owner), group="a.example.com", version="v1", kind="Owner")
    with pytest.raises(ViewError) as caught:
        owners.view({"pets": [{"type": "cat", "cat": "x"}, {"type": "dog", "barks": "x"}], "ports": {"a": 0, "b": "x"}})
    assert sorted({error.path for error in caught.value.errors}) == ["pets[0].cat", "pets[1].barks", "ports[a]"]
    assert all("pydantic.dev" not in error.message for error in caught.value.errors)


def test_a_shape_of_ones_own_says_what_is_wrong() -> None:
    def view(tree: dict[str, Any]) -> dict[str, Any]:
        if tree.get("x") == "bad":
            raise ShapeError([Invalid("x", "bad", "said so")])
        if tree.get("x") == "worse":
            raise ValueError("no good")
        return dict(tree)

    shape = Shape(lambda: {"properties": {"x": {"type": "string"}}}, view, dict)
    things = Foreign(shape, group="any.example.com", version="v1", kind="Thing")
    for value, said in (
        ("bad", 'x: Invalid value: "bad": said so'),
        ("worse", '<nil>: Invalid value: "object": no good'),
    ):
        with pytest.raises(ViewError) as caught:
            things.view({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "x": value})
        assert [error.message for error in caught.value.errors] == [said]


def test_a_pattern_that_is_no_re2_expression_is_left_to_the_model() -> None:
    class Looking(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(regex_engine="python-re")
        word: Annotated[str, pydantic.Field(pattern="^(?!bad)")]

    shape = pydantic_shape(Looking)
    assert shape.schema()["properties"]["word"] == {"type": "string"}
    with pytest.raises(ValueError, match="pattern"):
        shape.view({"word": "bad"})


def test_a_type_that_reads_something_else_than_it_writes_changes_nothing() -> None:
    class Growing(pydantic.BaseModel):
        size: int = 1

        @pydantic.field_validator("size")
        @classmethod
        def grow(cls, value: int) -> int:
            return value + 1

    tree = {"metadata": {}, "size": 3}
    assert Foreign(pydantic_shape(Growing), group="a.example.com", version="v1", kind="G").settled(tree) is tree


class Cup(Resource, group="foo.example.com", version="v1"):
    held: str = ""


class PydanticFoos(StoredCollection[PydanticFoo], of=pydantic_foo):
    @subresource("held", method="GET")
    async def _held(self, parent: PydanticFoo) -> Cup:
        return Cup(held=f"{type(parent).__name__} {parent.spec.kind_of}")


def test_the_parent_of_a_subresource_is_of_the_foreign_type() -> None:
    (served,) = served_from([PydanticFoos])
    target = Target("get", "foo.example.com", "v1", "foos", "held", "ns", "a", "Foo")
    ctx = Context.for_test(target=target)
    answer = asyncio.run(served.hooks.subresources["held"].call(ctx, {"metadata": {}, "spec": {"kindOf": "b"}}, None))
    assert answer["held"] == "PydanticFoo b"
