"""Selectors of lists, watches and deletions: too many terms are refused, and as many as are allowed cost little."""

from __future__ import annotations

import pytest
from walk_kit import BOATS, CRATES, boat, failure, fleet, made, walk

from oarlock import APIServer, Context, ObjectMeta, Resource, VirtualCollection
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

GULLS = "/apis/walk.example.com/v1/gulls"


class Gull(Resource, group="walk.example.com", version="v1", scope="Cluster", selectable=[".colour"]):
    """A bird."""

    colour: str = ""


class Gulls(VirtualCollection[Gull]):
    """Always the same ones."""

    async def list(self, ctx: Context) -> list[Gull]:
        return [Gull(metadata=ObjectMeta(name=f"g{i}"), colour="grey" if i % 2 else "white") for i in range(200)]


REFUSED = [
    ("labelSelector=" + ",".join(["x=y"] * 1001), "the label selector has more than 1000 requirements"),
    ("labelSelector=" + ",".join(f"!k{i}" for i in range(1001)), "the label selector has more than 1000 requirements"),
    ("labelSelector=x=" + "y" * 100_000, "the label selector has 100002 characters, at most 65536 are allowed"),
    ("labelSelector=x+in+(" + ",".join(["yy"] * 50_000) + ")", "characters, at most 65536 are allowed"),
    ("fieldSelector=" + ",".join(["metadata.name!=y"] * 1001), "the field selector has more than 1000 requirements"),
    ("fieldSelector=metadata.name=" + "y" * 100_000, "the field selector has 100014 characters, at most 65536"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
@walk
async def test_more_than_anybody_needs_is_refused(query: str, message: str) -> None:
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        for path in (BOATS, CRATES):
            for answer in (
                await api.get(f"{path}?{query}"),
                await api.get(f"{path}?{query}&limit=1"),
                await api.get(f"{path}?watch=1&{query}"),
                await api.delete(f"{path}?{query}"),
            ):
                code, reason, text = failure(answer)
                assert (code, reason) == (400, "BadRequest")
                assert message in text
        assert (await api.get(f"{BOATS}/a")).status == 200
    async with InMemory(APIServer(serve=[Gulls()]), clock=VirtualClock()) as api:
        code, _, text = failure(await api.get(f"{GULLS}?{query}"))
        assert code == 400
        assert message in text


@walk
async def test_as_many_as_are_allowed_select_as_they_should() -> None:
    api, _ = fleet()
    async with api:
        for name in "abc":
            await made(api, BOATS, boat(name, labels={"l": name, "x": "y"}, port=name))
        unlike = ",".join(f"l!=v{i}" for i in range(998))
        for query, names in (
            (f"labelSelector={unlike},l!=b,x=y", ["a", "c"]),
            ("labelSelector=l+in+(" + ",".join(f"v{i}" for i in range(9000)) + ",c)", ["c"]),
            ("labelSelector=" + ",".join(f"!k{i}" for i in range(1000)), ["a", "b", "c"]),
            ("labelSelector=" + ",".join(f"k{i}" for i in range(1000)), []),
            ("fieldSelector=spec.port!=b," + ",".join(f"metadata.name!=n{i}" for i in range(998)), ["a", "c"]),
            ("fieldSelector=metadata.name=a,metadata.name=b", []),
        ):
            for page in ("", "&limit=10"):
                answer = await api.get(f"{BOATS}?{query}{page}")
                assert answer.status == 200, answer
                assert [item["metadata"]["name"] for item in answer.json["items"]] == names
            async with api.watch(f"{BOATS}?watch=1&{query}") as events:
                for name in names:
                    kind, tree = await events.next()
                    assert (kind, tree["metadata"]["name"]) == ("ADDED", name)
                assert events.pending() == []
        assert len((await api.delete(f"{BOATS}?labelSelector={unlike},l!=b,x=y")).json["items"]) == 2
        assert [item["metadata"]["name"] for item in (await api.get(BOATS)).json["items"]] == ["b"]
    async with InMemory(APIServer(serve=[Gulls()]), clock=VirtualClock()) as api:
        many = ",".join(f"metadata.name!=n{i}" for i in range(999))
        answer = await api.get(f"{GULLS}?fieldSelector=colour=grey,{many}")
        assert len(answer.json["items"]) == 100
