"""The Python client ``kubernetes-asyncio``: its verbs on declared resources, and applying till a conflict is settled.

Its dynamic client raises nothing: what went wrong comes back as a Status.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client as k8s
from kubernetes_asyncio import config as k8s_config
from kubernetes_asyncio import watch as k8s_watch
from kubernetes_asyncio.dynamic import DynamicClient
from own_loop import in_a_loop
from server_process import ServerProcess

GROUP, VERSION, PLURAL = "hello.zeng.dev", "v2", "foos"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

Tree = dict[str, Any]
Apply = Callable[[Tree, str, bool | None], Coroutine[Any, Any, Tree]]
"""Applies an object for a manager, by force or not or without a word of it; answers the object or a Status."""


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[k8s.ApiClient]:
    configuration = k8s.Configuration()
    await k8s_config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    async with k8s.ApiClient(configuration) as client:
        yield client


@asynccontextmanager
async def dynamic_foos(server: ServerProcess, folder: Path) -> AsyncIterator[Any]:
    async with connected(server) as client:
        dynamic = await DynamicClient(client, cache_file=str(folder / "discovery"))
        yield await dynamic.resources.get(api_version="hello.zeng.dev/v2", kind="Foo")


def foo(name: str, *, image: str | None = "busybox", config: Any = None, **metadata: object) -> dict[str, Any]:
    spec = {**({"image": image} if image else {}), "config": config or {"msg": "hi"}}
    return {"apiVersion": "hello.zeng.dev/v2", "kind": "Foo", "metadata": {"name": name, **metadata}, "spec": spec}


@in_a_loop
async def test_custom_objects(hello: ServerProcess, namespace: str) -> None:
    async with connected(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        for number in range(5):
            labels = {"odd": str(number % 2)}
            await objects.create_namespaced_custom_object(*where, foo(f"foo-{number}", labels=labels))
        with pytest.raises(k8s.ApiException) as taken:
            await objects.create_namespaced_custom_object(*where, foo("foo-0"))
        assert (taken.value.status, json.loads(taken.value.body)["reason"]) == (409, "AlreadyExists")
        with pytest.raises(k8s.ApiException) as refused:
            await objects.create_namespaced_custom_object(*where, foo("one", image=None))
        assert refused.value.status == 422
        assert "spec.image: Required value" in json.loads(refused.value.body)["message"]

        async def names(**options: Any) -> list[str]:
            page = await objects.list_namespaced_custom_object(*where, **options)
            return [one["metadata"]["name"] for one in page["items"]]

        page = await objects.list_namespaced_custom_object(*where, limit=3)
        assert page["metadata"]["remainingItemCount"] == 2
        assert await names(limit=3, _continue=page["metadata"]["continue"]) == ["foo-3", "foo-4"]
        assert await names(label_selector="odd=1") == ["foo-1", "foo-3"]
        assert await names(field_selector="metadata.name!=foo-1", label_selector="odd") == [
            "foo-0", "foo-2", "foo-3", "foo-4",
        ]  # fmt: skip
        found = await objects.get_namespaced_custom_object(*where, "foo-0")
        found["spec"]["image"] = "alpine"
        await objects.replace_namespaced_custom_object(*where, "foo-0", found)
        with pytest.raises(k8s.ApiException) as stale:
            await objects.replace_namespaced_custom_object(*where, "foo-0", found)
        assert (stale.value.status, json.loads(stale.value.body)["reason"]) == (409, "Conflict")
        await objects.patch_namespaced_custom_object_status(
            *where, "foo-0", {"status": {"phase": "Ready"}}, _content_type=MERGE
        )
        assert (await objects.get_namespaced_custom_object_status(*where, "foo-0"))["status"] == {"phase": "Ready"}
        gone = await objects.delete_namespaced_custom_object(*where, "foo-0", body=k8s.V1DeleteOptions())
        assert (gone["kind"], gone["status"]) == ("Status", "Success")
        await objects.delete_collection_namespaced_custom_object(*where, label_selector="odd=1")
        assert await names() == ["foo-2", "foo-4"]


@pytest.mark.parametrize(
    ("content", "patch"),
    [
        (MERGE, {"spec": {"config": {"msg": "bye"}}}),
        (STRATEGIC, {"spec": {"config": {"msg": "bye"}}}),
        (JSON, [{"op": "replace", "path": "/spec/config/msg", "value": "bye"}]),
        (APPLY, foo("one", config={"msg": "bye"})),
    ],
    ids=["merge", "strategic merge", "JSON", "apply"],
)
@in_a_loop
async def test_patches(hello: ServerProcess, namespace: str, content: str, patch: Any) -> None:
    async with connected(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        await objects.create_namespaced_custom_object(*where, foo("one"))
        how = {"field_manager": "me", "force": True} if content == APPLY else {}
        patched = await objects.patch_namespaced_custom_object(*where, "one", patch, _content_type=content, **how)
        assert patched["spec"] == {"image": "busybox", "config": {"msg": "bye"}}


@in_a_loop
async def test_a_watch_of_custom_objects(hello: ServerProcess, namespace: str) -> None:
    async with connected(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        await objects.create_namespaced_custom_object(*where, foo("a"))
        listed = await objects.list_namespaced_custom_object(*where)
        seen = []
        async with k8s_watch.Watch() as watch:
            since = listed["metadata"]["resourceVersion"]
            await objects.create_namespaced_custom_object(*where, foo("b", labels={"tier": "web"}))
            async for event in watch.stream(
                objects.list_namespaced_custom_object, *where, resource_version=since, timeout_seconds=30
            ):
                seen.append((event["type"], event["object"]["metadata"]["name"]))
                if seen == [("ADDED", "b")]:
                    await objects.delete_namespaced_custom_object(*where, "a")
                if seen[-1][0] == "DELETED":
                    watch.stop()
        assert seen == [("ADDED", "b"), ("DELETED", "a")]


@in_a_loop
async def test_a_watch_ends_when_it_was_told_to(hello: ServerProcess, namespace: str) -> None:
    async with connected(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        await objects.create_namespaced_custom_object(*where, foo("a"))
        async with k8s_watch.Watch() as watch:
            told = [
                (event["type"], event["object"]["metadata"]["name"])
                async for event in watch.stream(objects.list_namespaced_custom_object, *where, timeout_seconds=1)
            ]
        assert told == [("ADDED", "a")]


@in_a_loop
async def test_the_dynamic_client(hello: ServerProcess, namespace: str, tmp_path: Path) -> None:
    async with dynamic_foos(hello, tmp_path) as foos:
        assert sorted(foos.verbs) == [
            "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
        ]  # fmt: skip
        created = await foos.create(body=foo("one", labels={"tier": "web"}), namespace=namespace)
        assert created.status.phase == "Processing"
        again = await foos.create(body=foo("one"), namespace=namespace)
        assert (again.kind, again.code, again.reason) == ("Status", 409, "AlreadyExists")
        changed = created.to_dict()
        changed["spec"]["image"] = "alpine"
        assert (await foos.replace(body=changed, namespace=namespace)).spec.image == "alpine"
        stale = await foos.replace(body=changed, namespace=namespace)
        assert (stale.kind, stale.code, stale.reason) == ("Status", 409, "Conflict")

        async def patch(body: Any, content: str, **options: Any) -> Any:
            return await foos.patch(body=body, name="one", namespace=namespace, content_type=content, **options)

        for content in (STRATEGIC, MERGE):
            merged = await patch({"spec": {"config": {"msg1": "there"}}}, content)
            assert merged.spec.to_dict() == {"image": "alpine", "config": {"msg": "hi", "msg1": "there"}}
        assert (await patch({"spec": {"image": "other"}}, MERGE, dry_run="All")).spec.image == "other"
        assert (await foos.get(name="one", namespace=namespace)).spec.image == "alpine"
        found = await foos.get(namespace=namespace, label_selector="tier")
        assert [one.metadata.name for one in found.items] == ["one"]
        watch = k8s_watch.Watch()
        async with watch:
            async for event in foos.watch(namespace=namespace, name="one", timeout=30, watcher=watch):
                assert (event["type"], event["object"].metadata.name) == ("ADDED", "one")
                watch.stop()
        assert (await foos.delete(name="one", namespace=namespace)).status == "Success"
        gone = await foos.get(name="one", namespace=namespace)
        assert (gone.kind, gone.code, gone.reason) == ("Status", 404, "NotFound")


@asynccontextmanager
async def applying_custom_objects(server: ServerProcess, namespace: str, folder: Path) -> AsyncIterator[Apply]:
    async with connected(server) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)

        async def apply(body: Tree, manager: str, force: bool | None) -> Tree:
            options = {"field_manager": manager, **({} if force is None else {"force": force})}
            name = body["metadata"]["name"]
            try:
                tree = await objects.patch_namespaced_custom_object(*where, name, body, _content_type=APPLY, **options)
            except k8s.ApiException as error:
                return dict(json.loads(error.body))
            # of 201 this client makes nothing
            return dict(tree or await objects.get_namespaced_custom_object(*where, name))

        yield apply


@asynccontextmanager
async def applying_with_the_dynamic_client(server: ServerProcess, namespace: str, folder: Path) -> AsyncIterator[Apply]:
    async with dynamic_foos(server, folder) as foos:

        async def apply(body: Tree, manager: str, force: bool | None) -> Tree:
            done = await foos.server_side_apply(
                body=body, namespace=namespace, field_manager=manager, force_conflicts=force
            )
            return dict(done.to_dict())

        yield apply


@pytest.mark.parametrize("applying", [applying_custom_objects, applying_with_the_dynamic_client])
@in_a_loop
async def test_applying(hello: ServerProcess, namespace: str, tmp_path: Path, applying: Any) -> None:
    async with applying(hello, namespace, tmp_path) as apply:

        async def applied(manager: str, image: str | None, force: bool | None = None) -> tuple[str, set[str]]:
            """The image now, and who has it."""
            tree = await apply(foo("one", image=image), manager, force)
            assert tree["kind"] == "Foo", tree
            entries = tree["metadata"]["managedFields"]
            assert {entry["operation"] for entry in entries} == {"Apply"}
            owners = {entry["manager"] for entry in entries if "f:image" in entry["fieldsV1"]["f:spec"]}
            return tree["spec"]["image"], owners

        async def refused(manager: str, image: str, force: bool | None = None) -> tuple[str, list[str]]:
            """What is said, and the fields in conflict."""
            status = await apply(foo("one", image=image), manager, force)
            assert (status["kind"], status["code"], status["reason"]) == ("Status", 409, "Conflict")
            causes = status["details"]["causes"]
            assert {cause["reason"] for cause in causes} == {"FieldManagerConflict"}
            return status["message"], [cause["field"] for cause in causes]

        assert await applied("first", "busybox") == ("busybox", {"first"})
        conflict = 'Apply failed with 1 conflict: conflict with "first": .spec.image'
        assert await refused("second", "alpine") == (conflict, [".spec.image"])
        assert await refused("second", "alpine", force=False) == (conflict, [".spec.image"])
        # the second gives up the field
        assert await applied("second", None) == ("busybox", {"first"})
        # or takes it
        assert await applied("second", "alpine", force=True) == ("alpine", {"second"})
        assert await refused("first", "busybox") == (conflict.replace("first", "second"), [".spec.image"])
        # and the first may leave it, or agree with it
        assert await applied("first", None) == ("alpine", {"second"})
        assert await applied("first", "alpine") == ("alpine", {"first", "second"})
