"""DELETE of one and of many: finalizers, preconditions, policies, what is answered and what watchers see."""

from __future__ import annotations

import json
from typing import Any

from walk_kit import BOATS, PORTS, TICKETS, boat, causes, failure, fleet, key, made, path, walk


@walk
async def test_what_is_gone_is_answered_with_a_status_that_names_it():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        answer = await api.delete(BOATS + "/a")
        assert answer.status == 200
        assert answer.json == {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": "a", "group": "walk.example.com", "kind": "boats", "uid": tree["metadata"]["uid"],
            },
        }  # fmt: skip
        assert failure(await api.delete(BOATS + "/a"))[0:2] == (404, "NotFound")
        ticket = await made(api, TICKETS, {"metadata": {"name": "t"}, "seat": "1"})
        assert (await api.delete(TICKETS + "/t")).json == ticket


@walk
async def test_a_finalizer_keeps_the_object_until_it_is_removed():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat(finalizers=["x.io/f", "x.io/g"]))
        rev = tree["metadata"]["resourceVersion"]
        async with api.watch(BOATS + "?resourceVersion=" + rev) as events:
            marked = (await api.delete(BOATS + "/a")).json
            assert marked["kind"] == "Boat"
            assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
            assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
            assert marked["metadata"]["generation"] == 2
            api.clock.advance(5)  # type: ignore[attr-defined]
            assert (await api.delete(BOATS + "/a")).json == marked
            fewer = (await api.patch(BOATS + "/a", {"metadata": {"finalizers": ["x.io/g"]}})).json
            assert fewer["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
            kept = (await api.patch(BOATS + "/a", {"metadata": {"deletionTimestamp": None}})).json
            assert kept == fewer
            dry = await api.patch(BOATS + "/a?dryRun=All", {"metadata": {"finalizers": None}})
            assert dry.status == 200
            last = (await api.patch(BOATS + "/a", {"metadata": {"finalizers": None}})).json
            assert "finalizers" not in last["metadata"]
            assert (await api.get(BOATS + "/a")).status == 404
            seen = events.pending()
        assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
        gone = seen[-1][1]["metadata"]
        assert int(gone["resourceVersion"]) > int(fewer["metadata"]["resourceVersion"])
        assert gone["finalizers"] == ["x.io/g"]


@walk
async def test_preconditions():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        uid, rev = tree["metadata"]["uid"], tree["metadata"]["resourceVersion"]
        answer = await api.delete(BOATS + "/a", {"preconditions": {"uid": "other"}})
        assert failure(answer) == (
            409, "Conflict",
            f'Operation cannot be fulfilled on Boat.walk.example.com "a": the UID in the precondition (other) does '
            f"not match the UID in record ({uid}). The object might have been deleted and then recreated",
        )  # fmt: skip
        answer = await api.delete(BOATS + "/a", {"preconditions": {"resourceVersion": "1"}})
        assert "The object might have been modified" in failure(answer)[2]
        good = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid, "resourceVersion": rev}}
        assert (await api.delete(BOATS + "/a", good)).status == 200


@walk
async def test_a_dry_run_deletes_nothing():
    api, backend = fleet()
    async with api:
        await made(api, BOATS, boat())
        await made(api, BOATS, boat("f", finalizers=["x.io/f"]))
        before = await backend.current_rev()
        assert (await api.delete(BOATS + "/a?dryRun=All")).json["status"] == "Success"
        marked = (await api.delete(BOATS + "/f", {"dryRun": ["All"]})).json
        assert marked["metadata"]["deletionTimestamp"]
        many = await api.delete(BOATS + "?dryRun=All")
        assert len(many.json["items"]) == 2
        assert await backend.current_rev() == before
        assert (await api.get(BOATS + "/f")).json["metadata"].get("deletionTimestamp") is None


@walk
async def test_options_in_a_body_make_those_of_the_query_count_for_nothing():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        assert (await api.delete(BOATS + "/a?dryRun=All", {})).status == 200
        assert (await api.get(BOATS + "/a")).status == 404


@walk
async def test_bad_options():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        for body in (
            {"propagationPolicy": "Sideways"},
            {"propagationPolicy": "Background", "orphanDependents": False},
            {"dryRun": ["Some"]},
        ):
            answer = await api.delete(BOATS + "/a", body)
            code, reason, why = failure(answer)
            assert (code, reason) == (422, "Invalid")
            assert why.startswith('DeleteOptions.meta.k8s.io "" is invalid: ')
        for wrong in ({"gracePeriodSeconds": "x"}, {"preconditions": []}, {"kind": "Boat"}, [], "x"):
            assert (await api.delete(BOATS + "/a", wrong)).status in (400, 500), wrong
        for other in (True, False, 0, [], {}):
            for key in ("kind", "apiVersion"):
                assert (await api.delete(BOATS + "/a", {key: other})).status == 400, (key, other)
                assert (await api.delete(BOATS, {key: other})).status == 400, (key, other)
        assert (await api.delete(BOATS + "/a", b"\x00", content_type="text/x")).status == 415
        assert (await api.delete(BOATS + "/a?gracePeriodSeconds=-1")).status == 200


