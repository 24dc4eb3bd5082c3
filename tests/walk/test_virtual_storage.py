"""Storage of a user's own that pages, remembers what happened for a while, and says when it no longer does."""

from __future__ import annotations

import asyncio
import builtins
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

import pytest
from walk_kit import GROUP, failure, path, walk

from oarlock import (
    Admission,
    APIServer,
    Context,
    Denied,
    ListOptions,
    ObjectMeta,
    Page,
    Resource,
    Review,
    VirtualCollection,
    WatchOptions,
    errors,
    subresource,
)
from oarlock.schema.types.declaring import HookError
from oarlock.testing.server import InMemory

SEALS = path("seals", version="v1", namespace="")


class Seal(Resource, group=GROUP, version="v1", scope="Cluster", selectable=[".colour"]):
    """An animal that others count."""

    colour: str = "grey"


class Log:
    """Somebody else's storage: seals in the order in which they came, and the last changes."""

    def __init__(self, *names: str, oldest: int = 0) -> None:
        self.seals = {name: Seal(metadata=ObjectMeta(name=name, resource_version="1")) for name in names}
        self.changes: list[tuple[int, str, Seal]] = []
        self.revision = 1
        self.oldest = oldest
        self.news = asyncio.Event()
        self.asked: list[Any] = []

    def note(self, kind: str, seal: Seal) -> None:
        self.revision += 1
        seal = Seal(
            metadata=ObjectMeta(name=seal.metadata.name, resource_version=str(self.revision)), colour=seal.colour
        )
        if kind == "DELETED":
            del self.seals[seal.metadata.name]
        else:
            self.seals[seal.metadata.name] = seal
        self.changes.append((self.revision, kind, seal))
        self.news.set()
        self.news = asyncio.Event()

    def paint(self, name: str, colour: str) -> None:
        self.note("MODIFIED" if name in self.seals else "ADDED", Seal(metadata=ObjectMeta(name=name), colour=colour))


