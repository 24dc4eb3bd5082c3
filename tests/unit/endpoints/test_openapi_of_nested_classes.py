"""Classes inside of declared ones are types with names of their own, for whoever generates clients."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Annotated, Any

from oarlock import Doc, Foreign, ListMap, Model, Preserve, Resource, dataclass_shape, served_from
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
