"""The Python client ``kr8s``: its verbs on declared resources, and applying until a conflict is settled."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kr8s
import pytest
from kr8s.asyncio.objects import APIObject, Table, new_class
from own_loop import in_a_loop
from server_process import ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
"""kr8s knows Kubernetes up to 1.35."""

VERSION = "moorings.example.com/v1"
APPLY = "application/apply-patch+yaml"


@asynccontextmanager
async def client(server: ServerProcess, namespace: str) -> AsyncIterator[Any]:
    api = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig), namespace=namespace)
    try:
        yield api
    finally:
        gc.collect()  # kr8s leaves watches it has seen enough of to the garbage collector
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*left, return_exceptions=True)
        await api._session.aclose()  # and has no word for this


def mooring(namespace: str, name: str, depth: int = 3, **metadata: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": VERSION, "kind": "Mooring", "metadata": metadata, "spec": {"depth": depth}}


Mooring = new_class("Mooring", version=VERSION, asyncio=True, plural="moorings", scalable=True, scalable_spec="boats")


async def made(api: Any, *args: Any, **metadata: object) -> APIObject:
    one = await Mooring(mooring(*args, **metadata), api=api)
    await one.create()
    return one


async def names(found: AsyncIterator[Any]) -> list[str]:
    return [one.name async for one in found]


@in_a_loop
async def test_one_object(moorings: ServerProcess, namespace: str) -> None:
    async with client(moorings, namespace) as api:
        one = await Mooring(mooring(namespace, "one", labels={"tier": "web"}), api=api)
        assert not await one.exists()
        await one.create()
        assert await one.exists()
        assert one.spec.hold.kind == "anchor"
        with pytest.raises(kr8s.ServerError, match="already exists") as refused:
            await one.create()
        assert refused.value.response.json()["reason"] == "AlreadyExists"
        with pytest.raises(kr8s.ServerError, match=r'spec\.hold\.kind: Unsupported value: "rope"'):
            await one.patch({"spec": {"hold": {"kind": "rope"}}})
        await one.patch({"spec": {"depth": 4}})
        await one.patch([{"op": "replace", "path": "/spec/hold/kind", "value": "ring"}], type="json")
        await one.patch({"spec": {"depth": 9}, "status": {"phase": "Taken"}}, subresource="status")
        await one.label({"tier": "db", "seen": "yes"})
        await one.remove_label("seen")
        await one.annotate(note="a b")
        await one.scale(5)
        again = await Mooring.get("one", namespace=namespace, api=api)
        assert (again.spec.depth, again.spec.hold.kind, again.status.phase) == (4, "ring", "Taken")
        assert (again.labels.to_dict(), again.annotations.to_dict()) == ({"tier": "db"}, {"note": "a b"})
        assert again.spec.boats == 5
        await one.delete(propagation_policy="Background")
        assert not await one.exists()
        for gone in (one.refresh(), one.patch({}), one.delete()):
            with pytest.raises(kr8s.NotFoundError):
                await gone


@in_a_loop
async def test_a_kind_has_several_names(moorings: ServerProcess, namespace: str) -> None:
    async with client(moorings, namespace) as api:
        assert {"secrets", "moorings"} <= {one["name"] for one in await api.api_resources()}
        assert {"v1", VERSION} <= {version async for version in api.api_versions()}
        await made(api, namespace, "one")
        for name in ("moorings", "mo", "mooring", "Mooring", "mooring.moorings.example.com", f"moorings.{VERSION}"):
            assert await names(api.get(name, "one")) == ["one"], name
        with pytest.raises(ValueError, match="not found"):
            await names(api.get("nothings"))


@in_a_loop
async def test_a_server_without_a_core_group(hello: ServerProcess, namespace: str) -> None:
    """kr8s finds kinds there only by a class."""
    cls = new_class("Foo", version="hello.zeng.dev/v2", asyncio=True, plural="foos")
    spec = {"image": "busybox", "config": {"msg": "hi"}}
    async with client(hello, namespace) as api:
        one = await cls({"metadata": {"name": "one", "namespace": namespace}, "spec": spec}, api=api)
        await one.create()
        await one.patch({"spec": {"image": "alpine"}})
        await one.refresh()
        assert (await cls.get("one", namespace=namespace, api=api)).spec.image == "alpine"
        assert await names(api.get(cls)) == await names(cls.list(namespace=namespace, api=api)) == ["one"]
        async for event, found in api.watch(cls, namespace=namespace):
            assert (event, found.name) == ("ADDED", "one")
            break
        await one.delete()
        assert not await one.exists()


@in_a_loop
async def test_lists(moorings: ServerProcess, namespace: str) -> None:
    async with client(moorings, namespace) as api:
        for number in range(105):  # kr8s asks for pages of 100
            await made(api, namespace, f"m{number:03}", labels={"odd": str(number % 2)})
        assert await names(api.get(Mooring)) == [f"m{number:03}" for number in range(105)]
        few = {"m001", "m002", "m003"}
        assert set(await names(api.get(Mooring, *few))) == few
        odd = await names(api.get(Mooring, label_selector={"odd": "1"}))
        assert odd == [f"m{number:03}" for number in range(1, 105, 2)]
        both = api.get(Mooring, label_selector="odd in (1)", field_selector={"metadata.name": "m003"})
        assert await names(both) == ["m003"]
        everywhere = [(one.namespace, one.name) async for one in api.get(Mooring, namespace=kr8s.ALL)]
        assert (namespace, "m104") in everywhere
        (table,) = [found async for found in api.get("moorings", label_selector="odd=1", as_object=Table)]
        assert [column["name"] for column in table.column_definitions] == ["Name", "Age"]
        assert len(table.rows) == len(odd)


@in_a_loop
async def test_watching_and_waiting(moorings: ServerProcess, namespace: str) -> None:
    async with client(moorings, namespace) as api:
        one = await made(api, namespace, "one", finalizers=["example.com/keep"])

        async def follow() -> list[tuple[str, str, int]]:
            seen = []
            async for event, found in api.watch("moorings", since=one.metadata.resourceVersion):
                seen.append((event, found.name, found.spec.depth))
                if event == "DELETED":
                    break
            return seen

        await one.patch({"status": {"phase": "Free"}}, subresource="status")
        following = asyncio.ensure_future(follow())
        await made(api, namespace, "two", 7)
        waiting = [
            asyncio.ensure_future((await Mooring.get("one", namespace=namespace, api=api)).wait(condition))
            for condition in ("jsonpath='{.status.phase}'=Taken", "condition=Ready", "delete")
        ]
        await one.patch({"status": {"phase": "Taken"}}, subresource="status")
        await waiting[0]
        await one.patch({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status")
        await waiting[1]
        await one.delete()
        assert await one.exists()
        assert not waiting[2].done()
        await one.patch([{"op": "remove", "path": "/metadata/finalizers"}], type="json")
        await waiting[2]
        kinds = [(event, name) for event, name, _ in await following]
        assert kinds == [("ADDED", "two"), *[("MODIFIED", "one")] * 3, ("DELETED", "one")]


@in_a_loop
async def test_applying(moorings: ServerProcess, namespace: str) -> None:
    """kr8s has no word for it; its users call the API with what it knows of the server."""
    async with client(moorings, namespace) as api:

        async def apply(manager: str, *, force: bool = False, **spec: Any) -> dict[str, Any]:
            body = {"apiVersion": VERSION, "kind": "Mooring", "metadata": {"name": "one"}, "spec": spec}
            params = {"fieldManager": manager, **({"force": "true"} if force else {})}
            async with api.call_api(
                "PATCH",
                version=VERSION,
                url="moorings/one",
                namespace=namespace,
                params=params,
                headers={"Content-Type": APPLY},
                content=json.dumps(body),
            ) as answer:
                tree: dict[str, Any] = answer.json()
                return tree

        def owned(tree: dict[str, Any]) -> dict[str, set[str]]:
            return {entry["manager"]: set(entry["fieldsV1"]["f:spec"]) for entry in tree["metadata"]["managedFields"]}

        made = await apply("captain", depth=4, boats=2)
        assert await apply("captain", depth=4, boats=2) == made
        with pytest.raises(kr8s.ServerError, match=r'conflict with "captain": \.spec\.depth') as refused:
            await apply("harbour", depth=9, spare=1)
        status = refused.value.response.json()
        assert (status["code"], status["reason"]) == (409, "Conflict")
        assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.depth"]
        # the other gives up the field
        given_up = await apply("harbour", spare=1)
        assert (given_up["spec"]["depth"], given_up["spec"]["spare"]) == (4, 1)
        assert owned(given_up) == {"captain": {"f:depth", "f:boats"}, "harbour": {"f:spare"}}
        # or takes it
        forced = await apply("harbour", force=True, depth=9, spare=1)
        assert forced["spec"]["depth"] == 9
        assert owned(forced) == {"captain": {"f:boats"}, "harbour": {"f:depth", "f:spare"}}
        with pytest.raises(kr8s.ServerError, match=r'conflict with "harbour": \.spec\.depth'):
            await apply("captain", depth=4, boats=2)
        # and the first may agree with it, or leave it
        assert owned(await apply("captain", depth=9, boats=2))["captain"] == {"f:depth", "f:boats"}
        assert owned(await apply("captain", boats=3))["captain"] == {"f:boats"}
        # what a manager leaves out and nobody else has goes, and the default comes back
        assert (await apply("captain"))["spec"]["boats"] == 1