@walk
async def test_without_a_garbage_collector_foreground_and_orphan_are_refused():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        for policy in ("Foreground", "Orphan"):
            answer = await api.delete(BOATS + "/a", {"propagationPolicy": policy})
            assert causes(answer) == ["propagationPolicy"]
            assert "no garbage collector" in failure(answer)[2]
        assert causes(await api.delete(BOATS + "/a?orphanDependents=true")) == ["orphanDependents"]
        assert (await api.delete(BOATS + "/a", {"propagationPolicy": "Background"})).status == 200


@walk
async def test_with_a_garbage_collector_elsewhere_its_finalizers_are_left():
    api, _ = fleet(garbage_collection="external")
    async with api:
        for name in "abcd":
            await made(api, BOATS, boat(name))

        async def finalizers(name: str, body: Any) -> Any:
            return (await api.delete(f"{BOATS}/{name}", body)).json["metadata"].get("finalizers")

        assert await finalizers("a", {"propagationPolicy": "Foreground"}) == ["foregroundDeletion"]
        assert await finalizers("b", {"propagationPolicy": "Orphan"}) == ["orphan"]
        assert await finalizers("c", {"orphanDependents": True}) == ["orphan"]
        assert await finalizers("a", {}) == ["foregroundDeletion"]
        assert await finalizers("a", {"propagationPolicy": "Orphan"}) == ["orphan"]
        assert (await api.delete(BOATS + "/a", {"propagationPolicy": "Background"})).json["status"] == "Success"
        assert (await api.delete(BOATS + "/d")).json["status"] == "Success"


@walk
async def test_a_delete_that_lost_a_race_looks_again():
    api, backend = fleet()
    async with api:
        await made(api, BOATS, boat())
        where, real, lost = key("boats", "default", "a"), backend.delete, []

        async def delete(key: str, *, expect: int) -> Any:
            if key == where and not lost:
                lost.append(key)
                kv, _ = await backend.get(key)
                tree = json.loads(kv.value)
                tree["metadata"]["finalizers"] = ["x.io/late"]
                await backend.put(key, json.dumps(tree).encode(), expect=kv.mod_rev)
            return await real(key, expect=expect)

        backend.delete = delete
        answer = await api.delete(BOATS + "/a")
        assert answer.json["metadata"]["finalizers"] == ["x.io/late"]
        assert answer.json["metadata"]["deletionTimestamp"]


@walk
async def test_a_collection_is_deleted_as_far_as_it_is_selected():
    api, _ = fleet()
    async with api:
        trees = [await made(api, BOATS, boat(name, labels={"l": name}, port=name)) for name in "abcd"]
        await made(api, path("boats", namespace="other"), boat("e"))
        answer = await api.delete(BOATS + "?labelSelector=l=a")
        assert answer.json["kind"] == "BoatList"
        assert [i["metadata"] for i in answer.json["items"]] == [trees[0]["metadata"]]
        await api.delete(BOATS + "?fieldSelector=spec.port=b")
        names = [i["metadata"]["name"] for i in (await api.get(BOATS)).json["items"]]
        assert names == ["c", "d"]
        wrong = {"preconditions": {"uid": "nobody"}}
        assert failure(await api.delete(BOATS, wrong))[0] == 409
        limited = await api.delete(BOATS + "?limit=1")
        assert [i["metadata"]["name"] for i in limited.json["items"]] == ["c"]
        await api.delete(BOATS)
        everywhere = (await api.get(path("boats", namespace=""))).json["items"]
        assert [i["metadata"]["name"] for i in everywhere] == ["e"]
        assert (await api.delete(path("boats", namespace=""))).status == 405
        assert (await api.delete(BOATS + "?fieldSelector=spec.nothing=b")).status == 400
        assert (await api.delete(BOATS + "?labelSelector=a+in+(")).status == 400


@walk
async def test_a_collection_of_the_cluster():
    api, _ = fleet()
    async with api:
        for name in "ab":
            await made(api, PORTS, {"metadata": {"name": name, "finalizers": ["x.io/f"] if name == "a" else []}})
        answer = await api.delete(PORTS)
        assert len(answer.json["items"]) == 2
        left = (await api.get(PORTS)).json["items"]
        assert [i["metadata"]["name"] for i in left] == ["a"]
        assert left[0]["metadata"]["deletionTimestamp"]


@walk
async def test_what_has_a_time_to_live_vanishes_and_a_write_prolongs_it():
    api, backend = fleet()
    async with api:
        await made(api, TICKETS, {"metadata": {"name": "t"}, "seat": "1"})
        rev = (await api.get(TICKETS)).json["metadata"]["resourceVersion"]
        async with api.watch(TICKETS + "?resourceVersion=" + rev) as events:
            api.clock.advance(50)  # type: ignore[attr-defined]
            await api.put(TICKETS + "/t", {"metadata": {"name": "t"}, "seat": "2"})
            api.clock.advance(50)  # type: ignore[attr-defined]
            assert backend.reap() == 0
            api.clock.advance(11)  # type: ignore[attr-defined]
            assert backend.reap() == 1
            assert (await api.get(TICKETS + "/t")).status == 404
            assert [kind for kind, _ in events.pending()] == ["MODIFIED", "DELETED"]
