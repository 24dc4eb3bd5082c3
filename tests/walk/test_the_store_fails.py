"""When the store doesn't answer, or doesn't say what became of a write."""

from __future__ import annotations

import asyncio
from typing import Any

from walk_kit import BOATS, boat, failure, fleet, made, walk

from oarlock.storage.backend import OutcomeUnknown, TooLarge, Unavailable


def failing(backend: Any, error: Exception, *, after: bool) -> Any:
    real = backend.put

    async def put(key: str, value: bytes, **rest: Any) -> Any:
        if after:
            await real(key, value, **rest)
        raise error

    backend.put = put
    return real


@walk
async def test_a_create_nobody_heard_back_from_is_looked_for_by_its_uid():
    api, backend = fleet()
    async with api:
        failing(backend, OutcomeUnknown("lost"), after=True)
        answer = await api.post(BOATS, boat("a"))
        assert answer.status == 201
        assert (await api.get(BOATS + "/a")).json == answer.json


@walk
async def test_an_outcome_nobody_knows_is_an_error_that_says_try_again():
    api, backend = fleet()
    async with api:
        real = failing(backend, OutcomeUnknown("lost"), after=False)
        for answer in (await api.post(BOATS, boat("a")),):
            assert failure(answer)[0:2] == (500, "ServerTimeout")
            assert answer.headers["retry-after"] == "2"
            assert failure(answer)[2].endswith("Its outcome is unknown: it may have been executed.")
            assert answer.json["details"]["causes"][0]["reason"] == "UnknownOutcome"
        backend.put = real
        await made(api, BOATS, boat("a"))
        failing(backend, OutcomeUnknown("lost"), after=True)
        assert failure(await api.patch(BOATS + "/a", {"spec": {"crew": 2}}))[0:2] == (500, "ServerTimeout")
        assert (await api.get(BOATS + "/a")).json["spec"]["crew"] == 2


@walk
async def test_a_store_that_is_away_is_503_and_reads_go_on():
    api, backend = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        real = failing(backend, Unavailable("disk full"), after=False)
        for answer in (await api.post(BOATS, boat("b")), await api.patch(BOATS + "/a", {"spec": {"crew": 2}})):
            assert failure(answer)[0:2] == (503, "ServiceUnavailable")
            assert "disk full" in failure(answer)[2]
            assert answer.headers["retry-after"]
        assert (await api.get(BOATS + "/a")).status == 200
        failing(backend, TooLarge(9, 8), after=False)
        assert failure(await api.post(BOATS, boat("b")))[0:2] == (413, "RequestEntityTooLarge")
        backend.put = real
        await made(api, BOATS, boat("b"))


@walk
async def test_many_writers_of_one_object_all_succeed():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        patches = [api.patch(BOATS + "/a", {"metadata": {"labels": {f"l{i}": "x"}}}) for i in range(50)]
        assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
        assert len((await api.get(BOATS + "/a")).json["metadata"]["labels"]) == 50
        creates = await asyncio.gather(*[api.post(BOATS, boat("same")) for _ in range(20)])
        assert sorted(answer.status for answer in creates) == [201] + [409] * 19
        deletes = await asyncio.gather(*[api.delete(BOATS + "/same") for _ in range(20)])
        assert sorted(answer.status for answer in deletes) == [200] + [404] * 19
