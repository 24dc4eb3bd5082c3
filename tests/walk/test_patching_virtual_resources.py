"""Every kind of patch, and who owns what, where objects are kept by a user's own code."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import msgspec
import pytest
from apply_kit import APPLY, GROUP, JSON_PATCH, MERGE, STRATEGIC, V1, V1BETA1, entries, owned
from walk_kit import failure, walk

from oarlock import (
    JSON,
    Admission,
    APIServer,
    Context,
    Denied,
    Foreign,
    ListMap,
    Model,
    Resource,
    Review,
    Scale,
    Spoke,
    VirtualCollection,
    dataclass_shape,
    errors,
)
from oarlock.meta.kinds import GroupResource
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory


class Page(Model):
    """One page."""

    name: str
    lines: int = 1


class BookStatus(Model):
    """How far it is read."""

    read: int | None = None


class Book(
    Resource,
    group=GROUP,
    version="v1",
    status_subresource=True,
    generation=True,
    scale=Scale(".copies", ".status.read"),
):
    """A book in somebody's library."""

    title: str = ""
    copies: int | None = None
    pages: Annotated[list[Page], ListMap("name")] = []
    status: BookStatus | None = None


class OldBook(Spoke[Book], version="v1beta1"):
    """A book whose title was its name."""

    heading: str = ""

    def to_hub(self) -> Book:
        return Book(metadata=self.metadata, title=self.heading)

    @classmethod
    def from_hub(cls, hub: Book) -> Self:
        return cls(metadata=hub.metadata, heading=hub.title)


class Library(VirtualCollection[Book]):
    """Keeps books as rows of text, as a database would."""

    def __init__(self, *, owners: bool = True) -> None:
        self._rows: dict[tuple[str, str], bytes] = {}
        self._owners = owners
        self._rev = 0
        self._calls: list[str] = []
        self._rivals: list[Any] = []

    def _put(self, book: Book) -> Book:
        book = copy.deepcopy(book)
        self._rev += 1
        book.metadata.resource_version = str(self._rev)
        if not self._owners:
            book.metadata.field_owners = ""
        self._rows[book.metadata.namespace, book.metadata.name] = msgspec.json.encode(book)
        return book

    async def get(self, name: str, ctx: Context) -> Book | None:
        row = self._rows.get((ctx.target.namespace, name))
        return None if row is None else msgspec.json.decode(row, type=Book)

    async def list(self, ctx: Context) -> list[Book]:
        return [msgspec.json.decode(row, type=Book) for row in self._rows.values()]

    async def create(self, new: Book, ctx: Context) -> Book:
        self._calls.append("create")
        if self._rivals:
            self._rivals.pop()(self)
        if (new.metadata.namespace, new.metadata.name) in self._rows:
            raise errors.AlreadyExists(GroupResource(GROUP, "books"), new.metadata.name)
        return self._put(new)

    async def update(self, new: Book, expected_version: str, ctx: Context) -> Book:
        self._calls.append("update")
        if self._rivals:
            self._rivals.pop()(self)
        live = await self.get(new.metadata.name, ctx)
        assert live is not None
        if expected_version and expected_version != live.metadata.resource_version:
            raise errors.Conflict(GroupResource(GROUP, "books"), new.metadata.name)
        return self._put(new)


BOOKS = f"/apis/{V1}/namespaces/default/books"
ONE = f"{BOOKS}/one"
OLD_ONE = f"/apis/{V1BETA1}/namespaces/default/books/one"


def library(*admission: Any, owners: bool = True) -> tuple[InMemory, Library, VirtualClock]:
    clock, books = VirtualClock(), Library(owners=owners)
    return InMemory(APIServer(serve=[books, OldBook], admission=admission), clock=clock), books, clock