class Seals(VirtualCollection[Seal]):
    """Pages by itself, from oldest to newest, two at a time whatever is asked for."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def list(self, ctx: Context, options: ListOptions) -> Page[Seal]:
        self._log.asked.append(options)
        if options.continue_token == "lost":
            raise errors.Expired("that page is gone")
        names = [*self._log.seals]
        at = int(options.continue_token or 0)
        size = min(options.limit or 2, 2)
        more = str(at + size) if at + size < len(names) else ""
        items = [self._log.seals[name] for name in names[at : at + size]]
        return Page(items, str(self._log.revision), more, max(0, len(names) - at - size))

    async def get(self, name: str, ctx: Context) -> Seal | None:
        return self._log.seals.get(name)

    async def watch(self, ctx: Context, options: WatchOptions) -> AsyncIterator[tuple[str, Seal | str]]:
        self._log.asked.append(options)
        begin = int(options.resource_version)
        if begin < self._log.oldest:
            raise errors.Expired(f"too old resource version: {begin} ({self._log.oldest})")
        while True:
            news = self._log.news
            for revision, kind, seal in [change for change in self._log.changes if change[0] > begin]:
                yield kind, seal
                begin = revision
            if options.allow_bookmarks:
                yield "BOOKMARK", str(self._log.revision)
            await news.wait()

    @subresource("count", method="POST")
    async def _count(self, name: str, ctx: Context, *, twice: bool = False) -> None:
        self._log.asked.append(("count", name, twice, ctx.dry_run))

    @subresource("name", method="POST")
    async def _name(self, parent: Seal) -> Seal:
        return Seal(metadata=parent.metadata, colour="named")

    @subresource("colours")
    async def _colours(self, name: str, parent: Seal, *, follow: bool = False) -> AsyncIterator[bytes]:
        yield f"{parent.colour}\n".encode()
        while follow:
            await self._log.news.wait()
            yield f"{self._log.seals[name].colour}\n".encode()


def bay(*names: str, oldest: int = 0, admission: Any = ()) -> tuple[InMemory, Log]:
    log = Log(*names, oldest=oldest)
    return InMemory(APIServer(serve=[Seals(log)], admission=admission)), log


def names_of(tree: Any) -> builtins.list[str]:
    return [item["metadata"]["name"] for item in tree["items"]]


@walk
async def test_a_list_that_pages_by_itself_is_asked_for_one_page_at_a_time():
    api, log = bay("c", "a", "d", "b", "e")
    async with api:
        first = (await api.get(SEALS + "?limit=2")).json
        assert names_of(first) == ["c", "a"]
        assert first["metadata"]["remainingItemCount"] == 3
        assert first["metadata"]["resourceVersion"] == "1"
        second = (await api.get(f"{SEALS}?limit=2&continue={first['metadata']['continue']}")).json
        assert names_of(second) == ["d", "b"]
        last = (await api.get(f"{SEALS}?limit=2&continue={second['metadata']['continue']}")).json
        assert names_of(last) == ["e"]
        assert "continue" not in last["metadata"]
        assert [(asked.limit, asked.continue_token) for asked in log.asked] == [(2, ""), (2, "2"), (2, "4")]


@walk
async def test_a_list_without_a_limit_is_all_of_it_sorted():
    api, log = bay("c", "a", "d", "b", "e")
    async with api:
        assert names_of((await api.get(SEALS)).json) == ["a", "b", "c", "d", "e"]
        assert [asked.continue_token for asked in log.asked] == ["", "2", "4"]
        assert (await api.get(SEALS + "?fieldSelector=metadata.name=d")).json["items"][0]["metadata"]["name"] == "d"


@walk
async def test_a_selector_makes_pages_shorter_and_the_tokens_go_on():
    api, log = bay("c", "a", "d", "b", "e")
    log.paint("b", "white")
    async with api:
        found, token = [], ""
        for _ in range(3):
            page = (await api.get(f"{SEALS}?limit=2&fieldSelector=colour=white&continue={token}")).json
            assert "remainingItemCount" not in page["metadata"]
            found += names_of(page)
            token = page["metadata"].get("continue", "")
        assert (found, token) == (["b"], "")


@walk
async def test_a_page_that_is_gone_and_a_token_of_another_kind_are_told():
    api, _ = bay("c", "a", "d")
    async with api:
        token = (await api.get(SEALS + "?limit=2")).json["metadata"]["continue"]
        assert failure(await api.get(f"{SEALS}?limit=2&continue={token[:-3]}"))[0] == 400
        lost = "eyJvd24iOiJsb3N0In0"  # {"own":"lost"}
        assert failure(await api.get(f"{SEALS}?limit=2&continue={lost}")) == (410, "Expired", "that page is gone")

    class Plain(VirtualCollection[Seal]):
        async def list(self, ctx: Context) -> builtins.list[Seal]:
            return []

    async with InMemory(APIServer(serve=[Plain])) as api:
        assert failure(await api.get(f"{SEALS}?limit=2&continue={lost}"))[:2] == (410, "Expired")


@walk
async def test_a_watch_begins_where_the_client_says():
    api, log = bay("a", "b")
    async with api:
        version = (await api.get(SEALS)).json["metadata"]["resourceVersion"]
        log.paint("a", "white")
        async with api.watch(f"{SEALS}?resourceVersion={version}") as events:
            kind, seal = await events.next()
            assert (kind, seal["metadata"]["name"], seal["colour"]) == ("MODIFIED", "a", "white")
            log.paint("c", "black")
            kind, seal = await events.next()
            assert (kind, seal["metadata"]["name"]) == ("ADDED", "c")
        assert log.asked[-1] == WatchOptions(resource_version="1", timeout_s=None)


@walk
async def test_a_watch_from_the_start_is_told_what_is_there_first_and_nothing_twice():
    api, log = bay("a", "b")
    log.paint("b", "white")
    async with api:
        for query in ("", "?resourceVersion=0"):
            async with api.watch(SEALS + query) as events:
                told = [await events.next(), await events.next()]
                assert [(kind, seal["metadata"]["name"]) for kind, seal in told] == [("ADDED", "a"), ("ADDED", "b")]
                log.paint("a", "black")
                kind, seal = await events.next()
                assert (kind, seal["colour"]) == ("MODIFIED", "black")
                log.paint("a", "grey")
                assert (await events.next())[0] == "MODIFIED"


@walk
async def test_a_client_that_lists_by_watching_is_told_where_the_list_ends():
    api, log = bay("a")
    async with api:
        query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with api.watch(SEALS + query) as events:
            assert (await events.next())[0] == "ADDED"
            kind, bookmark = await events.next()
            assert kind == "BOOKMARK"
            assert bookmark["metadata"] == {
                "resourceVersion": "1",
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            assert (await events.next())[1]["metadata"] == {"resourceVersion": "1"}
            log.paint("a", "white")
            assert (await events.next())[0] == "MODIFIED"


@walk
async def test_bookmarks_go_to_clients_that_want_them():
    api, log = bay("a")
    async with (
        api,
        api.watch(SEALS + "?resourceVersion=1&allowWatchBookmarks=true") as told,
        api.watch(SEALS + "?resourceVersion=1") as untold,
    ):
        kind, bookmark = await told.next()
        assert (kind, bookmark["kind"], bookmark["metadata"]) == ("BOOKMARK", "Seal", {"resourceVersion": "1"})
        log.paint("a", "white")
        assert (await untold.next())[0] == "MODIFIED"


@walk
async def test_a_version_that_is_too_old_is_a_410():
    api, _ = bay("a", oldest=5)
    async with api, api.watch(SEALS + "?resourceVersion=3") as events:
        kind, status = await events.next()
        assert kind == "ERROR"
        assert (status["code"], status["reason"]) == (410, "Expired")
        assert status["message"] == "too old resource version: 3 (5)"


@walk
async def test_a_watch_that_selects_is_told_what_leaves_the_selection():
    api, log = bay("a", "b", "c")
    log.paint("a", "white")
    async with api:
        version = (await api.get(SEALS)).json["metadata"]["resourceVersion"]
        log.paint("b", "white")  # before the watch begins
        async with api.watch(f"{SEALS}?resourceVersion={version}&fieldSelector=colour=white") as events:
            assert [(kind, seal["metadata"]["name"]) for kind, seal in [await events.next()]] == [("ADDED", "b")]
            log.paint("a", "black")
            kind, seal = await events.next()
            assert (kind, seal["metadata"]["name"], seal["colour"]) == ("DELETED", "a", "white")
            assert seal["metadata"]["resourceVersion"] == str(log.revision)
            log.paint("c", "black")  # was never selected, nor is it now
            log.paint("c", "white")
            kind, seal = await events.next()
            assert (kind, seal["metadata"]["name"]) == ("ADDED", "c")


@walk
async def test_what_left_the_selection_before_the_watch_began_is_told_to_be_gone():
    api, log = bay("a", "b")
    log.paint("a", "white")
    async with api:
        version = (await api.get(SEALS)).json["metadata"]["resourceVersion"]
        log.paint("a", "black")
        async with api.watch(f"{SEALS}?resourceVersion={version}&fieldSelector=colour=white") as events:
            kind, seal = await events.next()
            assert (kind, seal["metadata"]["name"]) == ("DELETED", "a")
            log.paint("a", "red")
            log.paint("b", "white")
            assert (await events.next())[1]["metadata"]["name"] == "b"


@walk
async def test_an_action_has_no_body():
    api, log = bay("a")
    async with api:
        for body in (b"", b"{}", b"null"):
            answer = await api.post(f"{SEALS}/a/count?twice=true", body)
            assert (answer.status, answer.body) == (204, b"")
        assert log.asked == [("count", "a", True, False)] * 3
        await api.post(f"{SEALS}/a/count?dryRun=All", b"")
        assert log.asked[-1] == ("count", "a", False, True)
        assert failure(await api.post(f"{SEALS}/a/count", {"spec": 1})) == (
            400,
            "BadRequest",
            "this subresource takes no body: send none, or {}",
        )
        assert (await api.post(f"{SEALS}/zz/count", b"")).status == 404
        assert (await api.get(f"{SEALS}/a/count")).status == 405
        named = await api.post(f"{SEALS}/a/name", b"")
        assert (named.status, named.json["colour"]) == (201, "named")
        found = {r["name"]: r for r in (await api.get(f"/apis/{GROUP}/v1")).json["resources"]}
        assert (found["seals/count"]["verbs"], found["seals/count"]["kind"]) == (["create"], "Seal")
        document = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json
        operation = document["paths"][f"/apis/{GROUP}/v1/seals/{{name}}/count"]["post"]
        assert "requestBody" not in operation
        assert "204" in operation["responses"]


@walk
async def test_a_stream_of_a_virtual_object_is_read_and_followed():
    api, log = bay("a")
    async with api:
        assert (await api.get(f"{SEALS}/a/colours")).body == b"grey\n"
        assert (await api.get(f"{SEALS}/zz/colours")).status == 404
        async with api.follow(f"{SEALS}/a/colours?follow=true") as lines:
            assert await lines.line() == b"grey"
            log.paint("a", "red")
            assert await lines.line() == b"red"


class NobodyCounts(Admission[Resource], operations=["CONNECT"], subresources=["count"]):
    async def validate(self, review: Review[Resource]) -> None:
        raise Denied(f"{review.name} isn't counted")


@walk
async def test_a_plugin_may_deny_an_action():
    api, log = bay("a", admission=[NobodyCounts()])
    async with api:
        assert failure(await api.post(f"{SEALS}/a/count", b""))[2].endswith("a isn't counted")
        assert log.asked == []


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="hints are read when the class is whole, and find the type")
def test_a_method_called_list_takes_the_word_from_the_annotations_below_it():
    program = (
        "class A(VirtualCollection[Seal]):\n"
        "    async def list(self, ctx):\n        return []\n"
        "    async def get(self, name: str, ctx) -> list[str]: ...\n"
    )
    names = {"VirtualCollection": VirtualCollection, "Seal": Seal, "__name__": __name__}
    with pytest.raises(HookError) as caught:
        exec(compile(program, "<string>", "exec", dont_inherit=True), names)
    exec(compile(f"from __future__ import annotations\n{program}", "<string>", "exec", dont_inherit=True), names)
    assert "<string>:4: list[…]: below a method called list, list is that method (write builtins.list[…]" in str(
        caught.value
    )


def test_a_collection_may_be_abstract():
    class Base(VirtualCollection[Seal], ABC):
        async def list(self, ctx: Context) -> builtins.list[Seal]:
            return []

        @abstractmethod
        def _helper(self) -> None: ...

    with pytest.raises(TypeError, match="_helper"):
        Base()
