"""Classes inside of declared ones are types with names of their own, for whoever generates clients."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel
from pydantic import Field as PydanticField

from oarlock import (
    Doc,
    Foreign,
    ListMap,
    Model,
    Preserve,
    Resource,
    StoredCollection,
    dataclass_shape,
    pydantic_shape,
    served_from,
    subresource,
)
from oarlock.endpoints.catalog import Catalog
from oarlock.endpoints.openapi import Info, OpenAPIDocuments
from oarlock.registry.served import Served

GROUP = "wardle.example.com"
AT = "#/components/schemas/com.example.wardle.v1."


class Rope(Model):
    """What holds a boat."""

    name: str
    length: int = 3


class Plank(Model):
    wood: str = "oak"
    under: Annotated[Plank | None, Preserve] = None


class FlunderSpec(Model):
    """What is wanted of a flunder."""

    ropes: Annotated[list[Rope], ListMap("name")] = []
    by_name: dict[str, Rope] = {}
    main: Annotated[Rope | None, Doc("The longest.")] = None
    plank: Plank = Plank()


class Flunder(Resource, group=GROUP, version="v1"):
    """A flunder."""

    class Status(Model):
        """How it is."""

        ready: bool = False

    spec: FlunderSpec
    status: Status | None = None


class Barge(Resource, group=GROUP, version="v1"):
    """A barge."""

    rope: Rope | None = None


def other_rope() -> type[Resource]:
    """A kind with a class that is called as another one."""

    class Rope(Model):
        colour: str = "red"

    class Kite(Resource, group=GROUP, version="v1"):
        """A kite."""

        rope: Annotated[Rope | None, Doc("Its own.")] = None

    return Kite


def patches(served: Served) -> tuple[str, ...]:
    return ("application/merge-patch+json",)


def types_of(*classes: Any, path: str = f"/openapi/v3/apis/{GROUP}/v1") -> dict[str, Any]:
    """The schemas of a document, those of these classes by their names in the version."""
    documents = OpenAPIDocuments(Catalog.of(served_from(classes)), Info("oarlock", "0.1", patches))

    async def read() -> bytes:
        response = await documents.respond(path)
        assert response is not None
        body = response.body
        if isinstance(body, bytes):
            return body
        read = b""
        while not body.done:
            read += body.read(100_000)
        return read

    tree = json.loads(asyncio.run(read()))
    schemas = tree["definitions"] if path == "/openapi/v2" else tree["components"]["schemas"]
    return {name.removeprefix("com.example.wardle.v1."): schema for name, schema in schemas.items()}


def test_a_class_inside_is_a_type_with_its_own_name_and_description():
    types = types_of(Flunder)
    assert {name for name in types if "." not in name} == {
        "Flunder",
        "FlunderList",
        "FlunderSpec",
        "FlunderStatus",
        "Plank",
        "Rope",
    }
    assert types["Flunder"]["properties"]["spec"] == {"$ref": f"{AT}FlunderSpec"}
    assert types["Flunder"]["properties"]["status"]["$ref"] == f"{AT}FlunderStatus"
    spec = types["FlunderSpec"]
    assert (spec["type"], spec["description"]) == ("object", "What is wanted of a flunder.")
    assert spec["properties"]["ropes"]["items"] == {"$ref": f"{AT}Rope"}
    assert spec["properties"]["ropes"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["properties"]["byName"]["additionalProperties"] == {"$ref": f"{AT}Rope"}
    assert spec["properties"]["main"] == {"description": "The longest.", "allOf": [{"$ref": f"{AT}Rope"}]}
    assert types["Rope"]["description"] == "What holds a boat."
    assert types["Rope"]["required"] == ["name"]
    assert types["Rope"]["properties"]["length"]["default"] == 3


def test_version_2_has_the_same_names():
    types = types_of(Flunder, path="/openapi/v2")
    at = "#/definitions/com.example.wardle.v1."
    assert types["Flunder"]["properties"]["spec"] == {"$ref": f"{at}FlunderSpec"}
    assert types["FlunderSpec"]["properties"]["main"] == {"description": "The longest.", "$ref": f"{at}Rope"}
    assert "default" not in types["Rope"]["properties"]["length"]


def test_a_class_in_itself_ends_where_the_schema_ends():
    plank = types_of(Flunder)["Plank"]
    assert plank["properties"]["under"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_a_class_in_two_kinds_is_one_type():
    types = types_of(Flunder, Barge)
    assert types["Barge"]["properties"]["rope"] == {"$ref": f"{AT}Rope"}
    assert "Barge.Rope" not in types


def test_two_classes_of_one_name_are_told_apart_by_their_kinds():
    types = types_of(Flunder, Barge, other_rope())
    assert "Rope" not in types
    assert types["Kite"]["properties"]["rope"] == {"description": "Its own.", "allOf": [{"$ref": f"{AT}Kite.Rope"}]}
    assert types["Kite.Rope"]["properties"].keys() == {"colour"}
    assert types["FlunderSpec"]["properties"]["ropes"]["items"] == {"$ref": f"{AT}Flunder.Rope"}
    assert types["Barge.Rope"] == types["Flunder.Rope"]


@dataclass
class Oar:
    """What moves a boat."""

    length: int = 2


@dataclass
class Skiff:
    """A skiff."""

    oars: list[Oar] = field(default_factory=list)


def test_dataclasses_inside_of_foreign_types_are_types_too():
    skiff = Foreign(dataclass_shape(Skiff), group=GROUP, version="v1", kind="Skiff")
    types = types_of(skiff)
    assert types["Skiff"]["properties"]["oars"]["items"] == {"$ref": f"{AT}Oar"}
    assert types["Oar"]["description"] == "What moves a boat."
    assert types["Oar"]["properties"]["length"]["type"] == "integer"


class Oars(BaseModel):
    """What moves a raft."""

    length: int = 2


class Sail(BaseModel):
    """The wind's."""

    kind: Literal["sail"] = "sail"
    rope: Oars = Oars()


