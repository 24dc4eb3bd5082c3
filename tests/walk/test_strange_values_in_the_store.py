"""What others wrote to the store: values that aren't canonical, and values nobody can read."""

from __future__ import annotations

from typing import Any

import pytest
from walk_kit import ALL_BOATS, BOATS, BOATS_V1, CRATES, PORTS, boat, crate, failure, fleet, key, made, path, raw, walk

GOOD = {
    "name": "a",
    "namespace": "default",
    "uid": "u",
    "resourceVersion": "77",
    "labels": {"l": "1"},
    "annotations": {"n": "<&>"},
}


@walk
async def test_a_value_that_is_not_canonical_is_read_as_if_it_were():
    api, backend = fleet()
    await backend.start()
    value = raw("walk.example.com/v1", "Boat", metadata=GOOD, spec={"port": "ignored", "harbour": "é<"}, status={})
    await backend.put(key("boats", "default", "a"), value, expect=0)
    async with api:
        tree = (await api.get(BOATS_V1 + "/a")).json
        assert list(tree)[:3] == ["apiVersion", "kind", "metadata"]
        assert tree["metadata"]["resourceVersion"] != "77"
        assert tree["spec"]["harbour"] == "é<"
        listed = await api.get(BOATS_V1 + "?labelSelector=l")
        assert b"\\u003c\\u0026\\u003e" in listed.body
        assert (await api.get(BOATS + "?fieldSelector=spec.port=%C3%A9%3C")).json["items"][0]["metadata"]["name"] == "a"
        async with api.watch(BOATS_V1 + "?resourceVersion=" + tree["metadata"]["resourceVersion"]) as events:
            kv, _ = await backend.get(key("boats", "default", "a"))
            await backend.put(key("boats", "default", "a"), value + b"\n ", expect=kv.mod_rev)
            kind, seen = await events.next()
            assert kind == "MODIFIED"
            assert seen["spec"]["harbour"] == "é<"
        kept = await api.patch(BOATS + "/a", {"spec": {"crew": 3}})
        assert kept.status == 200


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff\x00", b"[]", b"null", b"{", b'{"metadata":[]}',
        b'{"apiVersion":"walk.example.com/v1","kind":"Boat"}',
        b'{"apiVersion":"walk.example.com/v9","kind":"Boat","metadata":{"name":"a"}}',
        b'{"apiVersion":"walk.example.com/v2","kind":"Boat","metadata":{"name":"a"},"spec":[]}',
        b'{"apiVersion":"walk.example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"a":1}}}',
        b'{"apiVersion":"walk.example.com/v1","kind":"Boat","metadata":{"name":"a","labels":[]}}',
    ],
)  # fmt: skip
def test_an_object_nobody_can_read_is_named_and_stops_nothing_else(value: bytes):
    @walk
    async def attempt() -> None:
        api, backend = fleet()
        await backend.start()
        where = key("boats", "default", "broken")
        await backend.put(where, value, expect=0)
        async with api:
            await made(api, BOATS, boat("fine", port="oslo"))
            await made(api, path("boats", namespace="other"), boat("fine"))
            await made(api, PORTS, {"metadata": {"name": "p"}})
            broken = [
                await api.get(BOATS + "/broken"), await api.get(BOATS), await api.get(ALL_BOATS),
                await api.get(BOATS + "?labelSelector=x"), await api.get(BOATS + "?fieldSelector=spec.port=x"),
                await api.get(BOATS + "?limit=1"), await api.get(BOATS + "?fieldSelector=metadata.name=broken"),
                await api.put(BOATS + "/broken", boat("broken")), await api.patch(BOATS + "/broken", {}),
                await api.delete(BOATS + "/broken"), await api.delete(BOATS),
                await api.get(BOATS, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
                await api.get(path("boats", "broken", version="v1alpha1")),
            ]  # fmt: skip
            for answer in broken:
                code, reason, why = failure(answer)
                assert (code, reason) == (500, "StorageReadError")
                assert "boats.walk.example.com" in why
                assert where in answer.json["details"]["causes"][0]["message"]
            assert (await api.post(BOATS, boat("broken"))).status == 409
            fine = [
                await api.get(BOATS + "/fine"), await api.get(path("boats", namespace="other")), await api.get(PORTS),
                await api.get(BOATS + "?fieldSelector=metadata.name=fine"),
                await api.get(ALL_BOATS + "?fieldSelector=metadata.namespace=other"),
                await api.patch(BOATS + "/fine", {"spec": {"crew": 3}}), await api.delete(BOATS + "/fine"),
            ]  # fmt: skip
            assert {answer.status for answer in fine} == {200}
            kv, _ = await backend.get(where)
            assert kv is not None
            assert kv.value == value

    attempt()


@walk
async def test_a_watch_that_meets_a_broken_object_says_so_and_ends():
    for query in ("", "?fieldSelector=spec.port=x", "?labelSelector=l=1"):
        api, backend = fleet()
        async with api:
            await made(api, BOATS, boat("a", labels={"l": "1"}))
            where = key("boats", "default", "a")
            async with api.watch(BOATS + query) as events, api.watch(PORTS) as ports:
                assert (await events.next())[0] == "ADDED"
                kv, _ = await backend.get(where)
                await backend.put(where, b"{", expect=kv.mod_rev)
                await made(api, PORTS, {"metadata": {"name": "p"}})
                kind, status = await events.next()
                assert kind == "ERROR"
                assert (status["code"], status["reason"]) == (500, "StorageReadError")
                assert where in status["message"]
                assert events.closed
                assert not ports.closed
            started = await api.get(BOATS + "?watch=1")
            assert started.json["type"] == "ERROR"


@walk
async def test_what_was_mended_is_whole_again_and_the_past_stays_broken():
    api, backend = fleet()
    async with api:
        tree = await made(api, BOATS, boat("a"))
        where = key("boats", "default", "a")
        good, _ = await backend.get(where)
        broken = await backend.put(where, b"{", expect=good.mod_rev)
        assert (await api.get(BOATS)).status == 500
        mended = await backend.put(where, good.value, expect=broken.rev)
        assert (await api.get(BOATS)).json["items"][0]["spec"] == tree["spec"]
        past = await api.get(f"{BOATS}?resourceVersion={broken.rev}&resourceVersionMatch=Exact")
        assert failure(past)[0:2] == (500, "StorageReadError")
        async with api.watch(f"{BOATS}?resourceVersion={broken.rev}&fieldSelector=spec.port=x") as events:
            kind, seen = await events.next()
            assert kind in ("ADDED", "MODIFIED")
            assert seen["metadata"]["resourceVersion"] == str(mended.rev)
        await backend.put(where, b"{", expect=mended.rev)
        async with api.watch(f"{BOATS}?resourceVersion={(await backend.current_rev())}") as events:
            kv, _ = await backend.get(where)
            await backend.delete(where, expect=kv.mod_rev)
            assert (await events.next())[0] in ("ERROR", "DELETED")
        assert (await api.get(BOATS)).json["items"] == []
        await made(api, BOATS, boat("a"))


@walk
async def test_keys_that_are_no_objects_are_no_harm():
    api, backend = fleet()
    await backend.start()
    for stray in (key("boats", "stray"), key("boats", "default", "a", "b"), key("boats", ""), "/registry/x", "/other"):
        await backend.put(stray, b"{}", expect=0)
    async with api:
        await made(api, PORTS, {"metadata": {"name": "p"}})
        assert (await api.get(PORTS)).status == 200
        assert (await api.get(BOATS + "/a")).status == 404
        assert (await api.get(ALL_BOATS)).status == 500
        assert (await api.get(path("boats", namespace="quiet"))).json["items"] == []


@walk
async def test_numbers_and_texts_of_custom_resources_stay_as_they_are():
    api, _ = fleet()
    async with api:
        free: dict[str, Any] = {"big": 2**53 + 1, "f": 1.5, "neg": -1, "uni": "\u2028é😀", "n": None, "deep": [[{}]]}
        await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1, "free": free}})
        assert (await api.get(CRATES + "/c")).json["spec"]["free"] == free
        rev = (await api.get(CRATES + "/c")).json["metadata"]["resourceVersion"]
        assert (await api.patch(CRATES + "/c", {"spec": {"size": 1}})).json["metadata"]["resourceVersion"] == rev
        assert crate().definition.typed is False
