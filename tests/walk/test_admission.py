"""When plugins and hooks run, in which order, what they see and what becomes of what they change."""

from __future__ import annotations

import json
from typing import Any

from walk_kit import (
    BOATS,
    BOATS_V1,
    CRATES,
    GROUP,
    Boat,
    Boats,
    BoatV1,
    BoatV1Alpha1,
    Racing,
    boat,
    crate,
    failure,
    key,
    made,
    path,
    walk,
)

from oarlock import Admission, APIServer, Context, Denied, Resource, Review, StoredCollection
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

calls: list[Any] = []


class Logged(Admission[Boat], operations=["CREATE", "UPDATE", "DELETE"]):
    """Writes down what it sees."""

    async def mutate(self, review: Review[Boat]) -> None:
        calls.append(("mutate", review.operation, review.name))
        review.warn("mutated")
        if review.operation != "DELETE":
            review.object.metadata.labels["admitted"] = review.operation.lower()

    async def validate(self, review: Review[Boat]) -> None:
        seen = review.new.spec if review.new is not None else None
        calls.append(("validate", review.operation, review.name, seen and seen.ballast, review.dry_run))
        if review.new is not None:
            assert review.new.metadata.uid
            assert review.new.metadata.labels["admitted"]
        if review.new is not None and review.new.spec.port == "forbidden":
            raise Denied("not there")


class OldLogged(Admission[BoatV1]):
    """Works in the stored version, whichever the request's is."""

    async def mutate(self, review: Review[BoatV1]) -> None:
        calls.append(("old", review.object.spec.harbour))
        if review.object.spec.harbour == "reroute":
            review.object.spec.harbour = "rerouted"


class Noted(StoredCollection[Boat], stored_as=BoatV1):
    def prepare(self, new: Boat, old: Boat | None, ctx: Context) -> None:
        calls.append(("prepare", old is not None))
        new.spec.ballast = 7


def served(*serve: Any, admission: Any = ()) -> tuple[InMemory, MemoryBackend]:
    calls.clear()
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    return InMemory(APIServer(serve=serve, admission=admission), backend=backend, clock=clock), backend


@walk
async def test_all_mutate_then_hooks_then_all_validate_what_is_final():
    api, _ = served(Noted, BoatV1Alpha1, admission=[Logged(), OldLogged()])
    async with api:
        tree = await made(api, BOATS, boat("", generateName="g-", port="reroute"))
        name = tree["metadata"]["name"]
        assert calls == [
            ("mutate", "CREATE", name), ("old", "reroute"), ("prepare", False), ("validate", "CREATE", name, 7, False),
        ]  # fmt: skip
        assert tree["spec"]["port"] == "rerouted"
        assert tree["metadata"]["labels"] == {"admitted": "create"}
        calls.clear()
        await api.patch(f"{BOATS_V1}/{name}?dryRun=All", {"spec": {"crew": 2}})
        assert calls[-1] == ("validate", "UPDATE", name, 7, True)
        calls.clear()
        answer = await api.delete(f"{BOATS}/{name}")
        assert calls == [("mutate", "DELETE", name), ("validate", "DELETE", name, None, False)]
        assert answer.warnings


@walk
async def test_a_denial_is_403_in_the_words_of_the_plugin():
    api, backend = served(Boats, admission=[Logged()])
    async with api:
        before = await backend.current_rev()
        answer = await api.post(BOATS, boat("a", port="forbidden"))
        why = 'boats.walk.example.com "a" is forbidden: not there'
        assert failure(answer) == (403, "Forbidden", why)
        assert answer.json["details"] == {"name": "a", "group": GROUP, "kind": "boats"}
        assert await backend.current_rev() == before


@walk
async def test_a_plugin_leaves_the_status_alone_unless_it_asks_for_it():
    api, _ = served(Boats, admission=[Logged()])
    async with api:
        await made(api, BOATS, boat("a"))
        calls.clear()
        assert (await api.patch(BOATS + "/a/status", {"status": {"atSea": True}})).status == 200
        assert calls == []


