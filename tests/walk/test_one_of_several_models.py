"""A field that holds one of several Models, told apart by a field with a literal of its own in each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

import pytest

from oarlock import (
    APIServer,
    Context,
    DeclarationError,
    Doc,
    Model,
    Resource,
    Spoke,
    StoredCollection,
    same_fields,
    served_from,
)
from oarlock.cli.declaring_commands import exported
from oarlock.cli.publishing.schema_files import object_json_schema
from oarlock.schema.crd import crd_errors
from oarlock.testing import InMemory, assert_round_trips

pytestmark = pytest.mark.anyio

PATH = "/apis/pets.example.com/v1/namespaces/default/homes"


class Collar(Model):
    colour: str = "red"


class Cat(Model):
    """Comes when it wants."""

    kind: Literal["cat", "lion"]
    lives: int
    name: str | None = None
    seen_at: datetime | None = None


class Dog(Model):
    """Comes when it is called."""

    kind: Literal["dog"] = "dog"
    name: str | None = None
    collar: Collar | None = None


class Home(Resource, group="pets.example.com", version="v1"):
    """Where pets live."""

    pet: Annotated[Cat | Dog, Doc("Who lives there.")]
    guests: list[Cat | Dog] = []
    rooms: dict[str, Cat | Dog] = {}
    spare: Cat | Dog | None = None


class Homes(StoredCollection[Home]):
    def prepare(self, new: Home, old: Home | None, ctx: Context) -> None:
        if isinstance(new.pet, Cat):
            new.pet.lives += 1
            new.pet.seen_at = datetime(2026, 1, 2, tzinfo=UTC)
        for guest in new.guests:
            if isinstance(guest, Dog):
                guest.name = guest.name or "guest"
        if new.spare is not None:
            new.spare = Dog(collar=Collar())


def home(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "pets.example.com/v1", "kind": "Home", "metadata": {"name": "a"}, **fields}


async def test_hooks_get_the_choice_and_may_change_or_replace_it():
    async with InMemory(APIServer(serve=[Homes])) as api:
        sent = home(
            pet={"kind": "lion", "lives": 8},
            guests=[{"kind": "dog"}, {"kind": "cat", "lives": 1}],
            rooms={"a": {"kind": "dog"}},
            spare={"kind": "cat", "lives": 1},
        )
        made = await api.post(PATH, sent)
        assert made.status == 201, made.body
        assert made.json["pet"] == {"kind": "lion", "lives": 9, "seenAt": "2026-01-02T00:00:00Z"}
        assert made.json["guests"] == [{"kind": "dog", "name": "guest"}, {"kind": "cat", "lives": 1}]
        assert made.json["rooms"] == {"a": {"kind": "dog"}}
        assert made.json["spare"] == {"kind": "dog", "collar": {"colour": "red"}}
        read = await api.client().get(Home, "a", namespace="default")
        assert (type(read.pet), type(read.guests[0]), type(read.rooms["a"])) == (Cat, Dog, Dog)
        written = await api.client().update(read)
        assert isinstance(written.pet, Cat)
        assert written.pet.lives == 10


@pytest.mark.parametrize(
    ("pet", "where"),
    [
        ({"kind": "bird"}, "pet.kind"),
        ({"name": "x"}, "pet.kind"),
        ({"kind": "cat"}, "pet"),
        ({"kind": "dog", "lives": 1}, "pet"),
        ({"kind": "cat", "lives": "nine"}, "pet.lives"),
        ("cat", "pet"),
        ({"kind": 1}, "pet.kind"),
    ],
)
async def test_what_is_no_choice_is_refused(pet: Any, where: str):
    async with InMemory(APIServer(serve=[Homes])) as api:
        refused = await api.post(PATH, home(pet=pet))
        assert refused.status in (400, 422)
        assert where in refused.json["message"]


async def test_the_openapi_document_and_the_definition_say_what_each_choice_requires():
    (served,) = served_from([Homes])
    tree = exported(served.definition)
    assert list(crd_errors(tree)) == []
    pet = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["pet"]
    assert pet["description"] == "Who lives there."
    assert pet["required"] == ["kind"]
    assert pet["properties"]["kind"] == {"type": "string", "enum": ["cat", "lion", "dog"]}
    assert pet["oneOf"] == [
        {
            "properties": {"kind": {"enum": ["cat", "lion"]}},
            "required": ["lives"],
            "not": {"anyOf": [{"required": ["collar"]}]},
        },
        {
            "properties": {"kind": {"enum": ["dog"]}},
            "not": {"anyOf": [{"required": ["lives"]}, {"required": ["seenAt"]}]},
        },
    ]
    assert {*pet["properties"]} == {"kind", "lives", "name", "seenAt", "collar"}
    assert "oneOf" in object_json_schema(served.definition, served.definition.version("v1"))["properties"]["pet"]
    async with InMemory(APIServer(serve=[Homes])) as api:
        document = await api.get("/openapi/v3/apis/pets.example.com/v1")
        assert document.status == 200
        assert b'"lion"' in document.body


class OldHome(Spoke[Home], version="v1beta1"):
    pet: Dog | Cat
    spare: Cat | Dog | None = None

    def to_hub(self) -> Home:
        return same_fields(self, Home)

    @classmethod
    def from_hub(cls, hub: Home) -> Self:
        return same_fields(hub, cls)


def test_choices_come_back_from_other_versions():
    assert_round_trips(OldHome)


def test_choices_that_nothing_tells_apart_are_refused():
    class Bird(Model):
        name: str = ""

    with pytest.raises(DeclarationError, match="a Literal of its own in each"):

        class Cage(Model):
            pet: Bird | Collar


def test_choices_with_different_fields_of_one_name_are_refused():
    class Bird(Model):
        kind: Literal["bird"]
        lives: str

    with pytest.raises(DeclarationError, match=r"Bird\.lives is something else than in another choice"):

        class Cage(Model):
            pet: Cat | Bird
