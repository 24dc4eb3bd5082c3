"""PUT and PATCH: preconditions, what stays as it was, what counts as a change, lost races."""

from __future__ import annotations

import json
from typing import Any

import pytest
from walk_kit import (
    BOATS,
    BOATS_V1,
    CRATES,
    PORTS,
    TICKETS,
    Racing,
    boat,
    causes,
    failure,
    fleet,
    key,
    made,
    path,
    raw,
    walk,
)

JSON_PATCH = "application/json-patch+json"


async def changed(api: Any, where: str, tree: Any, **spec: Any) -> Any:
    answer = await api.put(where, {**tree, "spec": {**tree["spec"], **spec}})
    assert answer.status == 200, answer
    return answer.json


@walk
async def test_a_stale_put_conflicts_and_a_missing_version_is_invalid():
    api, _ = fleet()
    async with api:
        first = await made(api, BOATS, boat())
        second = await changed(api, BOATS + "/a", first, port="y")
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        why = (
            'Operation cannot be fulfilled on boats.walk.example.com "a": the object has been modified; please '
            "apply your changes to the latest version and try again"
        )
        assert failure(await api.put(BOATS + "/a", first)) == (409, "Conflict", why)
        missing = await api.put(BOATS + "/a", boat(port="z"))
        assert failure(missing) == (
            422, "Invalid",
            'boats.walk.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
            "for an update",
        )  # fmt: skip
        assert missing.json["details"]["kind"] == "boats"


@walk
async def test_a_put_without_version_overwrites_where_that_is_said():
    api, _ = fleet()
    async with api:
        await made(api, TICKETS, {"metadata": {"name": "t"}, "seat": "1"})
        answer = await api.put(TICKETS + "/t", {"metadata": {"name": "t"}, "seat": "2"})
        assert answer.json["seat"] == "2"


@walk
async def test_a_put_to_a_free_name_creates_where_that_is_said():
    api, _ = fleet()
    async with api:
        body = {"metadata": {"name": "t", "resourceVersion": "12"}, "seat": "1"}
        answer = await api.put(TICKETS + "/t", body)
        assert answer.status == 201
        assert answer.json["metadata"]["uid"]
        other = await api.put(TICKETS + "/u", body)
        assert failure(other)[0] == 400
        assert (await api.get(TICKETS)).json["items"] == [
            {k: v for k, v in answer.json.items() if k not in ("kind", "apiVersion")}
        ]
        named = {"metadata": {"name": "w", "uid": "u"}, "seat": "1"}
        assert failure(await api.put(TICKETS + "/w", named))[0:2] == (409, "Conflict")


@walk
async def test_a_put_to_a_free_name_is_404_once_the_body_is_right():
    api, _ = fleet()
    async with api:
        assert failure(await api.put(BOATS + "/zz", boat("zz")))[0:2] == (404, "NotFound")
        assert failure(await api.put(BOATS + "/zz", boat("a")))[0:2] == (400, "BadRequest")
        assert failure(await api.put(BOATS + "/zz", boat("zz", crew="x")))[0:2] == (400, "BadRequest")
        assert failure(await api.put(BOATS + "/zz/status", boat("zz")))[0:2] == (404, "NotFound")