def book(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Book", "metadata": {"name": "one"}, **fields}


async def send(api: InMemory, config: Any, manager: str = "m", where: str = ONE, query: str = "") -> Any:
    return await api.patch(f"{where}?fieldManager={manager}{query}", config, APPLY)


async def apply(api: InMemory, manager: str = "m", query: str = "", **fields: Any) -> Any:
    answer = await send(api, book(**fields), manager, query=query)
    assert answer.status in (200, 201), answer.body
    return answer.json


@walk
async def test_an_apply_creates_changes_and_lets_go():
    api, books, clock = library()
    async with api:
        first = await send(api, book(title="Ulysses", pages=[{"name": "a"}]))
        assert first.status == 201
        assert first.json["metadata"]["uid"]
        assert first.json["metadata"]["generation"] == 1
        assert owned(first.json, "m") == {"title", "pages[a]", "pages[a].name"}
        clock.advance(10)
        second = await apply(api, copies=3)
        assert "title" not in second or second["title"] == ""
        assert "pages" not in second
        assert second["metadata"]["generation"] == 2
        assert owned(second, "m") == {"copies"}
        assert (await api.get(ONE)).json == second
        assert "fieldOwners" not in json.dumps(second)
        assert books._calls == ["create", "update"]


@walk
async def test_applying_the_same_again_calls_nobody():
    api, books, clock = library()
    async with api:
        first = await apply(api, title="Ulysses")
        for _ in range(3):
            clock.advance(100)
            assert await apply(api, title="Ulysses") == first
        assert (await api.patch(ONE, {"title": "Ulysses"})).json == first
        assert (await api.put(ONE, first)).json == first
        assert books._calls == ["create"]


@walk
async def test_conflicts_force_and_items_that_are_shared():
    api, _, _ = library()
    async with api:
        await apply(api, "left", title="a", pages=[{"name": "l"}])
        refused = await send(api, book(title="b"), "right")
        assert failure(refused) == (
            409, "Conflict", 'Apply failed with 1 conflict: conflict with "left": .title'
        )  # fmt: skip
        assert refused.json["details"]["causes"][0]["reason"] == "FieldManagerConflict"
        tree = await apply(api, "right", pages=[{"name": "r", "lines": 2}])
        assert [page["name"] for page in tree["pages"]] == ["l", "r"]
        tree = await apply(api, "right", "&force=true", title="b")
        assert [page["name"] for page in tree["pages"]] == ["l"]
        assert owned(tree, "left") == {"pages[l]", "pages[l].name"}
        assert owned(tree, "right") == {"title"}


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        (MERGE, {"title": "new", "pages": [{"name": "b"}]}),
        (STRATEGIC, {"title": "new", "pages": [{"name": "b"}]}),
        (JSON_PATCH, [{"op": "replace", "path": "/title", "value": "new"}, {"op": "remove", "path": "/pages/0"}]),
    ],
)
def test_a_patch_of_any_kind_owns_what_it_changes(media: str, patch: Any) -> None:
    @walk
    async def check() -> None:
        api, _, _ = library()
        async with api:
            await apply(api, title="old", copies=1, pages=[{"name": "a"}])
            answer = await api.patch(f"{ONE}?fieldManager=p", patch, media)
            assert answer.status == 200
            assert answer.json["title"] == "new"
            assert "title" in owned(answer.json, "p", "Update")
            assert {"copies"} <= owned(answer.json, "m")
            assert "title" not in owned(answer.json, "m")
            names = [page["name"] for page in answer.json.get("pages", [])]
            assert names == {MERGE: ["b"], STRATEGIC: ["b", "a"], JSON_PATCH: []}[media]

    check()


@walk
async def test_creates_updates_and_the_status_have_owners():
    api, _, _ = library()
    async with api:
        made = (await api.post(f"{BOOKS}?fieldManager=maker", book(title="a", status={"read": 9}))).json
        assert owned(made, "maker", "Update") == {"title"}
        made["copies"] = 4
        tree = (await api.put(f"{ONE}?fieldManager=putter", made)).json
        assert owned(tree, "putter", "Update") == {"copies"}
        answer = await send(api, book(status={"read": 1}, title="ignored"), "reader", f"{ONE}/status")
        assert answer.json["status"] == {"read": 1}
        assert answer.json["title"] == "a"
        assert entries(answer.json) == [("reader", "Apply/status"), ("maker", "Update"), ("putter", "Update")]
        assert owned(answer.json, "reader") == {"status.read"}
        ignored = await apply(api, "m", status={"read": 5}, copies=4)
        assert ignored["status"] == {"read": 1}
        assert owned(ignored, "m") == {"copies"}


