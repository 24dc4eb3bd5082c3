"""Users' code may raise what it refuses with, wherever it runs; what it doesn't say is filled in from the request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import pytest
from walk_kit import GROUP, causes, failure, made, path, walk

from oarlock import (
    Admission,
    APIServer,
    Channels,
    Context,
    Denied,
    FieldError,
    Forbidden,
    Invalid,
    ObjectMeta,
    Required,
    Resource,
    Review,
    Spoke,
    StoredCollection,
    VirtualCollection,
    errors,
    subresource,
)
from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import Authorizer, Decision
from oarlock.testing.server import Answer, InMemory


class Bird(Resource, group=GROUP, version="v1", selectable=[".where"]):
    """A bird that says where it is refused."""

    where: str = ""
    size: int = 1

    def default(self) -> None:
        refuse(self.where, "default")


class OldBird(Spoke[Bird], version="v1alpha1"):
    """A bird as it was."""

    where: str = ""

    def to_hub(self) -> Bird:
        refuse(self.where, "to_hub")
        return Bird(metadata=self.metadata, where=self.where)

    @classmethod
    def from_hub(cls, hub: Bird) -> Self:
        return cls(metadata=hub.metadata, where=hub.where)


def refuse(where: str, here: str) -> None:
    kind, _, place = where.partition("@")
    if place == here:
        raise {
            "Invalid": Invalid("where", where, "not here"),
            "Required": Required("size", "how large is it?"),
            "Forbidden": Forbidden("where", "not by you"),
            "Denied": Denied("not today"),
            "Conflict": errors.Conflict("somebody was here"),
            "NotFound": errors.NotFound("no such place"),
            "Both": errors.InvalidObject([Invalid("where", where, "not here"), Required("size")]),
        }[kind]


class Food(Resource, group=GROUP, version="v1"):
    """What a bird is fed."""

    what: str = ""


class Birds(StoredCollection[Bird]):
    def prepare(self, new: Bird, old: Bird | None, ctx: Context) -> None:
        refuse(new.where, "prepare")

    def validate(self, new: Bird, old: Bird | None, ctx: Context) -> Iterator[FieldError]:
        if new.size > 9:
            yield Invalid("size", new.size, "too large")
        refuse(new.where, "validate")

    @subresource("feed")
    async def _feed(self, parent: Bird, body: Food, ctx: Context) -> Food:
        refuse(body.what, "feed")
        return body

    @subresource("song")
    async def _song(self, parent: Bird) -> AsyncIterator[bytes]:
        refuse(parent.where + "@song", "song")
        yield b"tsrip"

    @subresource("perch", connect=True)
    async def _perch(self, parent: Bird, channels: Channels) -> None:
        raise Denied("it flew away")


class Watcher(Admission[Bird], operations=["CREATE", "UPDATE", "DELETE"]):
    async def mutate(self, review: Review[Bird]) -> None:
        if review.new is not None:
            refuse(review.new.where, "mutate")

    async def validate(self, review: Review[Bird]) -> None:
        if review.new is not None:
            refuse(review.new.where, "admission")
        elif review.old_object is not None and review.old_object.size == 7:
            raise Denied("seven stay")


class Gull(Resource, group=GROUP, version="v1"):
    """A bird somebody else keeps."""

    where: str = ""


class Gulls(VirtualCollection[Gull]):
    async def get(self, name: str, ctx: Context) -> Gull | None:
        if name == "gone":
            raise errors.NotFound("it flew away")
        return None if name == "new" else Gull(metadata=ObjectMeta(name=name))

    async def list(self, ctx: Context) -> list[Gull]:
        raise errors.Forbidden("nobody counts gulls")

    async def create(self, new: Gull, ctx: Context) -> Gull:
        if new.where == "taken":
            raise errors.AlreadyExists("another one sits there")
        refuse(new.where, "create")
        return new

    async def update(self, new: Gull, expected_version: str, ctx: Context) -> Gull:
        refuse(new.where, "update")
        return new

    async def delete(self, name: str, ctx: Context) -> Gull | None:
        raise Denied("gulls stay")

    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Gull]]:
        raise errors.Expired("too long ago")
        yield "ADDED", Gull()


BIRDS, GULLS = path("birds", version="v1"), path("gulls", version="v1")


def birds(**more: Any) -> InMemory:
    return InMemory(APIServer(serve=[Birds, OldBird, Gulls], admission=[Watcher()], **more))


def bird(where: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "where": where, **more}


def told(answer: Answer) -> tuple[int, list[str]]:
    status = answer.json
    assert status["details"]["name"] == "a", status
    return answer.status, [cause["field"] for cause in status["details"].get("causes", [])]


PLACES = ["default", "mutate", "prepare", "validate", "admission"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", ["POST", "PUT"])
@walk
async def test_a_field_error_may_be_raised_wherever_an_object_is_looked_at(
    method: str, place: str, caplog: Any
) -> None:
    async with birds() as api:
        where, metadata = BIRDS, {"name": "a"}
        if method == "PUT":
            metadata = (await made(api, BIRDS, bird("")))["metadata"]
            where = f"{BIRDS}/a"
        for kind, field in (("Invalid", "where"), ("Required", "size"), ("Forbidden", "where")):
            answer = await api.request(method, where, bird(f"{kind}@{place}", metadata=metadata))
            assert told(answer) == (422, [field])
            assert failure(answer)[2].startswith(f'Bird.{GROUP} "a" is invalid: {field}: ')
        assert told(await api.request(method, where, bird(f"Both@{place}", metadata=metadata))) == (
            422,
            ["where", "size"],
        )
    assert caplog.records == []


@pytest.mark.parametrize("place", PLACES)
@walk
async def test_other_refusals_are_told_what_they_are_about(place: str) -> None:
    async with birds() as api:
        answer = await api.post(BIRDS, bird(f"Denied@{place}"))
        assert failure(answer) == (403, "Forbidden", f'birds.{GROUP} "a" is forbidden: not today')
        answer = await api.post(BIRDS, bird(f"Conflict@{place}"))
        why = f'Operation cannot be fulfilled on birds.{GROUP} "a": somebody was here'
        assert failure(answer) == (409, "Conflict", why)


@walk
async def test_what_is_raised_is_told_together_with_what_was_yielded_and_what_the_schema_found() -> None:
    async with birds() as api:
        assert told(await api.post(BIRDS, bird("Invalid@validate", size=11))) == (422, ["size", "where"])


class Returning(StoredCollection[Bird]):
    """Its `validate` returns what the name of the bird says, where others yield."""

    def validate(self, new: Bird, old: Bird | None, ctx: Context) -> Any:
        error = Invalid("where", new.where, "not here")
        return {"list": [error], "error": error, "none": None, "nothing": [], "refusals": iter([ALWAYS_THE_SAME])}.get(
            new.metadata.name, ALWAYS_THE_SAME if new.metadata.name == "refusal" else False
        )


@walk
async def test_errors_may_be_returned_too(caplog: pytest.LogCaptureFixture) -> None:
    async with InMemory(APIServer(serve=[Returning]), raise_server_exceptions=False) as api:
        for name in ("list", "error"):
            answer = await api.post(BIRDS, {"metadata": {"name": name}})
            assert (answer.status, causes(answer)) == (422, ["where"])
        for name in ("refusal", "refusals"):
            why = f'birds.{GROUP} "{name}" is forbidden: not here'
            assert failure(await api.post(BIRDS, {"metadata": {"name": name}})) == (403, "Forbidden", why)
        for name in ("none", "nothing"):
            assert (await api.post(BIRDS, {"metadata": {"name": name}})).status == 201
        assert (await api.post(BIRDS, {"metadata": {"name": "false"}})).status == 500
    assert "Returning.validate returned False: it yields field errors" in caplog.text


@walk
async def test_a_conversion_may_refuse_what_a_client_sends() -> None:
    async with birds() as api:
        old = path("birds", version="v1alpha1")
        answer = await api.post(old, bird("Invalid@to_hub"))
        assert (answer.status, causes(answer)) == (422, ["where"])


@walk
async def test_a_delete_may_be_denied() -> None:
    async with birds() as api:
        assert (await api.post(BIRDS, bird("", size=7))).status == 201
        answer = await api.delete(f"{BIRDS}/a")
        assert failure(answer) == (403, "Forbidden", f'birds.{GROUP} "a" is forbidden: seven stay')


@walk
async def test_a_subresource_may_refuse_its_body_and_its_request() -> None:
    async with birds() as api:
        assert (await api.post(BIRDS, bird("Denied"))).status == 201
        answer = await api.post(f"{BIRDS}/a/feed", {"what": "Invalid@feed"})
        assert told(answer) == (422, ["where"])
        assert failure(answer)[2].startswith(f'Food.{GROUP} "a" is invalid')
        answer = await api.post(f"{BIRDS}/a/feed", {"what": "Conflict@feed"})
        assert failure(answer)[2] == f'Operation cannot be fulfilled on birds.{GROUP} "a": somebody was here'
        assert failure(await api.get(f"{BIRDS}/a/song"))[2] == f'birds.{GROUP} "a" is forbidden: not today'
        upgrade = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "sec-websocket-protocol": "v5.channel.k8s.io",
        }
        refused = await api.request("GET", f"{BIRDS}/a/perch", None, upgrade)
        assert failure(refused)[2] == f'birds.{GROUP} "a" is forbidden: it flew away'


@walk
async def test_storage_of_ones_own_need_not_say_what_it_is_about() -> None:
    async with birds() as api:
        gull = {"metadata": {"name": "new"}}
        answer = await api.post(GULLS, {**gull, "where": "taken"})
        assert failure(answer) == (409, "AlreadyExists", f'gulls.{GROUP} "new" already exists: another one sits there')
        answer = await api.post(GULLS, {**gull, "where": "Invalid@create"})
        assert failure(answer)[:2] == (422, "Invalid")
        assert f'Gull.{GROUP} "new" is invalid' in failure(answer)[2]
        answer = await api.put(f"{GULLS}/a", {"metadata": {"name": "a"}, "where": "Conflict@update"})
        assert failure(answer)[2] == f'Operation cannot be fulfilled on gulls.{GROUP} "a": somebody was here'
        assert failure(await api.get(f"{GULLS}/gone"))[2] == f'gulls.{GROUP} "gone" not found: it flew away'
        assert failure(await api.get(GULLS))[2] == f"gulls.{GROUP} is forbidden: nobody counts gulls"
        assert failure(await api.delete(f"{GULLS}/a"))[2] == f'gulls.{GROUP} "a" is forbidden: gulls stay'


ALWAYS_THE_SAME = Denied("not here")


class Strict(Admission[Bird]):
    async def validate(self, review: Review[Bird]) -> None:
        raise ALWAYS_THE_SAME


@walk
async def test_one_error_may_be_raised_about_many_objects() -> None:
    async with InMemory(APIServer(serve=[Birds], admission=[Strict()])) as api:
        for name in ("a", "b"):
            answer = await api.post(BIRDS, {"metadata": {"name": name}})
            assert failure(answer)[2] == f'birds.{GROUP} "{name}" is forbidden: not here'


class Porter(Authorizer):
    waits = False

    async def decide(self, user: User, target: Target) -> Decision:
        raise errors.Forbidden("closed at night")


@walk
async def test_an_authorizer_may_raise_what_it_refuses_with() -> None:
    async with birds(authorizer=Porter()) as api:
        answer = await api.get(f"{BIRDS}/a")
        assert failure(answer) == (403, "Forbidden", f'birds.{GROUP} "a" is forbidden: closed at night')
        assert failure(await api.get("/version"))[2] == "closed at night"