@walk
async def test_the_body_is_the_object_the_url_names():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())

        async def put(**metadata: Any) -> tuple[int, str, str]:
            return failure(await api.put(BOATS + "/a", {**tree, "metadata": {**tree["metadata"], **metadata}}))

        assert await put(name="b") == (
            400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)",
        )  # fmt: skip
        assert (await put(name=""))[2] == (
            "the name of the object (a based on URL) was undeterminable: name must be provided"
        )
        assert (await put(namespace="other"))[2] == (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        code, _, why = await put(uid="x")
        assert code == 409
        assert "Precondition failed: UID in precondition: x, UID in object meta: " in why
        same = {**tree, "metadata": {**tree["metadata"], "namespace": ""}}
        assert (await api.put(BOATS + "/a", same)).json == tree
        patched = await api.patch(BOATS + "/a", {"metadata": {"uid": "x"}})
        assert causes(patched) == ["metadata.uid"]
        assert failure(await api.patch(BOATS + "/a", {"metadata": {"name": "b"}}))[0] == 400


@walk
async def test_an_update_that_changes_nothing_writes_nothing():
    api, backend = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        before = await backend.current_rev()
        async with api.watch(BOATS + "?resourceVersion=" + str(before)) as events:
            system = {**tree["metadata"], "creationTimestamp": None, "generation": 5, "selfLink": "x"}
            assert (await api.put(BOATS + "/a", {**tree, "metadata": system})).json == tree
            assert (await api.patch(BOATS + "/a", {})).json == tree
            assert (await api.patch(BOATS + "/a", {"spec": {"crew": None}})).json == tree
            assert (await api.patch(BOATS + "/a", [], JSON_PATCH)).json == tree
            old = (await api.get(BOATS_V1 + "/a")).json
            assert (await api.put(BOATS_V1 + "/a", old)).json == old
            assert events.pending() == []
        assert await backend.current_rev() == before


@walk
async def test_an_object_in_an_older_stored_version_is_written_even_when_nothing_changes():
    api, backend = fleet()
    await backend.start()
    metadata = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}
    value = raw("walk.example.com/v2", "Boat", metadata=metadata, spec={"port": "x", "crew": 1})
    await backend.put(key("boats", "default", "a"), value, expect=0)
    async with api:
        before = await backend.current_rev()
        tree = (await api.get(BOATS + "/a")).json
        assert tree["spec"] == {"port": "x", "crew": 1}
        answer = await api.put(BOATS + "/a", tree)
        assert int(answer.json["metadata"]["resourceVersion"]) > before
        kv, rev = await backend.get(key("boats", "default", "a"))
        assert kv is not None
        assert json.loads(kv.value)["apiVersion"] == "walk.example.com/v1"
        assert kv.value.startswith(b'{"apiVersion":"walk.example.com/v1","kind":"Boat","metadata":{')
        assert "generation" not in answer.json["metadata"]
        await api.put(BOATS + "/a", answer.json)
        assert await backend.current_rev() == rev


@walk
async def test_generation_counts_changes_of_what_is_wanted():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat())

        async def generation(patch: Any, where: str = BOATS + "/a") -> int:
            answer = await api.patch(where, patch)
            assert answer.status == 200, answer
            found: int = answer.json["metadata"]["generation"]
            return found

        assert tree["metadata"]["generation"] == 1
        assert await generation({"metadata": {"labels": {"a": "b"}}}) == 1
        assert await generation({"spec": {"port": "y"}}) == 2
        assert await generation({"metadata": {"generation": 9}}) == 2
        assert await generation({"status": {"atSea": True}}, BOATS + "/a/status") == 2
        assert await generation({"status": {"atSea": False}}) == 2
        assert await generation({"spec": {"harbour": "z"}}, BOATS_V1 + "/a") == 3
        assert await generation({"spec": {"crew": 8}}) == 4
        assert (await api.get(BOATS + "/a")).json["spec"]["ballast"] == 100
        crate = await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
        assert crate["metadata"]["generation"] == 1
        assert await generation({"status": {"x": 1}}, CRATES + "/c") == 2
        await made(api, PORTS, {"metadata": {"name": "p"}})
        ported = await api.patch(PORTS + "/p", {"depth": 9})
        assert "generation" not in ported.json["metadata"]


@walk
async def test_the_status_is_its_own_and_nothing_but_itself():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat(labels={"a": "1"}))
        body = {
            **tree,
            "metadata": {**tree["metadata"], "labels": {"a": "2"}, "finalizers": ["x.io/y"]},
            "spec": {"port": "elsewhere"},
            "status": {"atSea": True},
        }
        after = (await api.put(BOATS + "/a/status", body)).json
        assert after["status"] == {"atSea": True}
        assert after["spec"] == tree["spec"]
        assert after["metadata"]["labels"] == {"a": "1"}
        assert "finalizers" not in after["metadata"]
        stale = await api.put(BOATS + "/a/status", body)
        assert failure(stale)[0] == 409
        main = (await api.put(BOATS + "/a", {**after, "status": {"atSea": False}})).json
        assert main == after
        assert (await api.get(BOATS + "/a/status")).json == after
        bare = {"metadata": {"name": "a", "resourceVersion": main["metadata"]["resourceVersion"]}}
        assert (await api.put(BOATS + "/a/status", {**bare, "status": {"atSea": True}})).json == main
        old = (await api.patch(BOATS_V1 + "/a/status", {"status": None})).json
        assert "status" not in old
        assert (await api.post(BOATS + "/a/status", body)).status == 405
        assert (await api.delete(BOATS + "/a/status")).status == 405
        assert (await api.get(PORTS + "/a/status")).status == 404