@walk
async def test_a_scale_is_applied():
    api, _, _ = library()
    async with api:
        await apply(api, title="a", copies=1)
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 1}}
        assert (await send(api, scale, "scaler", f"{ONE}/scale")).json["spec"] == {"replicas": 1}
        assert owned((await api.get(ONE)).json, "scaler") == {"copies"}
        scale["spec"] = {"replicas": 7}
        assert failure(await send(api, scale, "scaler", f"{ONE}/scale"))[0] == 409
        assert (await send(api, scale, "scaler", f"{ONE}/scale", "&force=true")).status == 200
        assert (await api.get(ONE)).json["copies"] == 7


@walk
async def test_versions_have_owners_of_their_own():
    api, _, _ = library()
    async with api:
        await apply(api, title="a", copies=2)
        old = {"apiVersion": V1BETA1, "kind": "Book", "metadata": {"name": "one"}, "heading": "b"}
        refused = await send(api, old, "old", OLD_ONE)
        assert failure(refused)[2] == 'Apply failed with 1 conflict: conflict with "m": .title'
        assert (await send(api, old, "old", OLD_ONE, "&force=true")).json["heading"] == "b"
        tree = (await api.get(ONE)).json
        assert (tree["title"], tree["copies"]) == ("b", 2)
        assert (owned(tree, "m"), owned(tree, "old")) == ({"copies"}, {"heading"})


@walk
async def test_a_dry_run_calls_nobody_and_says_what_would_be():
    api, books, _ = library()
    async with api:
        would = await send(api, book(title="a"), query="&dryRun=All")
        assert would.status == 201
        assert owned(would.json, "m") == {"title"}
        assert (await api.get(ONE)).status == 404
        await apply(api, title="a")
        would = await send(api, book(title="b"), query="&dryRun=All")
        assert would.json["title"] == "b"
        assert (await api.get(ONE)).json["title"] == "a"
        assert books._calls == ["create"]


@walk
async def test_what_cannot_be_applied_is_told_as_for_stored_objects():
    api, _, _ = library()
    async with api:
        unknown = failure(await send(api, book(titel="x")))
        assert unknown[0] == 400
        assert unknown[2].endswith(".titel: field not declared in schema")
        assert failure(await send(api, {**book(), "metadata": {"name": "two"}}))[0] == 400
        assert failure(await api.patch(ONE, book(), APPLY))[0] == 422
        with_uid = {**book(), "metadata": {"name": "one", "uid": "x"}}
        assert failure(await send(api, with_uid))[2].endswith("no existing object was found")
        await apply(api, title="a")
        pinned = {**book(title="b"), "metadata": {"name": "one", "resourceVersion": "99"}}
        assert failure(await send(api, pinned))[0] == 409
        assert failure(await send(api, book(), where=f"{BOOKS}/two/status"))[0] in (400, 404)


@walk
async def test_another_writer_is_faster():
    api, books, _ = library()
    async with api:

        def makes(library: Library) -> None:
            rival = Book(title="rival")
            rival.metadata.name, rival.metadata.namespace = "one", "default"
            library._put(rival)

        books._rivals.append(makes)
        tree = await apply(api, copies=2)
        assert (tree["title"], tree["copies"]) == ("rival", 2)
        books._rivals.append(makes)
        tree = await apply(api, copies=3)
        assert (tree["title"], tree["copies"]) == ("rival", 3)
        assert books._calls == ["create", "update", "update", "update"]


@walk
async def test_what_is_kept_without_owners_has_none():
    """Nobody can own what nobody remembers: applies never conflict, and drop nothing."""
    api, books, _ = library(owners=False)
    async with api:
        first = await apply(api, "left", title="a", copies=1)
        assert "managedFields" not in first["metadata"]
        second = await apply(api, "right", title="b")
        assert (second["title"], second["copies"]) == ("b", 1)
        third = (await api.patch(ONE, {"title": "c"})).json
        assert "managedFields" not in third["metadata"]
        calls = len(books._calls)
        assert (await apply(api, "right", title="c"))["title"] == "c"
        assert len(books._calls) == calls + 1  # that `right` owns the title now is a change, which nobody keeps


@walk
async def test_owners_that_cannot_be_read_are_none():
    api, books, _ = library()
    async with api:
        await apply(api, "left", title="a")
        for text in ("{", "7", '"x"', "null", "[]", "{}", "[1]"):
            row = msgspec.json.decode(books._rows["default", "one"])
            row["metadata"]["fieldOwners"] = text
            books._rows["default", "one"] = msgspec.json.encode(row)
            assert "managedFields" not in (await api.get(ONE)).json["metadata"]
        row["metadata"]["fieldOwners"] = '[{"manager": 7}]'
        books._rows["default", "one"] = msgspec.json.encode(row)
        assert failure(await send(api, book(title="b")))[0] == 400
        row["metadata"]["fieldOwners"] = "7"
        books._rows["default", "one"] = msgspec.json.encode(row)
        assert (await apply(api, "right", title="c"))["title"] == "c"