@walk
async def test_what_runs_again_after_a_lost_race_does_not_repeat_its_warnings():
    api, backend = served(Boats, admission=[Logged()])
    async with api:
        await made(api, BOATS, boat("a"))
        calls.clear()

        def sails(tree: Any, n: int) -> Any:
            tree["spec"]["harbour"] = f"theirs{n}"
            return tree

        Racing(backend, key("boats", "default", "a"), 2, sails)
        answer = await api.patch(BOATS + "/a", {"spec": {"crew": 2}})
        assert answer.status == 200
        assert len([c for c in calls if c[0] == "mutate"]) == 3
        assert answer.headers["warning"] == '299 - "mutated"'


class Everything(Admission[Resource], operations=["CREATE", "DELETE"]):
    """Sees metadata of every kind."""

    async def mutate(self, review: Review[Resource]) -> None:
        if review.new is not None:
            review.new.metadata.annotations["seen"] = review.ctx.target.resource

    async def validate(self, review: Review[Resource]) -> None:
        old = review.old_object
        if review.operation == "DELETE" and old is not None and "keep" in old.metadata.labels:
            raise Denied("it is kept")


@walk
async def test_a_plugin_for_everything_changes_nothing_but_what_it_changes():
    api, _ = served(Boats, crate(), admission=[Everything()])
    async with api:
        tree = await made(api, BOATS, boat("a", captain="c", tags=["t"], labels={"keep": ""}))
        assert tree["metadata"]["annotations"] == {"seen": "boats"}
        assert tree["spec"] == {"port": "x", "crew": 1, "captain": "c", "tags": ["t"]}
        spec = {"size": 1, "free": {"any": [1, {"x": None}]}}
        crated = await made(api, CRATES, {"metadata": {"name": "c"}, "spec": spec})
        assert crated["spec"] == spec
        assert crated["metadata"]["annotations"] == {"seen": "crates"}
        assert failure(await api.delete(BOATS + "/a"))[2] == 'boats.walk.example.com "a" is forbidden: it is kept'
        assert failure(await api.delete(BOATS))[0] == 403
        assert (await api.delete(CRATES)).status == 200


class Free(Resource, group=GROUP, version="v1"):
    """A type whose stored objects may know more than it does."""

    note: str = ""


class Frees(StoredCollection[Free]):
    def prepare(self, new: Free, old: Free | None, ctx: Context) -> None:
        new.note = new.note.strip()


@walk
async def test_hooks_keep_the_metadata_they_do_not_know():
    api, _ = served(Frees)
    async with api:
        where = path("frees", version="v1")
        owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}
        body = {"metadata": {"name": "f", "ownerReferences": [owner], "finalizers": ["x.io/f"]}, "note": " n "}
        tree = await made(api, where, body)
        assert tree["note"] == "n"
        assert tree["metadata"]["ownerReferences"] == [owner]
        rev = tree["metadata"]["resourceVersion"]
        again = await api.put(where + "/f", {**tree, "note": "n   "})
        assert again.json["metadata"]["resourceVersion"] == rev


class Needs(Admission[Boat], operations=["CREATE"]):
    def __init__(self, allowed: list[str]) -> None:
        self.allowed = allowed

    async def validate(self, review: Review[Boat]) -> None:
        if review.name not in self.allowed:
            raise Denied("never heard of it")


@walk
async def test_admission_through_a_version_that_says_little():
    api, _ = served(Boats, BoatV1Alpha1, admission=[Needs(["a"]), OldLogged()])
    async with api:
        small = path("boats", version="v1alpha1")
        body = {"metadata": {"name": "a"}, "spec": {"harbour": "reroute"}}
        assert (await made(api, small, body))["spec"] == {"harbour": "rerouted"}
        denied = await api.post(small, {**body, "metadata": {"generateName": "x-"}})
        assert failure(denied)[0] == 403
        assert json.loads(denied.body)["details"]["name"].startswith("x-")
        assert [c for c in calls if c[0] == "old"] == [("old", "reroute"), ("old", "reroute")]
