"""The Python clients ``kubernetes`` and ``lightkube``: objects, pages, and watches that outlive a server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import lightkube
import pytest
import urllib3
from kubernetes import client as k8s
from kubernetes import config as k8s_config
from kubernetes import watch as k8s_watch
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic import exceptions as dynamic_errors
from lightkube.core.exceptions import ApiError
from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.types import PatchType
from server_process import ServerProcess

GROUP, VERSION, PLURAL = "hello.zeng.dev", "v2", "foos"
FOOS = "/apis/hello.zeng.dev/v2/namespaces/default/foos"
DEADLINE_S = 120.0
PAUSE_S = 0.05
NOT_READY = (429, 503)
"""What a server says while it starts or leaves."""

Event = tuple[str, str]
"""What happened, and to which object."""


# These clients leave sockets to the garbage collector when a server goes away under them.
pytestmark = [
    pytest.mark.usefixtures("sockets_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def foo(name: str, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "hello.zeng.dev/v2",
        "kind": "Foo",
        "metadata": {"name": name, **metadata},
        "spec": {"image": "busybox", "config": {"msg": "hi"}},
    }


@contextmanager
def kubernetes_client(server: ServerProcess) -> Iterator[k8s.ApiClient]:
    configuration = k8s.Configuration()
    configuration.retries = False  # the tests try again themselves, and sooner
    k8s_config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    with k8s.ApiClient(configuration) as client:
        yield client


LAST: Event = ("DELETED", "a")
"""The event after which nothing more is watched."""

Follow = Callable[[Callable[[Event], bool]], None]
"""Watches, hands over every event, and returns when it is answered that this was the last."""


class Followed:
    """Runs a watch in a thread; what it yields is waited for here."""

    def __init__(self, follow: Follow) -> None:
        self._events: SimpleQueue[Event | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(follow,), daemon=True)
        self._thread.start()

    def next(self) -> Event:
        event = self._events.get(timeout=DEADLINE_S)
        if isinstance(event, BaseException):
            raise event
        return event

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def _run(self, follow: Follow) -> None:
        try:
            follow(self._saw)
        except BaseException as error:
            self._events.put(error)

    def _saw(self, event: Event) -> bool:
        self._events.put(event)
        return event == LAST


# kubernetes


def test_kubernetes_dynamic_client(hello: ServerProcess, namespace: str, tmp_path: Path) -> None:
    with kubernetes_client(hello) as client:
        dynamic = DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        foos = dynamic.resources.get(api_version="hello.zeng.dev/v2", kind="Foo")
        assert foos.short_names == ["fo"]
        created = foos.create(body=foo("one"), namespace=namespace)
        assert created.status.phase == "Processing"
        with pytest.raises(dynamic_errors.ConflictError):
            foos.create(body=foo("one"), namespace=namespace)
        changed = created.to_dict()
        changed["spec"]["image"] = "alpine"
        replaced = foos.replace(body=changed, namespace=namespace)
        with pytest.raises(dynamic_errors.ConflictError):
            foos.replace(body=changed, namespace=namespace)
        merged = foos.patch(
            body={"spec": {"config": {"msg1": "there"}}},
            name="one",
            namespace=namespace,
            content_type="application/merge-patch+json",
        )
        assert merged.spec.to_dict() == {"image": "alpine", "config": {"msg": "hi", "msg1": "there"}}
        assert int(merged.metadata.resourceVersion) > int(replaced.metadata.resourceVersion)
        assert [one.metadata.name for one in foos.get(namespace=namespace).items] == ["one"]
        foos.delete(name="one", namespace=namespace)
        with pytest.raises(dynamic_errors.NotFoundError):
            foos.get(name="one", namespace=namespace)


def test_kubernetes_dynamic_client_applies(hello: ServerProcess, namespace: str, tmp_path: Path) -> None:
    with kubernetes_client(hello) as client:
        dynamic = DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        foos = dynamic.resources.get(api_version="hello.zeng.dev/v2", kind="Foo")

        def apply(body: dict[str, Any], manager: str, **options: Any) -> Any:
            return foos.server_side_apply(
                body=body, name="one", namespace=namespace, field_manager=manager, **options
            ).to_dict()

        made = apply(foo("one"), "first")
        assert [entry["operation"] for entry in made["metadata"]["managedFields"]] == ["Apply"]
        assert apply(foo("one"), "first") == made
        changed = foo("one")
        changed["spec"]["image"] = "alpine"
        with pytest.raises(dynamic_errors.ConflictError) as refused:
            apply(changed, "second")
        assert refused.value.status == 409
        causes = json.loads(refused.value.body)["details"]["causes"]
        assert [(cause["reason"], cause["field"]) for cause in causes] == [("FieldManagerConflict", ".spec.image")]
        forced = apply(changed, "second", force_conflicts=True)
        assert forced["spec"]["image"] == "alpine"
        # the first manager gives up what it lost, and may then go on
        agreed = foo("one")
        del agreed["spec"]["image"]
        agreed["spec"]["config"]["msg"] = "bye"
        with pytest.raises(dynamic_errors.ConflictError):
            apply(agreed, "first")
        shared = foo("one")
        shared["spec"]["image"] = "alpine"
        assert apply(shared, "first")["spec"] == {"image": "alpine", "config": {"msg": "hi"}}


MERGE = "application/merge-patch+json"
PATCHES: dict[str, tuple[str, Any]] = {
    "merge": (MERGE, {"spec": {"config": {"msg": "bye"}}}),
    "strategic merge": ("application/strategic-merge-patch+json", {"spec": {"config": {"msg": "bye"}}}),
    "JSON": ("application/json-patch+json", [{"op": "replace", "path": "/spec/config/msg", "value": "bye"}]),
    "apply": ("application/apply-patch+yaml", {**foo("one"), "spec": {"config": {"msg": "bye"}}}),
}


@pytest.mark.parametrize("kind", PATCHES)
def test_kubernetes_patches(hello: ServerProcess, namespace: str, tmp_path: Path, kind: str) -> None:
    content, patch = PATCHES[kind]
    with kubernetes_client(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        foos = DynamicClient(client, cache_file=str(tmp_path / "discovery")).resources.get(
            api_version="hello.zeng.dev/v2", kind="Foo"
        )
        force = {"field_manager": "me"} if kind == "apply" else {}
        for name in ("one", "two"):
            objects.create_namespaced_custom_object(*where, foo(name))
        patched = objects.patch_namespaced_custom_object(
            *where, "one", patch, _content_type=content, **force, **({"force": True} if force else {})
        )
        assert patched["spec"] == {"image": "busybox", "config": {"msg": "bye"}}
        body = {**patch, "metadata": {"name": "two"}} if kind == "apply" else patch
        again = foos.patch(
            body=body,
            name="two",
            namespace=namespace,
            content_type=content,
            **force,
            **({"force_conflicts": True} if force else {}),
        )
        assert again.spec.to_dict() == patched["spec"]


def test_kubernetes_dynamic_client_watches(hello: ServerProcess, namespace: str, tmp_path: Path) -> None:
    with kubernetes_client(hello) as client:
        dynamic = DynamicClient(client, cache_file=str(tmp_path / "discovery"))
        foos = dynamic.resources.get(api_version="hello.zeng.dev/v2", kind="Foo")
        foos.create(body=foo("a"), namespace=namespace)
        since = foos.get(namespace=namespace).metadata.resourceVersion
        foos.create(body=foo("b", labels={"tier": "web"}), namespace=namespace)
        foos.delete(name="a", namespace=namespace)
        foos.patch(body={"metadata": {"labels": None}}, name="b", namespace=namespace, content_type=MERGE)
        watcher = k8s_watch.Watch()
        seen = []
        for event in foos.watch(namespace=namespace, resource_version=since, timeout=30, watcher=watcher):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 3:
                watcher.stop()
        assert seen == [("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b")]
        labelled = foos.watch(namespace=namespace, label_selector="tier=web", timeout=1)
        assert [event["type"] for event in labelled] == []


def test_kubernetes_custom_objects(hello: ServerProcess, namespace: str) -> None:
    with kubernetes_client(hello) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, namespace, PLURAL)
        for number in range(5):
            objects.create_namespaced_custom_object(*where, foo(f"foo-{number}"))
        names: list[str] = []
        sizes: list[int] = []
        token: str | None = None
        while token != "":
            page = objects.list_namespaced_custom_object(*where, limit=2, **({"_continue": token} if token else {}))
            names += [one["metadata"]["name"] for one in page["items"]]
            sizes.append(len(page["items"]))
            token = page["metadata"].get("continue", "")
        assert names == [f"foo-{number}" for number in range(5)]
        assert sizes == [2, 2, 1]
        objects.patch_namespaced_custom_object_status(*where, "foo-0", {"status": {"phase": "Ready"}})
        assert objects.get_namespaced_custom_object(*where, "foo-0")["status"] == {"phase": "Ready"}
        objects.delete_collection_namespaced_custom_object(*where)
        assert objects.list_namespaced_custom_object(*where)["items"] == []
        with pytest.raises(k8s.ApiException) as refused:
            objects.create_namespaced_custom_object(*where, {**foo("one"), "spec": {"image": ""}})
        assert refused.value.status == 422


def test_kubernetes_watch_goes_on_after_a_restart(
    restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    with kubernetes_client(restartable) as client:
        objects = k8s.CustomObjectsApi(client)

        def follow(saw: Callable[[Event], bool]) -> None:
            watch, last = k8s_watch.Watch(), "0"
            while True:
                try:
                    for event in watch.stream(
                        objects.list_namespaced_custom_object, GROUP, VERSION, "default", PLURAL, resource_version=last
                    ):
                        last = event["object"]["metadata"]["resourceVersion"]
                        if saw((event["type"], event["object"]["metadata"]["name"])):
                            return
                except urllib3.exceptions.HTTPError:
                    time.sleep(PAUSE_S)
                except k8s.ApiException as error:
                    if error.status not in NOT_READY:
                        raise
                    time.sleep(PAUSE_S)

        _outlives_a_restart(restartable, api(restartable), follow)


def test_kubernetes_is_told_when_a_version_is_forgotten(
    restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    old = _forgotten_version(restartable, api(restartable))
    with kubernetes_client(restartable) as client:
        objects, where = k8s.CustomObjectsApi(client), (GROUP, VERSION, "default", PLURAL)
        with pytest.raises(k8s.ApiException) as told:
            for _ in k8s_watch.Watch().stream(
                objects.list_namespaced_custom_object, *where, resource_version=old, timeout_seconds=5
            ):
                pass
        assert told.value.status == 410
        assert "Expired" in str(told.value)
        current = objects.list_namespaced_custom_object(*where)
        assert [one["metadata"]["name"] for one in current["items"]] == ["b"]


# lightkube


def lightkube_foos(server: ServerProcess, namespace: str) -> tuple[lightkube.Client, type[GenericNamespacedResource]]:
    config = lightkube.KubeConfig.from_file(server.kubeconfig)
    return lightkube.Client(config=config, namespace=namespace), create_namespaced_resource(
        GROUP, VERSION, "Foo", PLURAL
    )


def test_lightkube(hello: ServerProcess, namespace: str) -> None:
    client, foos = lightkube_foos(hello, namespace)
    for number in range(5):
        client.create(foos.from_dict(foo(f"foo-{number}", labels={"odd": str(number % 2)})))
    with pytest.raises(ApiError) as refused:
        client.create(foos.from_dict(foo("foo-0")))
    assert refused.value.status.reason == "AlreadyExists"
    assert [one.metadata.name for one in client.list(foos, chunk_size=2)] == [f"foo-{number}" for number in range(5)]
    assert [one.metadata.name for one in client.list(foos, labels={"odd": "1"})] == ["foo-1", "foo-3"]
    assert [one.metadata.name for one in client.list(foos, fields={"metadata.name": "foo-2"})] == ["foo-2"]
    found = client.get(foos, "foo-0")
    found["spec"]["image"] = "alpine"
    replaced = client.replace(found)
    assert replaced["spec"]["image"] == "alpine"
    with pytest.raises(ApiError) as stale:
        client.replace(found)
    assert stale.value.status.reason == "Conflict"
    merged = client.patch(foos, "foo-0", {"spec": {"config": {"msg": "bye"}}}, patch_type=PatchType.MERGE)
    assert merged["spec"] == {"image": "alpine", "config": {"msg": "bye"}}
    tested = [
        {"op": "test", "path": "/spec/image", "value": "alpine"},
        {"op": "remove", "path": "/metadata/labels/odd"},
    ]
    assert "odd" not in client.patch(foos, "foo-0", tested, patch_type=PatchType.JSON).metadata.labels
    client.delete(foos, "foo-0")
    client.deletecollection(foos)
    assert list(client.list(foos)) == []
    with pytest.raises(ApiError) as gone:
        client.get(foos, "foo-0")
    assert gone.value.status.code == 404


def test_lightkube_applies(hello: ServerProcess, namespace: str) -> None:
    client, foos = lightkube_foos(hello, namespace)

    def owners() -> list[tuple[str, str]]:
        entries = client.get(foos, "one").metadata.managedFields
        return [(entry.manager, entry.operation) for entry in entries]

    made = client.apply(foos.from_dict(foo("one")), field_manager="first")
    again = client.apply(foos.from_dict(foo("one")), field_manager="first")
    assert again.metadata.resourceVersion == made.metadata.resourceVersion
    labelled = {"apiVersion": "hello.zeng.dev/v2", "kind": "Foo", "metadata": {"name": "one", "labels": {"a": "1"}}}
    merged = client.apply(foos.from_dict(labelled), field_manager="second")
    assert merged.metadata.labels["a"] == "1"
    assert merged["spec"] == made["spec"]
    other = foo("one")
    other["spec"]["config"]["msg"] = "bye"
    with pytest.raises(ApiError) as refused:
        client.apply(foos.from_dict(other), field_manager="third")
    assert refused.value.status.code == 409
    assert refused.value.status.message == ('Apply failed with 1 conflict: conflict with "first": .spec.config.msg')
    forced = client.apply(foos.from_dict(other), field_manager="third", force=True)
    assert forced["spec"]["config"] == {"msg": "bye"}
    assert sorted(owners()) == [("first", "Apply"), ("second", "Apply"), ("third", "Apply")]
    status = {**labelled, "metadata": {"name": "one"}, "status": {"phase": "Ready"}}
    client.apply(foos.Status.from_dict(status), field_manager="controller")
    assert client.get(foos, "one")["status"] == {"phase": "Ready"}
    assert ("controller", "Apply") in owners()


@pytest.mark.parametrize("kind", PATCHES)
def test_lightkube_patches(hello: ServerProcess, namespace: str, kind: str) -> None:
    content, patch = PATCHES[kind]
    client, foos = lightkube_foos(hello, namespace)
    client.create(foos.from_dict(foo("one")))
    options = {"field_manager": "me", "force": True} if kind == "apply" else {}
    patched = client.patch(foos, "one", patch, patch_type=PatchType(content), **options)
    assert patched["spec"] == {"image": "busybox", "config": {"msg": "bye"}}


def test_lightkube_gives_up_a_field_or_agrees(hello: ServerProcess, namespace: str) -> None:
    client, foos = lightkube_foos(hello, namespace)

    def apply(manager: str, **spec: Any) -> tuple[dict[str, Any], set[str]]:
        """What there is, and who owns the image."""
        body = {**foo("one"), "spec": {"config": {"msg": "hi"}, **spec}}
        found = client.apply(foos.from_dict(body), field_manager=manager)
        entries = found.metadata.managedFields
        return found["spec"], {entry.manager for entry in entries if "f:image" in entry.fieldsV1["f:spec"]}

    apply("first", image="busybox")
    with pytest.raises(ApiError) as refused:
        apply("second", image="alpine")
    assert refused.value.status.reason == "Conflict"
    assert apply("second") == (foo("one")["spec"], {"first"})
    assert apply("second", image="busybox") == (foo("one")["spec"], {"first", "second"})
    # now that both own it, neither may change it alone, and either may leave it
    with pytest.raises(ApiError):
        apply("first", image="alpine")
    assert apply("first") == (foo("one")["spec"], {"second"})
    changed = {**foo("one")["spec"], "image": "alpine"}
    assert apply("second", image="alpine") == (changed, {"second"})


def test_lightkube_waits(hello: ServerProcess, namespace: str) -> None:
    client, foos = lightkube_foos(hello, namespace)
    client.create(foos.from_dict(foo("one")))
    conditions = {"status": {"conditions": [{"type": "Worker", "status": "True"}]}}
    meanwhile = threading.Thread(
        target=client.patch, args=(foos.Status, "one", conditions), kwargs={"patch_type": PatchType.MERGE}
    )
    meanwhile.start()
    try:
        found = client.wait(foos, "one", for_conditions=["Worker"], raise_for_conditions=["Failed"])
    finally:
        meanwhile.join()
    assert found.status["conditions"][0]["type"] == "Worker"


def test_lightkube_watch_goes_on_after_a_restart(
    restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    client, foos = lightkube_foos(restartable, "default")

    def follow(saw: Callable[[Event], bool]) -> None:
        last = "0"
        while True:
            try:
                for kind, one in client.watch(foos, resource_version=last):
                    last = one.metadata.resourceVersion
                    if saw((kind, one.metadata.name)):
                        return
            except ApiError as error:
                if error.status.code not in NOT_READY:
                    raise
                time.sleep(PAUSE_S)
            except Exception:  # of the HTTP library lightkube uses, which is not the same in each of its versions
                time.sleep(PAUSE_S)

    _outlives_a_restart(restartable, api(restartable), follow)


def test_lightkube_is_told_when_a_version_is_forgotten(
    restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    old = _forgotten_version(restartable, api(restartable))
    client, foos = lightkube_foos(restartable, "default")
    with pytest.raises(ApiError) as told:
        for _ in client.watch(foos, resource_version=old, server_timeout=5):
            pass
    assert told.value.status.code == 410
    assert told.value.status.reason == "Expired"


def _outlives_a_restart(server: ServerProcess, call: Any, follow: Follow) -> None:
    """Nothing is missed and nothing comes twice, although the server dies in between."""
    call("POST", FOOS, foo("a"))
    followed = Followed(follow)
    assert followed.next() == ("ADDED", "a")
    call.merge(f"{FOOS}/a", {"metadata": {"labels": {"seen": "yes"}}})
    assert followed.next() == ("MODIFIED", "a")
    server.restart()
    call("POST", FOOS, foo("b"))
    assert followed.next() == ("ADDED", "b")
    server.stop()
    server.start()
    call("DELETE", f"{FOOS}/a")
    assert followed.next() == LAST
    followed.join()


def _forgotten_version(server: ServerProcess, call: Any) -> str:
    """A resource version from before the store was compacted and the server started anew."""
    old = call("POST", FOOS, foo("a"))["metadata"]["resourceVersion"]
    call("DELETE", f"{FOOS}/a")
    call("POST", FOOS, foo("b"))
    server.stop()
    server.compact()
    server.start()
    return str(old)