@walk
async def test_what_cannot_be_changed():
    api, _ = fleet()
    async with api:
        tree = await made(api, BOATS, boat(port="anchored", finalizers=["x.io/f"]))
        answer = await api.put(BOATS + "/a", {**tree, "spec": {"port": "lake", "crew": 12}})
        assert causes(answer) == ["spec.crew", "spec.port", "spec.port"]
        await api.delete(BOATS + "/a")
        more = await api.patch(BOATS + "/a", {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}})
        assert causes(more) == ["metadata.finalizers"]
        assert "no new finalizers can be added if the object is being deleted" in failure(more)[2]


@walk
async def test_a_dry_run_shows_what_would_be():
    api, backend = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        before = await backend.current_rev()
        for answer in (
            await api.put(BOATS + "/a?dryRun=All", {**tree, "spec": {"port": "y"}}),
            await api.patch(BOATS + "/a?dryRun=All", {"spec": {"port": "y"}}),
        ):
            assert answer.json["spec"]["port"] == "y"
            assert answer.json["metadata"]["generation"] == 2
            assert answer.json["metadata"]["resourceVersion"] == tree["metadata"]["resourceVersion"]
        assert await backend.current_rev() == before
        stale = {**tree, "metadata": {**tree["metadata"], "resourceVersion": "1"}}
        assert (await api.put(BOATS + "/a?dryRun=All", stale)).status == 409
        assert (await api.patch(BOATS + "/a?dryRun=Some", {})).status == 422


@walk
async def test_a_patch_in_a_version_that_says_little_keeps_what_it_cannot_say():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(crew=3, tags=["t"], captain="c"))
        small = path("boats", "a", version="v1alpha1")
        answer = await api.patch(small, {"spec": {"harbour": "y"}})
        assert answer.json["spec"] == {"harbour": "y"}
        assert (await api.get(BOATS + "/a")).json["spec"] == {"port": "y", "crew": 3, "tags": ["t"], "captain": "c"}
        answer = await api.put(small, (await api.get(small)).json | {"spec": {"harbour": "z"}})
        assert (await api.get(BOATS + "/a")).json["spec"]["tags"] == ["t"]


@walk
async def test_json_patches():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(tags=["a"]))

        async def patch(*operations: Any) -> Any:
            return await api.patch(BOATS + "/a", list(operations), JSON_PATCH)

        good = await patch(
            {"op": "test", "path": "/spec/port", "value": "x"}, {"op": "add", "path": "/spec/tags/-", "value": "b"}
        )
        assert good.json["spec"]["tags"] == ["a", "b"]
        wrong = await patch({"op": "test", "path": "/spec/port", "value": "no"})
        assert failure(wrong) == (422, "Invalid", "the server rejected our request due to an error in our request")
        assert (await patch({"op": "remove", "path": "/spec/nothing"})).status == 422
        assert (await patch({"op": "replace", "path": "/kind", "value": "Port"})).status == 400
        assert (await api.patch(BOATS + "/a", {}, JSON_PATCH)).status == 400
        assert (await api.patch(BOATS + "/a", [], "application/merge-patch+json")).status == 400
        assert (await api.patch(BOATS + "/a", b"{", JSON_PATCH)).status == 400
        for media in ("application/json", ""):
            answer = await api.patch(BOATS + "/a", {}, media)
            assert failure(answer)[0:2] == (415, "UnsupportedMediaType")
        many = await api.patch(BOATS + "/a", [{"op": "test", "path": "/kind", "value": "Boat"}] * 10_001, JSON_PATCH)
        assert failure(many)[0:2] == (413, "RequestEntityTooLarge")


@walk
async def test_unknown_and_duplicate_fields_of_a_patch():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat())
        strict = await api.patch(BOATS + "/a?fieldValidation=Strict", b'{"spec":{"flag":1,"port":"y","port":"z"}}')
        code, reason, why = failure(strict)
        assert (code, reason) == (422, "Invalid")
        assert causes(strict) == ["patch"]
        assert 'unknown field \\"spec.flag\\"' in why or 'unknown field "spec.flag"' in why
        warned = await api.patch(BOATS + "/a", {"spec": {"flag": 1}})
        assert warned.status == 200
        assert "spec.flag" in warned.headers["warning"]
        typed = await api.patch(BOATS + "/a", {"spec": {"crew": "x"}})
        assert failure(typed)[0] == 422


