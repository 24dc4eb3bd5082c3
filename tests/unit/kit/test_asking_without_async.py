"""`InMemoryClient`: the server's loop runs while it is asked, in the test's own thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from oarlock import APIServer, User
from oarlock.testing import InMemory, InMemoryClient, VirtualClock

THINGS = "/apis/test.example.com/v1/namespaces/default/things"


def thing(name: str) -> dict[str, Any]:
    return {"apiVersion": "test.example.com/v1", "kind": "Thing", "metadata": {"name": name}}


def test_every_verb(app: APIServer) -> None:
    with InMemoryClient(app) as client:
        assert client.post(THINGS, thing("a")).status == 201
        assert client.patch(f"{THINGS}/a", {"spec": {"size": 2}}).json["spec"]["size"] == 2
        found = client.get(f"{THINGS}/a", accept="application/yaml")
        assert found.headers["content-type"] == "application/yaml"
        changed = client.get(f"{THINGS}/a").json
        changed["spec"]["size"] = 3
        assert client.put(f"{THINGS}/a", changed).json["spec"]["size"] == 3
        assert client.delete(f"{THINGS}/a").status == 200
        assert client.get(f"{THINGS}/a").status == 404


def test_what_fails_is_logged_without_what_every_request_goes_through(
    app: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    def boom(*_: object, **__: object) -> None:
        raise LookupError("boom")

    with InMemoryClient(app, raise_server_exceptions=False) as client:
        client.api.clock.now = boom  # type: ignore[method-assign]
        assert client.post(THINGS, thing("a")).status == 500
    (record,) = caplog.records
    assert "oarlock/server/filters" not in record.exc_text
    assert "During handling" not in record.exc_text
    assert record.exc_text.splitlines()[-1] == "LookupError: boom"


def test_a_watch_is_read_event_by_event(app: APIServer) -> None:
    with InMemoryClient(app) as client, client.watch(THINGS) as events:
        client.post(THINGS, thing("a"))
        client.patch(f"{THINGS}/a", {"spec": {"size": 2}})
        assert [(kind, tree["spec"]["size"]) for kind, tree in (events.next(), events.next())] == [
            ("ADDED", 1),
            ("MODIFIED", 2),
        ]
        with pytest.raises(TimeoutError):
            events.next(timeout_s=0.01)


def test_a_watch_that_is_refused_is_a_failure(app: APIServer) -> None:
    with InMemoryClient(app) as client, pytest.raises(AssertionError, match="404"), client.watch("/apis/no/v1/things"):
        pass


def test_time_moves_when_told(app: APIServer) -> None:
    with InMemoryClient(app) as client:
        assert isinstance(client.clock, VirtualClock)
        before = client.post(THINGS, thing("a")).json["spec"]["madeAt"]
        client.clock.advance(90)
        assert client.post(THINGS, thing("b")).json["spec"]["madeAt"] == before + 90


def test_somebody_asks(app: APIServer) -> None:
    with InMemoryClient(app, user=User("ann", groups=("staff",))) as client:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        assert client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).status in (201, 404)


def test_no_thread_and_no_loop_is_left(app: APIServer) -> None:
    before = threading.enumerate()
    with InMemoryClient(app) as client:
        client.get(THINGS)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
    assert threading.enumerate() == before


def test_what_is_async_runs_in_the_same_loop(app: APIServer) -> None:
    async def talk(api: InMemory) -> int:
        async with api.watch(THINGS) as events:
            await asyncio.gather(*(api.post(THINGS, thing(name)) for name in "abc"))
            return len([await events.next() for _ in "abc"])

    with InMemoryClient(app) as client:
        assert client.run(talk(client.api)) == 3
        assert len(client.get(THINGS).json["items"]) == 3
