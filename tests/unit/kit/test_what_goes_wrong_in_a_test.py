"""A test that fails says why: what was raised, what came of a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oarlock import APIServer, Context, FieldError, Resource, StoredCollection, errors, subresource
from oarlock.testing import InMemory, InMemoryClient, ServerThread

BOATS = "/apis/harbour.example.com/v1/namespaces/default/boats"


class Boat(Resource, group="harbour.example.com", version="v1"):
    """A boat."""

    length: int = 0


class Boats(StoredCollection[Boat]):
    def validate(self, new: Boat, old: Boat | None, ctx: Context) -> Iterator[FieldError]:
        if new.length == 13:
            raise LookupError("thirteen")
        if new.length == 14:
            raise errors.Conflict("fourteen")
        yield from ()

    @subresource("honk", method="POST")
    async def _honk(self, name: str) -> None:
        return None


def boat(name: str, length: int = 0) -> dict[str, object]:
    return {"metadata": {"name": name}, "length": length}


def test_what_a_hook_raises_is_raised_by_the_request() -> None:
    with InMemoryClient(APIServer(serve=[Boats])) as client:
        with pytest.raises(LookupError, match="thirteen") as raised:
            client.post(BOATS, boat("a", 13))
        assert any(entry.name == "validate" for entry in raised.traceback)
        assert client.post(BOATS, boat("a", 14)).status == 409
        assert client.post(BOATS, boat("a")).status == 201


def test_clients_get_a_status() -> None:
    with InMemoryClient(APIServer(serve=[Boats]), raise_server_exceptions=False) as client:
        refused = client.post(BOATS, boat("a", 13))
        assert (refused.status, refused.json["reason"], refused.json["code"]) == (500, "InternalError", 500)
        assert "Look in the logs" in refused.json["message"]
    with ServerThread(APIServer(serve=[Boats])) as running:
        assert running.client().post(BOATS, boat("a", 13)).json["kind"] == "Status"


def test_an_error_goes_to_the_request_that_it_is_of() -> None:
    async def run() -> None:
        async with InMemory(APIServer(serve=[Boats])) as api:
            both = await asyncio.gather(
                api.post(BOATS, boat("a", 13)), api.post(BOATS, boat("b")), return_exceptions=True
            )
            assert isinstance(both[0], LookupError)
            assert not isinstance(both[1], BaseException)
            with pytest.raises(errors.StatusError):
                await api.client().create(Boat(metadata={"name": "c", "namespace": "default"}, length=13))  # type: ignore[arg-type]

    asyncio.run(run())


def test_an_action_needs_no_body() -> None:
    with InMemoryClient(APIServer(serve=[Boats])) as client:
        client.post(BOATS, boat("a"))
        assert client.post(f"{BOATS}/a/honk").status == 204
    with ServerThread(APIServer(serve=[Boats])) as running:
        running.client().post(BOATS, boat("a"))
        assert running.client().post(f"{BOATS}/a/honk").status == 204


def test_a_watch_says_what_came_instead_of_what_did_not() -> None:
    expected = r"no event within 0.05 s on .*/boats; so far: \[ADDED default/a, DELETED default/a\]"

    async def run() -> None:
        async with InMemory(APIServer(serve=[Boats])) as api, api.watch(BOATS) as events:
            await api.post(BOATS, boat("a"))
            await api.delete(f"{BOATS}/a")
            for _ in range(2):
                await events.next()
            with pytest.raises(TimeoutError, match=expected):
                await events.next(0.05)
            api.faults.cut_watches()
            with pytest.raises(EOFError, match=r"has ended; so far: \[ADDED"):
                await events.next()

    asyncio.run(run())
    with ServerThread(APIServer(serve=[Boats])) as running, running.client().watch(BOATS) as events:
        running.client().post(BOATS, boat("a"))
        running.client().delete(f"{BOATS}/a")
        for _ in range(2):
            events.next()
        with pytest.raises(TimeoutError, match=expected):
            events.next(0.05)
