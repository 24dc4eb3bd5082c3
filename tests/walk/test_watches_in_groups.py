"""Watches that aren't behind are told together: each what it selects, in order, while others come and go."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from walk_kit import BOATS, BOATS_V1, boat, fleet, made, path, walk

from oarlock.storage.cache.entry import CacheEvent

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
HERE = BOATS_V1
EVERYWHERE = path("boats", version="v1", namespace="")


def told(events: Any) -> list[tuple[str, str]]:
    return [(kind, tree["metadata"]["name"]) for kind, tree in events.pending()]


async def changed(api: Any, name: str, body: Any) -> None:
    answer = await api.patch(f"{BOATS}/{name}", body)
    assert answer.status == 200, answer


@walk
async def test_an_object_that_changes_the_value_watched_for_leaves_one_watch_and_enters_another():
    api, _ = fleet()
    async with api, AsyncExitStack() as stack:

        async def watch(query: str) -> Any:
            return await stack.enter_async_context(api.watch(HERE + query))

        labels = [await watch(f"?labelSelector=l%3D{n}") for n in range(3)]
        fields = [await watch(f"?fieldSelector=spec.harbour%3D{n}") for n in range(3)]
        several = await watch("?labelSelector=l+in+(0,2)")
        absent = await watch("?labelSelector=!l")
        both = await watch("?labelSelector=l%3D1&fieldSelector=spec.harbour%3D1")
        await made(api, BOATS, boat("a", port="0", labels={"l": "0"}))
        await changed(api, "a", {"metadata": {"labels": {"l": "1"}}, "spec": {"port": "1"}})
        await changed(api, "a", {"metadata": {"labels": {"l": "2"}}})
        await changed(api, "a", {"metadata": {"labels": {"l": None}}, "spec": {"port": "2"}})
        await api.delete(BOATS + "/a")
        came_and_went = [("ADDED", "a"), ("DELETED", "a")]
        assert [told(events) for events in labels] == [came_and_went] * 3
        changed_within = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
        assert [told(events) for events in fields] == [came_and_went, changed_within, came_and_went]
        assert told(several) == came_and_went * 2
        assert told(absent) == came_and_went
        assert told(both) == came_and_went


@walk
async def test_an_event_is_tested_only_for_watches_whose_value_it_has_or_had():
    api, _ = fleet()
    async with api, AsyncExitStack() as stack:
        queries = [f"?labelSelector=l%3D{n}" for n in range(50)]
        queries += [f"?fieldSelector=spec.harbour%3D{n}" for n in range(50)]
        queries += [f"?fieldSelector=metadata.name%3Dn{n}" for n in range(50)]
        for query in queries:
            await stack.enter_async_context(api.watch(HERE + query))
        await stack.enter_async_context(api.watch(EVERYWHERE + "?labelSelector=!m"))
        ((resource, groups),) = api.parts.resources.router.watches.groups.items()
        events: list[CacheEvent] = []
        resource.cache.subscribe(resource.watch_cache.rev, events.extend, lambda error: None)
        await made(api, BOATS, boat("n7", port="8", labels={"l": "9"}))
        await changed(api, "n7", {"metadata": {"labels": {"l": "10"}}, "spec": {"port": "elsewhere"}})
        await made(api, BOATS, boat("other", port="far", labels={"m": ""}))
        assert [len(groups.concerned(event)) for event in events] == [4, 5, 1]


@walk
async def test_watches_that_begin_and_end_between_events_get_what_came_in_their_time():
    api, _ = fleet()
    async with api:
        async with AsyncExitStack() as stack:
            watches = []
            for n in range(10):
                watches.append(await stack.enter_async_context(api.watch(f"{HERE}?resourceVersion=0")))
                await made(api, BOATS, boat(f"b{n}"))
                if n == 4:
                    async with api.watch(HERE) as short:
                        assert [await short.next() for _ in range(5)]
            every = [("ADDED", f"b{n}") for n in range(10)]
            for events in watches:
                came = [await events.next() for _ in every]
                assert [(kind, tree["metadata"]["name"]) for kind, tree in came] == every
            assert api.parts.resources.router.watches.groups
        assert not api.parts.resources.router.watches.groups


@walk
async def test_watches_in_other_forms_get_theirs():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat("a"))
        async with (
            api.watch(HERE) as plain,
            api.watch(HERE, accept=TABLE) as tables,
            api.watch(HERE, accept=TABLE) as others,
            api.watch(BOATS) as converted,
        ):
            await made(api, BOATS, boat("b"))
            both = [("ADDED", "a"), ("ADDED", "b")]
            assert told(plain) == told(converted) == both
            for events in (tables, others):
                (_, first), (_, second) = events.pending()
                assert first["columnDefinitions"]
                assert not second.get("columnDefinitions")
                assert [row["object"]["metadata"]["name"] for row in (*first["rows"], *second["rows"])] == ["a", "b"]
