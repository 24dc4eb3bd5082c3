"""Watches: where they begin, what they tell, in which form, and how they end."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest
from walk_kit import ALL_BOATS, BOATS, BOATS_V1, PORTS, boat, failure, fleet, made, path, walk

from oarlock.testing.server import Events

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
INITIAL_END = {"k8s.io/initial-events-end": "true"}


def said(events: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(kind, tree["metadata"].get("name", "")) for kind, tree in events]


async def patch(api: Any, name: str, body: Any) -> Any:
    answer = await api.patch(f"{BOATS}/{name}", body)
    assert answer.status == 200, answer
    return answer.json


@walk
async def test_without_a_version_what_is_there_comes_first():
    api, _ = fleet()
    async with api:
        for name in "ba":
            await made(api, BOATS, boat(name))
        for query in ("", "?resourceVersion=0"):
            async with api.watch(BOATS + query) as events:
                assert said([await events.next() for _ in range(2)]) == [("ADDED", "a"), ("ADDED", "b")]
        async with api.watch(BOATS) as events:
            await made(api, BOATS, boat("c"))
            await patch(api, "c", {"spec": {"port": "y"}})
            await api.delete(BOATS + "/c")
            seen = said([await events.next() for _ in range(5)])
            assert seen[2:] == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]


@walk
async def test_from_a_version_only_what_came_after():
    api, _ = fleet()
    async with api:
        first = await made(api, BOATS, boat("a"))
        await made(api, PORTS, {"metadata": {"name": "p"}})
        second = await made(api, BOATS, boat("b"))
        rev = first["metadata"]["resourceVersion"]
        async with api.watch(f"{BOATS}?resourceVersion={rev}") as events:
            assert events.pending() == [("ADDED", second)]
        future = int(second["metadata"]["resourceVersion"]) + 2
        async with api.watch(f"{BOATS}?resourceVersion={future}") as events:
            await made(api, BOATS, boat("c"))
            await made(api, BOATS, boat("d"))
            await made(api, BOATS, boat("e"))
            assert said(events.pending()) == [("ADDED", "e")]
        refused = await api.get(f"{BOATS}?watch=1&resourceVersion=x")
        assert failure(refused)[0:2] == (400, "BadRequest")


@walk
async def test_a_deletion_tells_the_object_as_it_was_at_the_deletions_revision():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat("a"))
        async with api.watch(f"{BOATS}?resourceVersion={tree['metadata']['resourceVersion']}") as events:
            await api.delete(BOATS + "/a")
            ((kind, gone),) = events.pending()
        assert kind == "DELETED"
        rev = int((await api.get(BOATS)).json["metadata"]["resourceVersion"])
        assert int(gone["metadata"]["resourceVersion"]) == rev
        assert {**gone, "metadata": {**gone["metadata"], "resourceVersion": "?"}} == {
            **tree, "metadata": {**tree["metadata"], "resourceVersion": "?"},
        }  # fmt: skip


@walk
async def test_the_end_of_the_initial_events():
    api, _ = fleet()
    asked = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with api:
        tree = await made(api, BOATS, boat("a"))
        rev = tree["metadata"]["resourceVersion"]
        for version in ("", "0", rev):
            async with api.watch(f"{BOATS}?{asked}&allowWatchBookmarks=true&resourceVersion={version}") as events:
                added, mark = events.pending()
                assert said([added]) == [("ADDED", "a")]
                assert mark == (
                    "BOOKMARK",
                    {
                        "apiVersion": "walk.example.com/v2", "kind": "Boat",
                        "metadata": {"resourceVersion": rev, "annotations": INITIAL_END},
                    },
                )  # fmt: skip
        async with api.watch(f"{BOATS}?{asked}") as events:
            assert said(events.pending()) == [("ADDED", "a")]
        async with api.watch(f"{BOATS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan") as events:
            assert events.pending() == []
            await made(api, BOATS, boat("b"))
            assert said(events.pending()) == [("ADDED", "b")]
        late = await api.get(f"{BOATS}?watch=1&{asked}&resourceVersion=999")
        assert failure(late)[0] == 504
        for query in ("sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", f"{asked[:-12]}Exact"):
            assert failure(await api.get(f"{BOATS}?watch=1&{query}"))[0] == 422


@walk
async def test_objects_come_into_a_selection_and_leave_it():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a", port="x"))
        async with (
            api.watch(BOATS + "?labelSelector=l=1") as by_label,
            api.watch(BOATS + "?fieldSelector=spec.port=y") as by_field,
            api.watch(BOATS_V1 + "?fieldSelector=spec.harbour=y") as old,
        ):
            await patch(api, "a", {"metadata": {"labels": {"l": "1"}}})
            inside = await patch(api, "a", {"spec": {"port": "y"}})
            outside = await patch(api, "a", {"metadata": {"labels": None}, "spec": {"port": "z"}})
            await api.delete(BOATS + "/a")
            labelled, fielded = by_label.pending(), by_field.pending()
            assert [kind for kind, _ in labelled] == ["ADDED", "MODIFIED", "DELETED"]
            assert [kind for kind, _ in fielded] == ["ADDED", "DELETED"]
            for events in (labelled, fielded):
                left = events[-1][1]
                assert left["spec"] == inside["spec"]
                assert left["metadata"]["labels"] == {"l": "1"}
                assert left["metadata"]["resourceVersion"] == outside["metadata"]["resourceVersion"]
            spoke = old.pending()
            assert [kind for kind, _ in spoke] == ["ADDED", "DELETED"]
            assert spoke[-1][1]["apiVersion"] == "walk.example.com/v1"
            assert spoke[-1][1]["spec"]["harbour"] == "y"
            assert spoke[-1][1]["metadata"] == fielded[-1][1]["metadata"]


@walk
async def test_one_namespace_one_name():
    api, _ = fleet()
    other = path("boats", namespace="other")
    async with (
        api,
        api.watch(BOATS) as here,
        api.watch(ALL_BOATS) as everywhere,
        api.watch(BOATS + "?fieldSelector=metadata.name=b") as named,
        api.watch(BOATS.replace("/v2/", "/v2/watch/") + "/b") as legacy,
        api.watch(ALL_BOATS + "?fieldSelector=metadata.namespace=other") as there,
    ):
        await made(api, BOATS, boat("a"))
        await made(api, BOATS, boat("b"))
        await made(api, other, boat("b"))
        assert said(here.pending()) == [("ADDED", "a"), ("ADDED", "b")]
        assert len(everywhere.pending()) == 3
        assert said(named.pending()) == [("ADDED", "b")]
        assert said(legacy.pending()) == [("ADDED", "b")]
        assert [tree["metadata"]["namespace"] for _, tree in there.pending()] == ["other"]


@walk
async def test_a_version_that_is_too_old_is_an_event_not_an_answer():
    api, backend = fleet()
    await backend.start()
    for rev in range(3):
        await backend.put("/registry/other", b"{}", expect=rev)
    await backend.compact(2)
    async with api:
        answer = await api.get(BOATS + "?watch=1&resourceVersion=1")
        assert answer.status == 200
        event = answer.json
        assert event["type"] == "ERROR"
        assert event["object"]["code"] == 410
        assert event["object"]["reason"] == "Expired"
        assert event["object"]["message"].startswith("too old resource version: 1 (")


@walk
async def test_bookmarks_tell_the_revision_now_and_then_and_before_the_end():
    api, _ = fleet()
    async with api:
        async with api.watch(BOATS + "?allowWatchBookmarks=true&timeoutSeconds=200") as events:
            assert (await events.next())[1]["metadata"]["annotations"] == INITIAL_END
            await made(api, PORTS, {"metadata": {"name": "p"}})
            rev = (await api.get(BOATS)).json["metadata"]["resourceVersion"]
            marks = [await events.next(timeout_s=1000) for _ in range(4)]
            assert [kind for kind, _ in marks] == ["BOOKMARK"] * 4
            with pytest.raises(EOFError):
                await events.next(timeout_s=1000)
            assert marks[0][1]["metadata"] == {"resourceVersion": rev}
        async with api.watch(BOATS + "?timeoutSeconds=200") as events:
            with pytest.raises(EOFError):
                await events.next(timeout_s=1000)


@walk
async def test_a_table_has_its_columns_once():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        async with (
            api.watch(BOATS + "?allowWatchBookmarks=true", accept=TABLE) as events,
            api.watch(BOATS, accept=TABLE) as second,
        ):
            await made(api, BOATS, boat("b"))
            await api.delete(BOATS + "/b")
            first, mark, added, deleted = [(await events.next())[1] for _ in range(4)]
            assert [c["name"] for c in first["columnDefinitions"]][:2] == ["Name", "Port"]
            assert first["rows"][0]["cells"][:2] == ["a", "x"]
            assert [t["columnDefinitions"] for t in (mark, added, deleted)] == [None, None, None]
            assert mark["rows"][0]["object"]["metadata"]["annotations"] == INITIAL_END
            assert added["rows"][0]["cells"][0] == "b"
            assert [await second.next() for _ in range(3)][1:] == [("ADDED", added), ("DELETED", deleted)]
        async with api.watch(BOATS + "?includeObject=None&resourceVersion=" + "1", accept=TABLE) as events:
            assert (await events.next())[1]["columnDefinitions"]
        assert (await api.get(BOATS + "?watch=1&includeObject=x", accept=TABLE)).status == 400


@walk
async def test_metadata_only():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a", labels={"l": "1"}))
        async with api.watch(BOATS + "?labelSelector=l=1", accept=METADATA) as events:
            await patch(api, "a", {"metadata": {"labels": {"l": "2"}}})
            seen = events.pending()
        assert [kind for kind, _ in seen] == ["ADDED", "DELETED"]
        for _, tree in seen:
            assert tree["kind"] == "PartialObjectMetadata"
            assert tree["metadata"]["labels"] == {"l": "1"}
            assert "spec" not in tree
        lists = METADATA.replace("Metadata;", "MetadataList;")
        assert (await api.get(BOATS + "?watch=1", accept=lists)).status == 406


@walk
async def test_another_version_than_the_stored_one():
    api, _ = fleet()
    small = path("boats", version="v1alpha1")
    async with api, api.watch(small) as events, api.watch(BOATS_V1) as stored:
        await made(api, BOATS, boat("a", tags=["t"]))
        await patch(api, "a", {"spec": {"port": "y"}})
        await api.delete(BOATS + "/a")
        seen = events.pending()
        assert [tree["spec"] for _, tree in seen] == [{"harbour": "x"}, {"harbour": "y"}, {"harbour": "y"}]
        assert {tree["apiVersion"] for _, tree in seen} == {"walk.example.com/v1alpha1"}
        revs = [tree["metadata"]["resourceVersion"] for _, tree in seen]
        assert revs == [tree["metadata"]["resourceVersion"] for _, tree in stored.pending()]
        assert revs == sorted(set(revs), key=int)


@walk
async def test_what_else_a_watch_may_be_asked():
    api, _ = fleet()
    async with api:
        for query in ("watch=", "watch=true", "watch=1&timeoutSeconds=1", "watch=1&timeoutSeconds=-5"):
            answer = await api.get(f"{BOATS}?{query}&timeoutSeconds=1")
            assert (answer.status, answer.body) == (200, b"")
        for query in ("watch=false", "watch=0"):
            assert (await api.get(f"{BOATS}?{query}")).json["kind"] == "BoatList"
        assert (await api.get(BOATS + "?watch=1&timeoutSeconds=x")).status == 400
        assert (await api.get(BOATS + "?watch=1&fieldSelector=spec.crew=1")).status == 400
        assert (await api.get(BOATS + "?watch=1", accept="text/html")).status == 406
        legacy = BOATS.replace("/v2/", "/v2/watch/") + "/a?fieldSelector=metadata.name="
        assert (await api.get(legacy + "b")).status == 400
        assert (await api.get(legacy + "a&timeoutSeconds=1")).status == 200


@walk
async def test_a_hundred_watches_get_the_same():
    api, _ = fleet()
    async with api:
        async with AsyncExitStack() as stack:
            watches = [await stack.enter_async_context(api.watch(BOATS)) for _ in range(100)]
            for i in range(20):
                await made(api, BOATS, boat(f"b{i}"))
            seen = [watch.pending() for watch in watches]
            assert all(one == seen[0] for one in seen)
            assert len(seen[0]) == 20
        assert not api.parts.resources.router.watches.open


@walk
async def test_a_peer_that_is_behind_is_waited_for_and_misses_nothing():
    api, _ = fleet()
    async with api:
        for i in range(50):
            await made(api, BOATS, boat(f"b{i:02}"))
        response = await api._send("GET", BOATS + "?watch=1", None, {})
        events = Events()
        events.buffered = 64 * 1024 * 1024
        assert response.stream is not None
        response.stream(events)
        early = events.pending()
        assert early == []
        await patch(api, "b49", {"spec": {"crew": 2}})
        await api.delete(BOATS + "/b00")
        assert events.pending() == []
        events.buffered = 0
        seen = [await events.next() for _ in range(52)]
        assert [tree["metadata"]["name"] for _, tree in seen[:50]] == [f"b{i:02}" for i in range(50)]
        assert said(seen[50:]) == [("MODIFIED", "b49"), ("DELETED", "b00")]
        events.close()
        assert not api.parts.resources.router.watches.open