def sails(tree: Any, attempt: int) -> Any:
    tree["spec"]["harbour"] = f"theirs{attempt}"
    return tree


@walk
async def test_a_patch_that_lost_a_race_is_made_again_on_what_won():
    api, backend = fleet()
    async with api:
        await made(api, BOATS, boat())
        race = Racing(backend, key("boats", "default", "a"), 5, sails)
        answer = await api.patch(BOATS + "/a", {"spec": {"crew": 4}, "unknown": 1})
        assert answer.status == 200
        assert answer.json["spec"] == {"port": "theirs5", "crew": 4}
        assert race.attempts == 6
        assert answer.headers["warning"].count("299 - ") == 1


@walk
async def test_a_put_without_version_that_lost_a_race_wins_in_the_end():
    api, backend = fleet()
    async with api:
        await made(api, TICKETS, {"metadata": {"name": "t"}})
        Racing(backend, key("tickets", "default", "t"), 3, lambda tree, n: tree | {"seat": f"theirs{n}"})
        answer = await api.put(TICKETS + "/t", {"metadata": {"name": "t"}, "seat": "mine"})
        assert answer.json["seat"] == "mine"


@walk
async def test_a_version_in_a_put_or_a_patch_is_a_precondition():
    api, backend = fleet()
    async with api:
        tree = await made(api, BOATS, boat())
        race = Racing(backend, key("boats", "default", "a"), 1, sails)
        version = tree["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"crew": 4}}
        assert failure(await api.patch(BOATS + "/a", patch))[0] == 409
        assert race.attempts == 1
        race.left = 1
        tree = (await api.get(BOATS + "/a")).json
        tree["spec"]["crew"] = 5
        assert failure(await api.put(BOATS + "/a", tree))[0] == 409
        assert race.attempts == 2
        now = (await api.get(BOATS + "/a")).json["metadata"]["resourceVersion"]
        patch["metadata"]["resourceVersion"] = now
        assert (await api.patch(BOATS + "/a", patch)).status == 200
        json_patch = [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]
        assert failure(await api.patch(BOATS + "/a", json_patch, JSON_PATCH))[0] == 409


@walk
async def test_an_endless_race_ends_with_the_requests_deadline():
    api, backend = fleet()
    async with api:
        await made(api, BOATS, boat())

        def slow(tree: Any, attempt: int) -> Any:
            api.clock.advance(7)  # type: ignore[attr-defined]
            return sails(tree, attempt)

        race = Racing(backend, key("boats", "default", "a"), 10_000, slow)
        answer = await api.patch(BOATS + "/a", {"spec": {"crew": 4}})
        assert answer.status in (500, 504)
        assert race.attempts < 12


@walk
async def test_a_user_made_subresource():
    api, _ = fleet()
    async with api:
        await made(api, BOATS, boat(port="oslo"))
        answer = await api.post(BOATS_V1 + "/a/pour", {"litres": 3})
        assert answer.status == 201
        assert answer.json["into"] == "a at oslo"
        assert answer.json["litres"] == 3
        assert answer.json["kind"] == "Pour"
        assert (await api.post(BOATS + "/zz/pour", {})).status == 404
        assert (await api.get(BOATS + "/a/pour")).status == 405
        assert (await api.post(BOATS + "/a/pour", {"litres": "x"})).status == 400
        assert (await api.post(BOATS + "/a/pour", {"kind": "Boat"})).status == 400
        unknown = await api.post(BOATS + "/a/pour?fieldValidation=Strict", {"nothing": 1})
        assert unknown.status == 400


@pytest.mark.parametrize("value", [None, "", 0, "0", "x", "007", "-1", "9" * 30, [], {}, True])
def test_whatever_a_version_is_it_is_never_our_fault(value: Any):
    @walk
    async def attempt():
        api, _ = fleet()
        async with api:
            await made(api, CRATES, {"metadata": {"name": "c"}, "spec": {"size": 1}})
            await made(api, TICKETS, {"metadata": {"name": "t"}})
            for where, name in ((CRATES, "c"), (TICKETS, "t")):
                for answer in (
                    await api.patch(f"{where}/{name}", {"metadata": {"resourceVersion": value}}),
                    await api.put(f"{where}/{name}", {"metadata": {"name": name, "resourceVersion": value}}),
                ):
                    assert answer.status < 500, answer

    attempt()
