"""A pydantic model and a dataclass, served as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic.alias_generators import to_camel

from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.registry.collection import StoredCollection
from oarlock.registry.declare import served_from
from oarlock.schema.declaring import HintError, KeywordError
from oarlock.schema.definition import Column, Rule
from oarlock.schema.definitions import definition_of
from oarlock.schema.foreign import Foreign, Shape, dataclass_shape, pydantic_shape
from oarlock.schema.markers import Ge, Name
from oarlock.schema.shapes import ObjectMeta
from oarlock.schema.views import ViewError


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
    ctx: Any = None
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

    class Tree(pydantic.BaseModel):
        kids: list[Tree] = []

    for model, said in ((Union, "Union.x: a union has no structural schema"), (Tree, "Tree contains itself")):
        with pytest.raises(HintError, match=said):
            pydantic_shape(model).schema()
