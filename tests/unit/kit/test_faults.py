"""RequestFaults on purpose: clients meet what a real cluster does to them now and then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from oarlock import APIServer, Resource, errors
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.core.objects import ConfigMap
from oarlock.client.keywords import RetryPolicy
from oarlock.controllers import Controller, ControllerGroup, ObjectKey
from oarlock.server.filters.filter import unchanged
from oarlock.testing import InMemory, InMemoryClient, RequestFaults, ServerThread, TestClient, VirtualClock


class Boat(Resource, group="harbour.example.com", version="v1", status_subresource=True):
    """Something to write to."""

    length: int = 0
    status: dict[str, str] | None = None


class Buoy(Resource, group="harbour.example.com", version="v1", plural="buoys"):
    """Something else."""


BOATS = "/apis/harbour.example.com/v1/namespaces/default/boats"
BUOYS = "/apis/harbour.example.com/v1/namespaces/default/buoys"


def boat(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


class Harbour:
    """A server under test with a client: in memory or on a port."""

    def __init__(self, client: TestClient, faults: RequestFaults) -> None:
        self.client = client
        self.faults = faults


@pytest.fixture(params=["in memory", "on a port"])
def tested(request: pytest.FixtureRequest) -> Iterator[Harbour]:
    server = APIServer(serve=[Boat, Buoy])
    if request.param == "in memory":
        with InMemoryClient(server) as client:
            yield Harbour(client, client.faults)
    else:
        with ServerThread(server) as running:
            yield Harbour(running.client(), running.faults)
    assert server.around_dispatch is unchanged


def test_the_next_updates_conflict(tested: Harbour) -> None:
    client, faults = tested.client, tested.faults
    made = client.post(BOATS, boat("a")).json
    fault = faults.fail("update", Boat, status=409, times=2)
    answers = [client.put(f"{BOATS}/a", made) for _ in range(3)]
    assert [one.status for one in answers] == [409, 409, 200]
    assert answers[0].json["reason"] == "Conflict"
    assert "the object has been modified" in answers[0].json["message"]
    assert answers[0].json["details"] == {"name": "a", "group": "harbour.example.com", "kind": "boats"}
    assert (fault.count, fault.ended) == (2, True)
    assert [(one.what, one.verb, one.resource, one.name) for one in faults.injected] == [
        (409, "update", "boats", "a"),
        (409, "update", "boats", "a"),
    ]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (409, "AlreadyExists"),
        (410, "Expired"),
        (413, "RequestEntityTooLarge"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
def test_every_status_has_its_reason(status: int, reason: str) -> None:
    with InMemoryClient(APIServer(serve=[Boat])) as client:
        client.faults.fail("create", Boat, status=status)
        answer = client.post(BOATS, boat("a"))
        assert (answer.status, answer.json["reason"], answer.json["code"]) == (status, reason, status)
        assert ("retry-after" in answer.headers) == (status in (429, 503))
        assert client.post(BOATS, boat("a")).status == 201


def test_who_is_asked_too_often_is_told_when_to_come_back(tested: Harbour) -> None:
    tested.faults.fail("*", status=429, retry_after_s=7, message="not now")
    refused = tested.client.get(BOATS)
    assert (refused.status, refused.headers["retry-after"], refused.json["message"]) == (429, "7", "not now")
    assert refused.json["details"]["retryAfterSeconds"] == 7


def test_a_fault_is_for_what_it_says() -> None:
    with InMemoryClient(APIServer(serve=[Boat, Buoy])) as client:
        faults = client.faults
        client.post(BOATS, boat("a"))
        faults.fail("get", Boat, name="b", times=None)
        faults.fail("get", "harbour.example.com/v1/Boat", user="somebody", times=None)
        faults.fail("*", Boat, namespace="elsewhere", times=None)
        faults.fail("patch", Boat, subresource="status", times=None)
        assert client.get(f"{BOATS}/a").status == 200
        assert client.get(f"{BOATS}/b").status == 500
        assert client.get(BOATS.replace("default", "elsewhere")).status == 500
        assert client.patch(f"{BOATS}/a", {"length": 3}).status == 200
        assert client.patch(f"{BOATS}/a/status", {"status": {"a": "b"}}).status == 500
        assert client.post(BUOYS, boat("a")).status == 201
        faults.clear()
        assert client.get(f"{BOATS}/b").status == 404


def test_some_requests_pass_before(tested: Harbour) -> None:
    tested.faults.fail("list", Boat, after=2, times=None)
    assert [tested.client.get(BOATS).status for _ in range(4)] == [200, 200, 500, 500]


def test_a_fault_ends_with_its_context(tested: Harbour) -> None:
    with tested.faults.fail("list", times=None) as fault:
        assert tested.client.get(BOATS).status == 500
    assert tested.client.get(BOATS).status == 200
    assert fault.count == 1


def test_an_answer_is_lost_although_the_write_was_done(tested: Harbour) -> None:
    tested.faults.fail("create", Boat, status=504, applied=True)
    assert tested.client.post(BOATS, boat("a")).status == 504
    assert tested.client.post(BOATS, boat("a")).status == 409


def test_what_is_unknown_is_refused_with_what_was_meant() -> None:
    faults = RequestFaults(APIServer(serve=[Boat]))
    for wrong, hint in (("updat", "'update'"), ("put", "'update'"), ("POST", "'create'")):
        with pytest.raises(ValueError, match=f"did you mean {hint}"):
            faults.fail(wrong, Boat)
    with pytest.raises(ValueError, match=r"did you mean .*Boat"):
        faults.fail("get", "harbour.example.com/v1/Boot")
    with pytest.raises(ValueError, match="Buoy is not served here"):
        faults.fail("get", Buoy)
    with pytest.raises(ValueError, match="status=418: there are 400, 401"):
        faults.fail("get", Boat, status=418)
    with pytest.raises(TypeError, match=r"did you mean 'namespace'"):
        faults.fail("get", Boat, namespac="a")  # type: ignore[call-arg]


def test_watches_are_broken_off_and_may_go_on(tested: Harbour) -> None:
    client = tested.client
    with client.watch(BOATS) as boats, client.watch(BUOYS) as buoys:
        made = client.post(BOATS, boat("a")).json
        assert boats.next()[1]["metadata"]["name"] == "a"
        assert tested.faults.cut_watches(Boat) == 1
        with pytest.raises((EOFError, ConnectionError, OSError)):
            boats.next()
        client.post(BUOYS, boat("a"))
        assert buoys.next()[0] == "ADDED"
    client.post(BOATS, boat("b"))
    with client.watch(f"{BOATS}?resourceVersion={made['metadata']['resourceVersion']}") as again:
        assert again.next()[1]["metadata"]["name"] == "b"


def test_old_versions_are_forgotten_until_one_lists_again(tested: Harbour) -> None:
    client = tested.client
    old = client.post(BOATS, boat("a")).json["metadata"]["resourceVersion"]
    for name in ("b", "c"):
        client.post(BOATS, boat(name))
    token = client.get(f"{BOATS}?limit=1").json["metadata"]["continue"]
    tested.faults.expire(Boat)
    refused = client.get(f"{BOATS}?watch=1&resourceVersion={old}")
    assert (refused.status, refused.json["reason"]) == (410, "Expired")
    assert client.get(f"{BOATS}?limit=1&continue={token}").status == 410
    now = client.get(BOATS).json["metadata"]["resourceVersion"]
    with client.watch(f"{BOATS}?resourceVersion={now}") as events:
        client.post(BOATS, boat("d"))
        assert events.next()[1]["metadata"]["name"] == "d"
    assert [one.what for one in tested.faults.injected] == ["expired", "expired"]


def test_a_server_is_away_for_a_while() -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with InMemory(APIServer(serve=[Boat]), clock=clock) as api:
            async with api.watch(BOATS) as events:
                api.faults.away(seconds=30)
                with pytest.raises(EOFError):
                    await events.next()
            assert (await api.get(BOATS)).headers["retry-after"] == "1"
            assert [(await api.get(path)).status for path in ("/apis", "/readyz")] == [503, 503]
            api.faults.fail("get", times=None)
            clock.advance(29)
            assert (await api.get(BOATS)).status == 503
            clock.advance(2)
            assert [(await api.get(path)).status for path in (BOATS, "/apis", "/readyz")] == [200, 200, 200]

    asyncio.run(run())


def test_a_slow_server_answers_when_its_clock_says_so() -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with InMemory(APIServer(serve=[Boat]), clock=clock) as api:
            api.faults.slow("create", Boat, by_s=5, times=1)
            making = asyncio.ensure_future(api.post(BOATS, boat("a")))
            await clock.run(4)
            assert not making.done()
            await clock.run(2)
            assert (await making).status == 201
            assert (await api.post(BOATS, boat("b"))).status == 201

    asyncio.run(run())


class Measuring(Controller[Boat]):
    """Writes what an operator would."""

    async def reconcile(self, key: ObjectKey) -> None:
        await self.client.patch(Boat, key.name, {"length": 5}, namespace=key.namespace)


@pytest.mark.parametrize("inside", [True, False], ids=["in the server", "beside it"])
def test_an_operator_comes_through(inside: bool) -> None:
    async def run() -> None:
        clock = VirtualClock()
        server = APIServer(serve=[Boat], controllers=[Measuring()] if inside else [])
        async with InMemory(server, clock=clock) as api:
            client = api.client()
            api.faults.fail("patch", Boat, status=500, times=6)
            await client.create(Boat(metadata={"name": "a", "namespace": "default"}))  # type: ignore[arg-type]
            if inside:
                await clock.run(120)
            else:
                async with ControllerGroup([Measuring()]).running(client, clock) as running:
                    await running.idle()
                    await clock.run(120)
            assert (await client.get(Boat, "a", namespace="default")).length == 5
            assert len(api.faults.injected) == 6

    asyncio.run(run())


def test_the_control_planes_own_code_meets_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with InMemory(ControlPlane(), clock=clock) as api:
            maps = "/api/v1/namespaces/{}/configmaps"
            api.faults.fail("*", ConfigMap, times=None)
            api.faults.fail("*", "v1/ServiceAccount", times=None)
            await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
            await clock.run(60)
            assert (await api.get("/api/v1/namespaces/a/serviceaccounts/default")).status == 500
            assert (await api.post(maps.format("a"), {"metadata": {"name": "b"}})).status == 500
            client = api.client().using(retries=RetryPolicy(retries=0))
            with pytest.raises(errors.StatusError):
                await client.get("v1/ConfigMap", "b", namespace="a")
            api.faults.clear()
            assert (await api.get("/api/v1/namespaces/a/serviceaccounts/default")).status == 200
            assert {one.user for one in api.faults.injected} == {"admin", "system:apiserver"}
            assert len(api.faults.injected) == 3

    asyncio.run(run())
    assert "failed" not in json.dumps([one.getMessage() for one in caplog.records])
