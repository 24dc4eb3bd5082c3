"""Which plugins are asked about a user's own subresource, what they see of it and what becomes of what they change."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from walk_kit import BOATS, BOATS_V1, GROUP, Boat, BoatV1, Pour, boat, failure, made, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    Denied,
    Le,
    ObjectMeta,
    Resource,
    Review,
    StoredCollection,
    VirtualCollection,
    subresource,
)
from oarlock.testing.server import InMemory


class Load(Resource, group=GROUP, version="v1"):
    """What a boat takes on."""

    tons: Annotated[int, Le(100)] = 1
    note: str = ""


class Loaded(StoredCollection[Boat], stored_as=BoatV1):
    """Boats that are filled, loaded and emptied."""

    def __init__(self) -> None:
        self._calls: list[Any] = []

    @subresource("pour")
    async def _pour(self, body: Pour) -> Pour:
        self._calls.append(("pour", body.litres, body.into))
        return body

    @subresource("load", method="PUT")
    async def _load(self, body: Load, ctx: Context) -> Load:
        self._calls.append(("load", body.tons, ctx.dry_run))
        return body

    @subresource("depth", method="GET")
    async def _depth(self) -> Pour:
        return Pour(litres=3)


class Seen(Admission[Pour], operations=["CREATE", "UPDATE", "DELETE"], subresources=["pour"]):
    """Writes down what it sees, adds a litre, and pours nothing into the sea."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    async def mutate(self, review: Review[Pour]) -> None:
        self._seen.append(("mutate", review.operation, review.name, review.subresource, review.namespace))
        assert review.old_object is None
        review.warn("a litre more")
        review.object.litres += 1

    async def validate(self, review: Review[Pour]) -> None:
        self._seen.append(("validate", review.object.litres, review.dry_run))
        if review.object.into == "sea":
            raise Denied("not into the sea")


class Everything(Admission[Resource], subresources=["*"]):
    """Sees every kind, as metadata."""

    def __init__(self) -> None:
        self._seen: list[Any] = []

    async def mutate(self, review: Review[Resource]) -> None:
        self._seen.append((review.operation, review.subresource))
        review.object.metadata.labels["seen"] = "yes"


class BoatsOnly(Admission[Boat], subresources=["pour"]):
    """Is for boats, and what is poured is no boat."""

    async def mutate(self, review: Review[Boat]) -> None:
        assert not review.subresource


class Parents(Admission[Pour]):
    """Names no subresource, so it is for pours that are resources themselves."""

    async def mutate(self, review: Review[Pour]) -> None:
        raise AssertionError


def harbour(*admission: Any) -> tuple[InMemory, Loaded]:
    boats = Loaded()
    return InMemory(APIServer(serve=[boats], admission=admission)), boats


@walk
async def test_a_plugin_for_the_kind_of_the_body_may_change_it():
    seen = Seen()
    api, boats = harbour(seen, BoatsOnly(), Parents())
    async with api:
        await made(api, BOATS, boat())
        assert seen._seen == []
        answer = await api.post(BOATS + "/a/pour", {"litres": 4})
        assert answer.status == 201
        assert answer.json["litres"] == 5
        assert any("a litre more" in warning for warning in answer.warnings)
        assert seen._seen == [("mutate", "CREATE", "a", "pour", "default"), ("validate", 5, False)]
        assert boats._calls == [("pour", 5, "")]


@walk
async def test_a_denial_names_the_parent_and_nothing_is_called():
    api, boats = harbour(Seen())
    async with api:
        await made(api, BOATS, boat())
        answer = await api.post(BOATS + "/a/pour", {"into": "sea"})
        why = 'boats.walk.example.com "a" is forbidden: not into the sea'
        assert failure(answer) == (403, "Forbidden", why)
        assert boats._calls == []


@walk
async def test_a_dry_run_is_told_and_reads_are_not_asked_about():
    seen, everything = Seen(), Everything()
    api, boats = harbour(seen, everything)
    async with api:
        await made(api, BOATS, boat())
        everything._seen.clear()
        await api.post(BOATS + "/a/pour?dryRun=All", {"litres": 1})
        assert seen._seen[-1] == ("validate", 2, True)
        assert (await api.put(BOATS + "/a/load?dryRun=All", {"tons": 2})).status == 200
        assert boats._calls[-1] == ("load", 2, True)
        assert everything._seen == [("CREATE", "pour"), ("UPDATE", "load")]
        assert (await api.get(BOATS + "/a/depth")).status == 200
        assert len(everything._seen) == 2


@walk
async def test_what_a_plugin_for_everything_changes_is_metadata():
    api, _ = harbour(Everything())
    async with api:
        await made(api, BOATS, boat())
        answer = await api.put(BOATS + "/a/load", {"tons": 7, "note": "x"})
        assert (answer.json["tons"], answer.json["note"]) == (7, "x")
        assert answer.json["metadata"]["labels"] == {"seen": "yes"}


class Overloads(Admission[Load], subresources=["load"]):
    async def mutate(self, review: Review[Load]) -> None:
        review.object.tons = 999


@walk
async def test_what_a_plugin_made_must_be_valid_still():
    api, boats = harbour(Overloads())
    async with api:
        await made(api, BOATS, boat())
        answer = await api.put(BOATS + "/a/load", {"tons": 7})
        assert failure(answer)[:2] == (422, "Invalid")
        assert answer.json["details"]["causes"][0]["field"] == "tons"
        assert boats._calls == []


@pytest.mark.parametrize("body", [b"", b"{}", b'{"litres": 1}'])
def test_an_empty_body_is_one_with_defaults(body: bytes) -> None:
    @walk
    async def check() -> None:
        seen = Seen()
        api, _ = harbour(seen)
        async with api:
            await made(api, BOATS, boat())
            for where in (BOATS, BOATS_V1):
                answer = await api.post(where + "/a/pour", body)
                assert answer.json["litres"] == 2
            assert seen._seen[1::2] == [("validate", 2, False)] * 2

    check()


@walk
async def test_the_parent_is_looked_for_after_admission_as_everywhere():
    seen = Seen()
    api, boats = harbour(seen)
    async with api:
        assert failure(await api.post(BOATS + "/none/pour", {"into": "sea"}))[0] == 403
        assert failure(await api.post(BOATS + "/none/pour", {}))[0] == 404
        assert failure(await api.post(BOATS + "/none/pour", {"litres": "many"}))[0] == 400
        assert boats._calls == []


class Spring(Resource, group=GROUP, version="v1"):
    """Water that nobody stores."""


class Springs(VirtualCollection[Spring]):
    """Nothing is kept."""

    async def get(self, name: str, ctx: Context) -> Spring | None:
        return Spring(metadata=ObjectMeta(name=name))

    @subresource("pour")
    async def _pour(self, body: Pour) -> Pour:
        return body


@walk
async def test_subresources_of_virtual_objects_are_asked_about_too():
    seen = Seen()
    async with InMemory(APIServer(serve=[Springs()], admission=[seen])) as api:
        answer = await api.post(f"/apis/{GROUP}/v1/namespaces/default/springs/one/pour", {"litres": 1})
        assert answer.json["litres"] == 2
        assert seen._seen[0] == ("mutate", "CREATE", "one", "pour", "default")
