"""pydantic models and dataclasses that are served: their code checks every object, and what it makes of it is kept."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pydantic
import pytest
from walk_kit import GROUP, causes, failure, key, made, path, raw, walk

from oarlock import (
    APIServer,
    Context,
    FieldError,
    Foreign,
    Invalid,
    StoredCollection,
    VirtualCollection,
    dataclass_shape,
    pydantic_shape,
)
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

CUSTOMERS = path("customers", version="v1")
META = {"name": "a", "namespace": "default", "uid": "u"}


class Customer(pydantic.BaseModel):
    """Who buys."""

    email: str
    tier: Literal["gold", "silver"] = "silver"
    address: str | None = None
    phone_numbers: set[str] = set()
    id: uuid.UUID = pydantic.Field(default_factory=uuid.uuid4)

    @pydantic.field_validator("email")
    @classmethod
    def check_email(cls, value: str) -> str:
        if "@" not in value:
            raise ValueError("no @ in it")
        return value.lower()

    @pydantic.model_validator(mode="after")
    def check_address(self) -> Customer:
        if self.tier == "gold" and not self.address:
            raise ValueError("gold needs an address")
        return self


@dataclasses.dataclass
class Client:
    """The same as a dataclass."""

    email: str
    tier: Literal["gold", "silver"] = "silver"
    address: str | None = None
    phone_numbers: set[str] = dataclasses.field(default_factory=set)
    id: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)

    def __post_init__(self) -> None:
        if "@" not in self.email:
            raise ValueError("no @ in it")
        if self.tier == "gold" and not self.address:
            raise ValueError("gold needs an address")
        self.email = self.email.lower()


def foreign(shape: Any, kind: str = "Customer") -> Foreign[Any]:
    return Foreign(shape, group=GROUP, version="v1", kind=kind)


class Lax(StoredCollection[Customer], of=(lax := foreign(pydantic_shape(Customer)))):
    """Hooks see what was made of it."""

    def validate(self, new: Customer, old: Customer | None, ctx: Context) -> Iterator[FieldError]:
        if new.email.startswith("nobody"):
            yield Invalid("email", new.email, "nobody buys nothing")


SERVED = {
    "pydantic": lambda: foreign(pydantic_shape(Customer)),
    "dataclass": lambda: foreign(dataclass_shape(Client)),
    "collection": lambda: Lax,
}


def store(*items: Any) -> tuple[InMemory, MemoryBackend]:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    return InMemory(APIServer(serve=items), backend=backend, clock=clock), backend


def customer(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "email": "a@b", **fields}


@pytest.mark.parametrize("served", SERVED)
def test_the_type_itself_checks_every_object(served: str) -> None:
    @walk
    async def run() -> None:
        api, _ = store(SERVED[served]())
        async with api:
            answer = await api.post(CUSTOMERS, customer(email="bob"))
            place = "email" if served != "dataclass" else "<nil>"
            shown = '"bob"' if served != "dataclass" else '"object"'
            assert failure(answer) == (
                422,
                "Invalid",
                f'Customer.walk.example.com "a" is invalid: {place}: Invalid value: {shown}: no @ in it',
            )
            answer = await api.post(CUSTOMERS, customer(tier="gold"))
            assert failure(answer)[2].endswith('<nil>: Invalid value: "object": gold needs an address')
            await made(api, CUSTOMERS, customer())
            patched = await api.patch(f"{CUSTOMERS}/a", {"email": "bob"})
            assert causes(patched) == [place]
            assert causes(await api.patch(f"{CUSTOMERS}/a", {"tier": "gold"})) == ["<nil>"]
            assert (await api.get(f"{CUSTOMERS}/a")).json["email"] == "a@b"

    run()


@pytest.mark.parametrize("served", SERVED)
def test_what_the_type_makes_of_a_value_is_kept(served: str) -> None:
    @walk
    async def run() -> None:
        api, _ = store(SERVED[served]())
        async with api:
            tree = await made(api, CUSTOMERS, customer(email="A@B", phoneNumbers=["2", "1"]))
            assert tree["email"] == "a@b"
            assert tree["tier"] == "silver"
            assert tree["phoneNumbers"] == ["2", "1"]
            assert uuid.UUID(tree["id"]).version == 4
            again = (await api.put(f"{CUSTOMERS}/a", {**tree, "email": "A@b"})).json
            assert again == tree
            patched = await api.patch(f"{CUSTOMERS}/a", {"email": "C@D"})
            assert patched.json["email"] == "c@d"
            assert patched.json["id"] == tree["id"]
            twice = await api.patch(f"{CUSTOMERS}/a", {"phoneNumbers": ["1", "1"]})
            assert failure(twice)[2].endswith('phoneNumbers[1]: Duplicate value: "1"')

    run()


@pytest.mark.parametrize("served", SERVED)
def test_everything_that_is_wrong_is_told_at_once_and_once(served: str) -> None:
    @walk
    async def run() -> None:
        api, _ = store(SERVED[served]())
        async with api:
            answer = await api.post(CUSTOMERS, customer("Bad_", email="bob", tier="tin", id="x"))
            fields = causes(answer)
            assert fields[:3] == ["metadata.name", "tier", "id"]
            assert set(fields[3:]) <= {"email"}
            text = failure(answer)[2]
            assert "pydantic" not in text
            assert "http" not in text

    run()


@pytest.mark.parametrize("served", ["pydantic", "dataclass"])
def test_an_object_that_was_stored_earlier_stays_patchable(served: str) -> None:
    @walk
    async def run() -> None:
        api, backend = store(SERVED[served]())
        old = raw(f"{GROUP}/v1", "Customer", metadata=META, email="bob", tier="gold")
        await backend.put(key("customers", "default", "a"), old, expect=0)
        async with api:
            labelled = await api.patch(f"{CUSTOMERS}/a", {"metadata": {"labels": {"x": "y"}}})
            assert labelled.status == 200, labelled
            assert labelled.json["email"] == "bob"
            assert (await api.patch(f"{CUSTOMERS}/a", {"email": "rob"})).status == 422
            mended = await api.patch(f"{CUSTOMERS}/a", {"email": "BOB@x", "address": "here"})
            assert mended.status == 200
            assert mended.json["email"] == "bob@x"

    run()


@walk
async def test_fields_nobody_knows_of_survive_where_they_are_allowed():
    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow", str_to_lower=True)
        word: str
        parts: list[dict[str, str]] = []

    api, _ = store(foreign(pydantic_shape(Open), "Open"))
    async with api:
        tree = await made(api, path("opens", version="v1"), {**customer(), "word": "A", "more": {"B": ["C"]}})
        assert (tree["word"], tree["more"], tree["email"]) == ("a", {"B": ["C"]}, "a@b")


@walk
async def test_a_model_that_forbids_extra_fields_is_not_shown_what_every_object_has():
    class Closed(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid", strict=True)
        born: dt.date
        seen: set[int] = set()

    api, _ = store(foreign(pydantic_shape(Closed), "Closed"))
    async with api:
        body = {"metadata": {"name": "a"}, "born": "2026-01-02", "seen": [1], "other": 1}
        answer = await api.post(path("closeds", version="v1"), body)
        assert answer.status == 201, answer
        assert answer.warnings == ['unknown field "other"']
        assert "other" not in answer.json


class Secretive(pydantic.BaseModel):
    pin: pydantic.SecretStr | None = None
    hidden: str = pydantic.Field("", exclude=True)
    shown: Annotated[dt.date, pydantic.PlainSerializer(lambda day: day.strftime("%d.%m.%Y"))] = dt.date(2026, 1, 2)
    note: str = ""

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.note)

    @pydantic.field_validator("note")
    @classmethod
    def strip(cls, value: str) -> str:
        return value.strip()


@walk
async def test_what_a_model_writes_otherwise_than_it_reads_is_kept_as_it_was_sent():
    api, _ = store(foreign(pydantic_shape(Secretive), "Secretive"))
    async with api:
        where = path("secretives", version="v1")
        tree = await made(api, where, {"metadata": {"name": "a"}, "pin": "1234", "hidden": "h", "shown": "2026-03-04"})
        assert (tree["pin"], tree["hidden"], tree["shown"]) == ("1234", "h", "2026-03-04")
        assert "length" not in tree


class Shade(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives_left: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]
    barks: bool


class Everything(pydantic.BaseModel):
    price: Annotated[decimal.Decimal, pydantic.Field(ge=0)] = decimal.Decimal("1.50")
    day: dt.date | None = None
    moment: dt.datetime | None = None
    span: dt.timedelta = dt.timedelta(hours=1)
    hour: dt.time | None = None
    id: uuid.UUID | None = None
    shade: Shade = Shade.RED
    where: pathlib.Path = pathlib.Path("/tmp")
    words: set[str] = {"b", "a"}
    frozen: frozenset[int] = frozenset()
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = ()
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")] | None = None
    pets: list[Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]] = []
    port: int | str = 80


@dataclasses.dataclass
class DataCat:
    kind: Literal["cat"]
    lives_left: int = 9


@dataclasses.dataclass
class DataDog:
    barks: bool
    kind: Literal["dog"] = "dog"


@dataclasses.dataclass
class DataEverything:
    price: decimal.Decimal = decimal.Decimal("1.50")
    day: dt.date | None = None
    moment: dt.datetime | None = None
    span: dt.timedelta = dt.timedelta(hours=1)
    hour: dt.time | None = None
    id: uuid.UUID | None = None
    shade: Shade = Shade.RED
    where: pathlib.Path = pathlib.Path("/tmp")
    words: set[str] = dataclasses.field(default_factory=lambda: {"b", "a"})
    frozen: frozenset[int] = frozenset()
    pair: tuple[int, str] = (1, "a")
    many: tuple[int, ...] = ()
    pet: DataCat | DataDog | None = None
    pets: list[DataCat | DataDog] = dataclasses.field(default_factory=list)
    port: int | str = 80

    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError("a price isn't negative")


EVERYTHING = path("things", version="v1")
EVERY_SHAPE = {"pydantic": pydantic_shape(Everything), "dataclass": dataclass_shape(DataEverything)}


@pytest.mark.parametrize("shape", EVERY_SHAPE)
def test_types_that_json_has_no_word_for(shape: str) -> None:
    @walk
    async def run() -> None:
        api, _ = store(foreign(EVERY_SHAPE[shape], "Thing"))
        async with api:
            tree = await made(api, EVERYTHING, {"metadata": {"name": "defaults"}})
            assert (tree["price"], tree["shade"], tree["where"], tree["port"]) == ("1.50", "red", "/tmp", 80)
            assert (tree["words"], tree["pair"]) == (["a", "b"], [1, "a"])
            given = {
                "price": "12.50",
                "day": "2026-01-02",
                "moment": "2026-01-02T03:04:05.25+02:00",
                "span": "PT1H30M",
                "hour": "12:30:00",
                "id": "a6b1c7a0-0000-4000-8000-00000000000a",
                "shade": "blue",
                "where": "/etc",
                "words": ["z", "y"],
                "frozen": [3, 1],
                "pair": [2, "b"],
                "many": [1, 2, 3],
                "pet": {"kind": "cat", "livesLeft": 3},
                "pets": [{"kind": "dog", "barks": True}, {"kind": "cat", "livesLeft": 1}],
                "port": "http",
            }
            tree = await made(api, EVERYTHING, {"metadata": {"name": "given"}, **given})
            tree["span"] = {"PT5400S": "PT1H30M"}.get(tree["span"], tree["span"])
            assert {key: tree[key] for key in given} == given
            wrong = {
                "day": "yesterday",
                "shade": "green",
                "pair": [1],
                "frozen": [1, 1],
                "pet": {"kind": "cow"},
                "span": "1h",
                "price": "much",
                "id": "me",
            }
            answer = await api.post(EVERYTHING, {"metadata": {"name": "wrong"}, **wrong})
            assert {field.partition("[")[0] for field in causes(answer)} - {"pet"} == {
                *(set(wrong) - {"pet"}),
                "pet.kind",
            }
            below = await api.post(
                EVERYTHING, {"metadata": {"name": "below"}, "price": "-1", "pets": [{"kind": "dog"}]}
            )
            assert below.status == 422
            assert "pets[0].barks" in causes(below)

    run()


class Shown(VirtualCollection[Client], of=(shown := foreign(dataclass_shape(Client)))):
    """Kept elsewhere."""

    async def get(self, name: str, ctx: Context) -> Client | None:
        return Client("a@b") if name == "here" else None

    async def create(self, new: Client, ctx: Context) -> Client:
        return new

    async def update(self, new: Client, expected_version: str, ctx: Context) -> Client:
        return new


@walk
async def test_virtual_objects_are_checked_too_also_for_a_dry_run():
    api, _ = store(Shown)
    async with api:
        assert (await made(api, CUSTOMERS, customer(email="A@B")))["email"] == "a@b"
        for query in ("", "?dryRun=All"):
            assert causes(await api.post(CUSTOMERS + query, customer("new", tier="gold"))) == ["<nil>"]
            assert causes(await api.patch(f"{CUSTOMERS}/here{query}", {"email": "x"})) == ["<nil>"]


@walk
async def test_a_model_may_have_metadata_of_its_own():
    class Named(pydantic.BaseModel):
        metadata: dict[str, Any]
        size: int = 1

        @pydantic.field_validator("metadata")
        @classmethod
        def labelled(cls, value: dict[str, Any]) -> dict[str, Any]:
            if "size" not in value.get("labels", {}):
                raise ValueError("say how large it is")
            return value

    api, _ = store(foreign(pydantic_shape(Named), "Named"))
    async with api:
        where = path("nameds", version="v1")
        answer = await api.post(where, {"metadata": {"name": "a"}})
        assert failure(answer)[2].endswith('metadata: Invalid value: "object": say how large it is')
        assert (await api.post(where, {"metadata": {"name": "a", "labels": {"size": "s"}}})).status == 201