class Engine(BaseModel):
    kind: Literal["engine"] = "engine"


class RaftSpec(BaseModel):
    """What is wanted of a raft."""

    oars: list[Oars] = []
    by_name: dict[str, Oars] = {}
    spare: Oars | None = PydanticField(None, description="Another one.")
    drive: Sail | Engine | None = PydanticField(None, discriminator="kind")


class Raft(BaseModel):
    """A raft."""

    metadata: Oars = Oars()
    spec: RaftSpec


@pytest.mark.parametrize("path", ["/openapi/v2", f"/openapi/v3/apis/{GROUP}/v1"])
def test_pydantic_models_inside_of_others_are_types_too(path: str):
    at = "#/definitions/com.example.wardle.v1." if path == "/openapi/v2" else AT
    types = types_of(Foreign(pydantic_shape(Raft), group=GROUP, version="v1", kind="Raft"), path=path)
    assert {name for name in types if "." not in name} == {"Oars", "Raft", "RaftList", "RaftSpec"}
    assert types["Raft"]["properties"]["spec"] == {"$ref": f"{at}RaftSpec"}
    assert "ObjectMeta" in json.dumps(types["Raft"]["properties"]["metadata"])
    spec = types["RaftSpec"]
    assert spec["description"] == "What is wanted of a raft."
    assert spec["properties"]["oars"]["items"] == {"$ref": f"{at}Oars"}
    assert spec["properties"]["byName"]["additionalProperties"] == {"$ref": f"{at}Oars"}
    assert types["Oars"]["properties"]["length"]["type"] == "integer"
    if path != "/openapi/v2":
        spare = {"description": "Another one.", "nullable": True, "allOf": [{"$ref": f"{at}Oars"}]}
        assert spec["properties"]["spare"] == spare
        assert spec["properties"]["drive"]["properties"].keys() == {"kind", "rope"}, "a union has no class"


class Knot(Model):
    """How a rope is fastened."""

    turns: int = 2


class Mooring(Resource, group=GROUP, version="v1", generation=False):
    """Where a barge lies."""

    knots: list[Knot] = []
    rope: Rope | None = None


class Barges(StoredCollection[Barge]):
    @subresource("moor")
    async def moor(self, parent: Barge, body: Mooring) -> Mooring:
        return body


def test_classes_in_the_bodies_of_subresources_are_types_too():
    types = types_of(Barges)
    assert {name for name in types if "." not in name} == {"Barge", "BargeList", "Knot", "Rope"}
    for part in ("Request", "Response"):
        body = types[f"Barge.moor.{part}"]["properties"]
        assert body["knots"]["items"] == {"$ref": f"{AT}Knot"}
        assert body["rope"] == {"$ref": f"{AT}Rope"}
    assert types["Barge"]["properties"]["rope"] == {"$ref": f"{AT}Rope"}
    assert types["Knot"]["description"] == "How a rope is fastened."


def test_names_change_with_what_else_is_served_and_so_does_the_hash():
    """The resource itself is unchanged, and what was rendered of it isn't taken over."""
    info = Info("oarlock", "0.1", patches)
    alone = Catalog.of(served_from([Barge]))
    both = alone.changed(put=served_from([other_rope()]))
    path = f"/openapi/v3/apis/{GROUP}/v1"

    async def read() -> list[tuple[str, dict[str, Any]]]:
        found = []
        documents = None
        for catalog in (alone, both, alone):
            documents = OpenAPIDocuments(catalog, info, before=documents)
            response = await documents.respond(path)
            assert response is not None
            assert isinstance(response.body, bytes)
            schemas = json.loads(response.body)["components"]["schemas"]
            found.append((dict(response.headers)["etag"], schemas["com.example.wardle.v1.Barge"]))
        return found

    first, second, third = asyncio.run(read())
    assert first == third
    assert first[0] != second[0]
    assert first[1]["properties"]["rope"] == {"$ref": f"{AT}Rope"}
    assert second[1]["properties"]["rope"] == {"$ref": f"{AT}Barge.Rope"}
