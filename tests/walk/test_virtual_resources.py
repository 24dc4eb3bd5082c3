"""Resources of a user's own storage: what is written is served, the rest is the framework's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from walk_kit import GROUP, causes, failure, made, path, walk

from oarlock import (
    Admission,
    APIServer,
    Column,
    Context,
    Denied,
    Model,
    ObjectMeta,
    Resource,
    Review,
    Spoke,
    VirtualCollection,
    errors,
)
from oarlock.meta.kinds import GroupResource
from oarlock.testing.server import InMemory


class GullStatus(Model):
    """How it is."""

    loud: bool = False


class Gull(
    Resource,
    group=GROUP,
    version="v2",
    status_subresource=True,
    selectable=[".colour"],
    columns=[Column("Colour", ".colour")],
):
    """A bird nobody stores."""

    colour: str = "white"
    ring: str | None = None
    status: GullStatus | None = None


class OldGull(Spoke[Gull], version="v1"):
    """A gull as it was once said."""

    color: str = "white"

    def to_hub(self) -> Gull:
        return Gull(metadata=self.metadata, colour=self.color)

    @classmethod
    def from_hub(cls, hub: Gull) -> Self:
        return cls(metadata=hub.metadata, color=hub.colour)


class Gulls(VirtualCollection[Gull]):
    """Everything, kept in a dict."""

    def __init__(self) -> None:
        self._gulls: dict[tuple[str, str], Gull] = {}
        self._rev = 0
        self._called: list[tuple[str, bool]] = []
        self._rivals = 0
        self._events: list[asyncio.Queue[tuple[str, Gull]]] = []

    def _keep(self, kind: str, gull: Gull) -> Gull:
        self._rev += 1
        gull.metadata.resource_version = str(self._rev)
        self._gulls[gull.metadata.namespace, gull.metadata.name] = gull
        for queue in self._events:
            queue.put_nowait((kind, gull))
        return gull

    async def get(self, name: str, ctx: Context) -> Gull | None:
        return self._gulls.get((ctx.target.namespace, name))

    async def list(self, ctx: Context) -> tuple[list[Gull], str]:
        where = ctx.target.namespace
        found = [gull for (namespace, _), gull in self._gulls.items() if not where or namespace == where]
        return found[::-1], str(self._rev)

    async def create(self, new: Gull, ctx: Context) -> Gull:
        self._called.append(("create", ctx.dry_run))
        return self._keep("ADDED", new)

    async def update(self, new: Gull, expected_version: str, ctx: Context, dry_run: bool = False) -> Gull:
        self._called.append(("update", dry_run))
        live = self._gulls[new.metadata.namespace, new.metadata.name]
        if self._rivals:
            self._rivals -= 1
            live.ring = f"rival{self._rivals}"
            self._keep("MODIFIED", live)
        if expected_version and expected_version != live.metadata.resource_version:
            raise errors.Conflict(GroupResource(GROUP, "gulls"), new.metadata.name)
        return new if dry_run else self._keep("MODIFIED", new)

    async def delete(self, name: str, ctx: Context) -> Gull | None:
        self._called.append(("delete", ctx.dry_run))
        return self._gulls.pop((ctx.target.namespace, name), None)

    async def watch(self, ctx: Context) -> AsyncIterator[tuple[str, Gull]]:
        queue: asyncio.Queue[tuple[str, Gull]] = asyncio.Queue()
        for gull in self._gulls.values():
            queue.put_nowait(("ADDED", gull))
        self._events.append(queue)
        while True:
            yield await queue.get()


GULLS = path("gulls")
OLD = path("gulls", version="v1")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def roost(*admission: Any) -> tuple[InMemory, Gulls]:
    gulls = Gulls()
    return InMemory(APIServer(serve=[gulls, OldGull], admission=admission)), gulls


@walk
async def test_the_life_of_a_virtual_object():
    api, _ = roost()
    async with api:
        tree = await made(api, GULLS, {"metadata": {"name": "a", "uid": "mine"}, "status": {"loud": True}, "ring": "r"})
        assert tree["colour"] == "white"
        assert tree["metadata"]["uid"] != "mine"
        assert "status" not in tree
        assert (await api.get(GULLS + "/a")).json == tree
        assert failure(await api.post(GULLS, {"metadata": {"name": "a"}}))[0:2] == (409, "AlreadyExists")
        assert failure(await api.get(GULLS + "/b"))[2] == 'gulls.walk.example.com "b" not found'
        changed = (await api.put(GULLS + "/a", {**tree, "colour": "grey", "status": {"loud": True}})).json
        assert changed["colour"] == "grey"
        assert "status" not in changed
        for field in ("uid", "creationTimestamp"):
            assert changed["metadata"][field] == tree["metadata"][field]
        assert failure(await api.put(GULLS + "/a", tree))[0:2] == (409, "Conflict")
        patched = (await api.patch(OLD + "/a", {"color": "black"})).json
        assert patched["color"] == "black"
        assert (await api.get(GULLS + "/a")).json["ring"] == "r"
        answer = await api.delete(GULLS + "/a")
        assert answer.json["details"]["uid"] == tree["metadata"]["uid"]
        assert (await api.get(GULLS + "/a")).status == 404
        assert (await api.delete(GULLS + "/a")).status == 404


@walk
async def test_what_the_server_sets_cannot_be_changed():
    api, _ = roost()
    async with api:
        tree = await made(api, GULLS, {"metadata": {"name": "a"}})
        metadata = {**tree["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77}
        changed = (await api.put(GULLS + "/a", {**tree, "metadata": metadata, "colour": "grey"})).json
        assert changed["metadata"]["creationTimestamp"] == tree["metadata"]["creationTimestamp"]
        assert changed["metadata"]["generation"] == 2
        other = await api.patch(GULLS + "/a", {"metadata": {"uid": "x"}})
        assert causes(other) == ["metadata.uid"]
        live = (await api.get(GULLS + "/a")).json
        live["metadata"]["uid"] = "x"
        code, reason, text = failure(await api.put(GULLS + "/a", live))
        assert (code, reason) == (409, "Conflict")
        assert "Precondition failed: UID in precondition: x, UID in object meta: " in text
        for wrong in ({"metadata": {"name": "b"}}, {"metadata": {"name": "a", "namespace": "n"}}):
            assert (await api.put(GULLS + "/a", wrong)).status == 400


@walk
async def test_the_status_of_a_virtual_object():
    api, _ = roost()
    async with api:
        tree = await made(api, GULLS, {"metadata": {"name": "a"}})
        after = (await api.patch(GULLS + "/a/status", {"status": {"loud": True}, "colour": "grey"})).json
        assert after["status"] == {"loud": True}
        assert after["colour"] == "white"
        assert after["metadata"]["generation"] == tree["metadata"]["generation"]
        assert (await api.get(GULLS + "/a/status")).json == after
        assert (await api.patch(GULLS + "/a", {"status": {"loud": False}})).json["status"] == {"loud": True}


@walk
async def test_a_patch_that_lost_a_race_is_made_again():
    api, gulls = roost()
    async with api:
        tree = await made(api, GULLS, {"metadata": {"name": "a"}})
        gulls._rivals = 2
        answer = await api.patch(GULLS + "/a", {"colour": "grey"})
        assert answer.status == 200, answer
        assert answer.json["ring"] == "rival0"
        gulls._rivals = 1
        version = answer.json["metadata"]["resourceVersion"]
        pinned = {"metadata": {"resourceVersion": version}, "colour": "black"}
        assert failure(await api.patch(GULLS + "/a", pinned))[0] == 409
        gulls._rivals = 1
        assert (
            failure(await api.put(GULLS + "/a", {**tree, "metadata": {**tree["metadata"], "resourceVersion": "1"}}))[0]
            == 409
        )
        gulls._rivals = 10**9
        assert failure(await api.patch(GULLS + "/a", {"colour": "red"}))[0] in (409, 500, 504)


@walk
async def test_a_dry_run_calls_only_what_takes_it():
    api, gulls = roost()
    async with api:
        dry = await api.post(GULLS + "?dryRun=All", {"metadata": {"name": "a"}})
        assert dry.status == 201
        assert gulls._called == []
        tree = await made(api, GULLS, {"metadata": {"name": "a"}})
        gulls._called.clear()
        assert (await api.put(GULLS + "/a?dryRun=All", {**tree, "colour": "grey"})).json["colour"] == "grey"
        assert gulls._called == [("update", True)]
        assert (await api.delete(GULLS + "/a?dryRun=All")).json["status"] == "Success"
        assert gulls._called == [("update", True)]
        assert (await api.get(GULLS + "/a")).json == tree


@walk
async def test_the_framework_selects_sorts_and_pages():
    api, _ = roost()
    async with api:
        for i, name in enumerate("cab"):
            colour = ("white", "grey", "grey")[i]
            await made(api, GULLS, {"metadata": {"name": name, "labels": {"l": name}}, "colour": colour})
        await made(api, path("gulls", namespace="other"), {"metadata": {"name": "d"}})

        async def names(query: str, where: str = GULLS) -> list[str]:
            return [i["metadata"]["name"] for i in (await api.get(where + query)).json["items"]]

        assert await names("") == ["a", "b", "c"]
        assert await names("", path("gulls", namespace="")) == ["a", "b", "c", "d"]
        assert await names("?labelSelector=l+in+(a,c)") == ["a", "c"]
        assert await names("?fieldSelector=metadata.name!=a") == ["b", "c"]
        assert await names("?fieldSelector=colour=grey") == ["a", "b"]
        assert await names("?limit=-1") == ["a", "b", "c"]
        assert (await api.get(OLD + "?fieldSelector=colour=grey")).status == 400
        first = (await api.get(GULLS + "?limit=2")).json
        assert first["metadata"]["remainingItemCount"] == 1
        assert first["metadata"]["resourceVersion"] == "4"
        assert await names("?limit=2&continue=" + first["metadata"]["continue"]) == ["c"]
        for token in ("x", "!!", "bnVsbA", "WzEsMl0"):
            assert (await api.get(GULLS + "?continue=" + token)).status == 400
        old = (await api.get(OLD)).json
        assert [item["color"] for item in old["items"]] == ["grey", "grey", "white"]
        table = (await api.get(GULLS, accept=TABLE)).json
        assert [row["cells"][:2] for row in table["rows"]] == [["a", "grey"], ["b", "grey"], ["c", "white"]]
        gone = await api.delete(GULLS + "?labelSelector=l=a")
        assert [item["metadata"]["name"] for item in gone.json["items"]] == ["a"]
        assert await names("") == ["b", "c"]


@walk
async def test_a_virtual_watch_in_every_form():
    api, _ = roost()
    async with api:
        await made(api, GULLS, {"metadata": {"name": "a", "labels": {"l": "1"}}})
        metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        async with (
            api.watch(GULLS) as plain,
            api.watch(OLD) as old,
            api.watch(GULLS, accept=TABLE) as table,
            api.watch(GULLS, accept=metadata) as partial,
            api.watch(GULLS + "?fieldSelector=colour=pink") as none,
        ):
            await plain.next()
            assert (await old.next())[1]["color"] == "white"
            kind, first = await table.next()
            assert (kind, first["kind"]) == ("ADDED", "Table")
            assert first["rows"][0]["cells"][:2] == ["a", "white"]
            await api.patch(GULLS + "/a", {"colour": "grey"})
            kind, second = await table.next()
            assert (kind, second["columnDefinitions"]) == ("MODIFIED", None)
            assert (await partial.next())[1]["kind"] == "PartialObjectMetadata"
            assert (await plain.next())[1]["colour"] == "grey"
            assert none.pending() == []


class NoPink(Admission[Gull]):
    async def mutate(self, review: Review[Gull]) -> None:
        review.object.metadata.labels["seen"] = "yes"

    async def validate(self, review: Review[Gull]) -> None:
        if review.object.colour == "pink":
            raise Denied("no pink gulls")


@walk
async def test_admission_is_the_same():
    api, gulls = roost(NoPink())
    async with api:
        tree = await made(api, GULLS, {"metadata": {"generateName": "g-"}})
        assert tree["metadata"]["labels"] == {"seen": "yes"}
        name = tree["metadata"]["name"]
        assert failure(await api.patch(f"{GULLS}/{name}", {"colour": "pink"}))[0] == 403
        assert gulls._called == [("create", False)]
        assert causes(await api.post(GULLS, {"metadata": {"name": "Bad_"}})) == ["metadata.name"]
        strict = await api.post(GULLS + "?fieldValidation=Strict", {"metadata": {"name": "a"}, "x": 1})
        assert strict.status == 400


class Got(VirtualCollection[Gull]):
    async def get(self, name: str, ctx: Context) -> Gull:
        if name == "bug":
            raise RuntimeError("a bug of the user's")
        if name == "busy":
            raise errors.TooManyRequests("later", 7)
        return Gull(metadata=ObjectMeta(name=name))


class Listed(VirtualCollection[Gull]):
    def __init__(self) -> None:
        self._deleted: list[str] = []

    async def list(self, ctx: Context) -> list[Gull]:
        return [Gull(metadata=ObjectMeta(name="a"))]

    async def delete(self, name: str, ctx: Context) -> None:
        self._deleted.append(name)


class Made(VirtualCollection[Gull]):
    async def create(self, new: Gull, ctx: Context) -> Gull:
        new.colour = f"for {ctx.user.name}"
        return new


class Updated(VirtualCollection[Gull]):
    async def update(self, new: Gull, expected_version: str, ctx: Context) -> Gull:
        return new


@pytest.mark.parametrize(
    ("collection", "verbs"),
    [
        (Got, ["get"]),
        (Listed, ["delete", "deletecollection", "list"]),
        (Made, ["create"]),
        (Updated, ["update"]),
        (Gulls, ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
    ],
)
def test_the_verbs_that_are_written_are_the_verbs_that_are_served(collection: Any, verbs: list[str]):
    @walk
    async def attempt() -> None:
        async with InMemory(APIServer(serve=[collection])) as api:
            found = (await api.get(f"/apis/{GROUP}/v2")).json["resources"]
            assert [r["verbs"] for r in found if r["name"] == "gulls"] == [verbs]
            body = {"metadata": {"name": "a"}}
            tried = {
                "create": await api.post(GULLS, body), "get": await api.get(GULLS + "/a"),
                "list": await api.get(GULLS), "update": await api.put(GULLS + "/a", body),
                "patch": await api.patch(GULLS + "/a", {}), "watch": await api.get(GULLS + "?watch=1&timeoutSeconds=1"),
                "delete": await api.delete(GULLS + "/a"), "deletecollection": await api.delete(GULLS),
            }  # fmt: skip
            named = {"get", "update", "patch", "delete"}
            refused = 405 if named & set(verbs) else 404
            for verb, answer in tried.items():
                if verb in verbs:
                    assert answer.status in range(200, 405), (verb, answer)
                elif verb in named:
                    assert answer.status == refused, "without a verb of one object there is no path of one"
                else:
                    assert answer.status == 405, (verb, answer)

    attempt()


@walk
async def test_what_users_raise():
    async with InMemory(APIServer(serve=[Got]), raise_server_exceptions=False) as api:
        assert (await api.get(GULLS + "/a")).json["metadata"]["name"] == "a"
        assert (await api.get(GULLS + "/bug")).status == 500
        busy = await api.get(GULLS + "/busy")
        assert (busy.status, busy.headers["retry-after"]) == (429, "7")


@walk
async def test_without_versions_of_its_own_a_list_has_the_processes_counter():
    listed = Listed()
    async with InMemory(APIServer(serve=[listed])) as api:
        first = int((await api.get(GULLS)).json["metadata"]["resourceVersion"])
        assert (await api.delete(GULLS + "/a")).json["details"]["name"] == "a"
        assert int((await api.get(GULLS)).json["metadata"]["resourceVersion"]) > first
        assert listed._deleted == ["a"]