@walk
async def test_clients_cannot_send_the_text():
    api, _, _ = library()
    async with api:
        body = book(title="a")
        body["metadata"]["fieldOwners"] = "[]"
        answer = await api.post(f"{BOOKS}?fieldManager=m", body)
        assert answer.status == 201
        assert owned(answer.json, "m", "Update") == {"title"}
        assert any("fieldOwners" in warning for warning in answer.warnings)


class NoThrillers(Admission[Book]):
    async def mutate(self, review: Review[Book]) -> None:
        review.object.copies = review.object.copies or 1

    async def validate(self, review: Review[Book]) -> None:
        if review.object.title == "thriller":
            raise Denied("not here")


@walk
async def test_admission_sees_what_an_apply_makes():
    api, books, _ = library(NoThrillers())
    async with api:
        tree = await apply(api, title="a")
        assert tree["copies"] == 1
        assert owned(tree, "m") == {"title"}
        assert await apply(api, title="a") == tree
        assert failure(await send(api, book(title="thriller")))[0] == 403
        assert books._calls == ["create"]


class Fixed(VirtualCollection[Book]):
    """There is one book, which nobody creates."""

    def __init__(self) -> None:
        self._title = "a"

    async def get(self, name: str, ctx: Context) -> Book | None:
        return Book(title=self._title) if name == "one" else None

    async def update(self, new: Book, expected_version: str, ctx: Context) -> Book:
        self._title = new.title
        return new


@walk
async def test_without_a_create_an_apply_changes_what_is_there():
    async with InMemory(APIServer(serve=[Fixed()])) as api:
        assert failure(await send(api, {**book(), "metadata": {}}, where=f"{BOOKS}/two"))[0] == 404
        assert (await apply(api, title="b"))["title"] == "b"
        document = (await api.get(f"/openapi/v3/apis/{V1}")).json
        operations = document["paths"][f"/apis/{V1}/namespaces/{{namespace}}/books/{{name}}"]
        assert APPLY in operations["patch"]["requestBody"]["content"]
        assert "post" not in document["paths"].get(f"/apis/{V1}/namespaces/{{namespace}}/books", {})


class ReadOnly(VirtualCollection[Book]):
    """Nothing can be changed."""

    async def get(self, name: str, ctx: Context) -> Book | None:
        return Book()


@walk
async def test_where_nothing_is_updated_nothing_is_patched():
    async with InMemory(APIServer(serve=[ReadOnly()])) as api:
        assert failure(await send(api, book()))[0] == 405
        (resource,) = [r for r in (await api.get(f"/apis/{V1}")).json["resources"] if r["name"] == "books"]
        assert resource["verbs"] == ["get"]


@dataclass
class Note:
    """A type of somebody else's, with the metadata as it comes."""

    text: str = ""
    metadata: dict[str, JSON] = field(default_factory=dict)


NOTE = Foreign(dataclass_shape(Note), group=GROUP, version="v1", kind="Note")


class Notes(VirtualCollection[Note], of=NOTE):
    """Keeps them as they are."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    async def get(self, name: str, ctx: Context) -> Note | None:
        return self._notes.get(name)

    async def create(self, new: Note, ctx: Context) -> Note:
        self._notes[ctx.target.name] = new
        return new

    async def update(self, new: Note, expected_version: str, ctx: Context) -> Note:
        self._notes[ctx.target.name] = new
        return new


@walk
async def test_a_foreign_type_keeps_managed_fields_as_they_are():
    async with InMemory(APIServer(serve=[Notes()])) as api:
        where = f"/apis/{V1}/namespaces/default/notes/one"
        note = {"apiVersion": V1, "kind": "Note", "metadata": {"name": "one"}, "text": "a"}
        assert (await send(api, note, "left", where)).status == 201
        refused = await send(api, {**note, "text": "b"}, "right", where)
        assert failure(refused)[2] == 'Apply failed with 1 conflict: conflict with "left": .text'
        assert owned((await send(api, note, "right", where)).json, "right") == {"text"}
