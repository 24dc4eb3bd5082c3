"""Health probes, with the texts and headers recorded from a Go server."""

from __future__ import annotations

import asyncio
import io
import logging
from dataclasses import replace
from typing import Any

import pytest

from oarlock.endpoints.http import Request, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Peer
from oarlock.server.pages.health import Health, HealthConditions, always, checks_of, in_time

pytestmark = pytest.mark.anyio

WELL = HealthConditions(
    store=always,
    cache=always,
    integrity=always,
    served=lambda: True,
    shutting_down=lambda: False,
    started={"start-sample-server-informers": lambda: True},
)
OURS = ("storage-integrity", "poststarthook/serve-catalog")
NOT_OURS = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/max-in-flight-filter",
    "poststarthook/storage-object-count-tracker-hook",
)
"""Parts of a Go server's start that have no counterpart."""


def without(names: tuple[str, ...], text: str) -> str:
    return "".join(line for line in text.splitlines(True) if line.partition("]")[2].split(" ")[0] not in names)


async def ask(conditions: HealthConditions, path: str) -> Response | None:
    async def body() -> bytes:
        return b""

    path, _, query = path.partition("?")
    request = Request("GET", path, query, {}, [], Peer("127.0.0.1", 1), body, 0.0)
    return await Health(checks_of(conditions)).respond(RequestState(request, clock=None))  # type: ignore[arg-type]


async def test_probes_answer_as_recorded(golden: list[dict[str, Any]]) -> None:
    compared = 0
    for exchange in golden:
        path = exchange["request"]["path"]
        if not path.startswith(("/healthz", "/livez", "/readyz")) or "response" not in exchange:
            continue
        want = exchange["response"]
        got = await ask(WELL, path)
        assert got is not None, path
        assert isinstance(got.body, bytes)
        assert got.status == want["status"], path
        assert without(OURS, got.body.decode()) == without(NOT_OURS, want["body"]), path
        sent = {k.lower(): v for k, v in want["headers"]}
        for name in ("content-type", "x-content-type-options"):
            assert dict(got.headers).get(name) == sent.get(name), (path, name)
        compared += 1
    assert compared >= 7


async def test_the_index_names_every_path_that_is_answered(golden: list[dict[str, Any]]) -> None:
    [index] = [e["response"]["body"] for e in golden if e["id"] == 54]
    paths = Health(checks_of(WELL)).paths
    assert all(f'"{path}"' in index for path in paths if not path.endswith(OURS))
    probes = [line.strip(' ",') for line in index.splitlines() if "/healthz" in line or "z/" in line]
    probes = [path for path in probes if path.startswith(("/healthz", "/livez", "/readyz"))]
    assert {path for path in probes if not path.endswith(NOT_OURS)} <= set(paths)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_short_answers(path: str) -> None:
    answer = await ask(WELL, path)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"ok")


async def test_leaving_fails_readyz_and_nothing_else() -> None:
    leaving = replace(WELL, shutting_down=lambda: True)
    answer = await ask(leaving, "/readyz")
    assert answer is not None
    assert answer.status == 500
    assert isinstance(answer.body, bytes)
    assert answer.body.endswith(b"[-]shutdown failed: reason withheld\nreadyz check failed\n")
    for path in ("/livez", "/healthz"):
        other = await ask(leaving, path)
        assert other is not None
        assert other.status == 200


async def test_a_failing_check_is_named_without_its_reason_unless_asked_for_alone() -> None:
    async def test() -> str:
        return "disk full"

    broken = replace(WELL, store=test)
    answer = await ask(broken, "/healthz")
    assert answer is not None
    assert isinstance(answer.body, bytes)
    assert answer.status == 500
    assert b"[-]etcd failed: reason withheld\n" in answer.body
    assert b"disk" not in answer.body
    alone = await ask(broken, "/healthz/etcd")
    assert alone is not None
    assert (alone.status, alone.body) == (500, b"internal server error: disk full\n")


async def test_an_excluded_check_is_not_run() -> None:
    async def explode() -> str:
        raise AssertionError("run")

    answer = await ask(replace(WELL, store=explode), "/livez?exclude=etcd&verbose")
    assert answer is not None
    assert answer.status == 200
    assert b"[+]etcd excluded: ok\n" in answer.body  # type: ignore[operator]


async def test_an_exclusion_that_matches_nothing_is_said() -> None:
    answer = await ask(WELL, "/readyz?verbose&exclude=nope&exclude=a%22b")
    assert answer is not None
    assert b'warn: some health checks cannot be excluded: no matches for "nope","a\\"b"\n' in answer.body  # type: ignore[operator]


@pytest.mark.parametrize("path", ["/healthz/nope", "/healthz/", "/livez/shutdown", "/readyz/etcd/", "/healthzz"])
async def test_what_is_no_check_is_somebody_elses(path: str) -> None:
    assert await ask(WELL, path) is None


async def test_a_check_that_fails_or_hangs_says_so() -> None:
    async def fail() -> None:
        raise OSError("no such file")

    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    assert await in_time(fail, 1)() == "no such file"
    assert await in_time(hang, 0.001)() == "no answer within 0.001 s"


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ({"served": lambda: False}, "poststarthook/serve-catalog"),
        ({"started": {"start-x-informers": lambda: False}}, "poststarthook/start-x-informers"),
        ({"shutting_down": lambda: True}, "shutdown"),
        ({"store": lambda: wrong()}, "etcd"),
        ({"cache": lambda: wrong()}, "informer-sync"),
        ({"integrity": lambda: wrong()}, "storage-integrity"),
    ],
)
async def test_each_check_tests_its_own_condition(state: dict[str, Any], name: str) -> None:
    answer = await ask(replace(WELL, **state), "/readyz")
    assert answer is not None
    assert isinstance(answer.body, bytes)
    failed = [line[3:].split(" ")[0] for line in answer.body.decode().splitlines() if line.startswith("[-]")]
    assert failed == ([name, "etcd-readiness"] if name == "etcd" else [name])


async def wrong() -> str:
    return "wrong"


async def test_the_log_fails_while_it_cannot_be_written() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    handler = logging.StreamHandler(Full())
    log = logging.getLogger("oarlock")
    log.addHandler(handler)
    try:
        answer = await ask(WELL, "/livez/log")
        assert answer is not None
        assert answer.status == 500
        assert isinstance(answer.body, bytes)
        assert b"No space left on device" in answer.body
    finally:
        log.removeHandler(handler)
    answer = await ask(WELL, "/livez/log")
    assert answer is not None
    assert answer.status == 200


async def test_checks_are_made_at_once() -> None:
    """A store that hangs costs one timeout, not one for each check."""
    together = asyncio.Barrier(3)

    async def test() -> str:
        await together.wait()
        return ""

    answer = await asyncio.wait_for(ask(replace(WELL, store=test, cache=test), "/readyz"), 60)
    assert answer is not None
    assert answer.status == 200
