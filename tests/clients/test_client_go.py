"""client-go, as controllers use it: informers that list by watching, over a restart and over a forgotten history."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubectl import Running
from server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(720)]

FOOS = "/apis/hello.zeng.dev/v2/namespaces/{}/foos"


class Lines:
    """What the program tells, line by line."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def next(self, *events: str, **fields: Any) -> dict[str, Any]:
        """The next line of one of `events` that has `fields`; what comes before it is passed over."""
        while True:
            told = self.any()
            if told["event"] in events and all(told.get(name) == value for name, value in fields.items()):
                return told

    def any(self) -> dict[str, Any]:
        while not (line := self._running.line(timeout=120)).startswith("{"):
            pass
        told: dict[str, Any] = json.loads(line)
        return told

    def until(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """All lines up to that one, and it."""
        told = [self.any()]
        while told[-1]["event"] != event or any(told[-1].get(name) != value for name, value in fields.items()):
            told.append(self.any())
        return told


@contextmanager
def running(
    clients: Path, server: ServerProcess, what: str, namespace: str, watch_list: bool = True, cbor: bool = False
) -> Iterator[Lines]:
    features = {"WatchListClient": watch_list, "ClientsAllowCBOR": cbor, "ClientsPreferCBOR": cbor}
    process = subprocess.Popen(
        [str(clients), "-kubeconfig", str(server.kubeconfig), "-namespace", namespace, what],
        env={**os.environ, **{f"KUBE_FEATURE_{name}": str(on).lower() for name, on in features.items()}},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    told = Running(process)
    try:
        with process.stdin:
            yield Lines(told)
        told.rest()
    finally:
        process.kill()
        process.wait()
        told.close()


def foo(name: str) -> dict[str, Any]:
    spec = {"image": "busybox", "config": {"msg": "hi"}}
    return {"apiVersion": "hello.zeng.dev/v2", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(("what", "kind"), [("dynamic", "Foo"), ("metadata", "PartialObjectMetadata")])
@pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list-and-watch"])
def test_informers(
    clients: Path,
    hello: ServerProcess,
    api: Callable[[ServerProcess], Any],
    namespace: str,
    what: str,
    kind: str,
    watch_list: bool,
) -> None:
    call, path = api(hello), FOOS.format(namespace)
    for name in ("a", "b"):
        call("POST", path, foo(name))
    with running(clients, hello, what, namespace, watch_list) as lines:
        start = lines.until("synced")
        assert sorted(start[-1]["names"]) == [f"{namespace}/a", f"{namespace}/b"]
        # client-go leaves the kind out of metadata that comes in a watch
        assert {one.get("kind", kind) for one in start if one["event"] == "add"} == {kind}
        forms = {one["got"].partition(";")[0] for one in start if one["event"] == "request"}
        assert forms == {"application/vnd.kubernetes.protobuf" if what == "metadata" else "application/json"}
        queries = [one["query"] for one in start if one["event"] == "request"]
        if watch_list:
            assert [query.get("sendInitialEvents") for query in queries] == ["true"]
            assert queries[0]["allowWatchBookmarks"] == "true"
        else:
            assert "watch" not in queries[0]
        call("POST", path, foo("c"))
        assert lines.next("add")["name"] == "c"
        changed = call.merge(f"{path}/a", {"metadata": {"labels": {"seen": "yes"}}})
        updated = lines.next("update")
        assert updated["labels"]["seen"] == "yes"
        assert updated["version"] == changed["metadata"]["resourceVersion"]
        call("DELETE", f"{path}/b")
        assert lines.next("delete")["name"] == "b"


def test_a_reflector_goes_on_where_it_was_after_a_restart(
    clients: Path, restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    call, path = api(restartable), FOOS.format("default")
    call("POST", path, foo("a"))
    with running(clients, restartable, "dynamic", "default") as lines:
        lines.until("synced")
        last = call("POST", path, foo("b"))["metadata"]["resourceVersion"]
        lines.next("add", name="b")
        restartable.restart()
        call("POST", path, foo("c"))
        since = lines.until("add")
        assert since[-1]["name"] == "c"
        answered = [one["query"] for one in since if one["event"] == "request" and one.get("code") == 200]
        assert [query["resourceVersion"] for query in answered] == [last]
        assert "sendInitialEvents" not in answered[0]


def test_a_reflector_starts_over_when_its_version_is_forgotten(
    clients: Path, restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    call, path = api(restartable), FOOS.format("default")
    for name in ("a", "b"):
        call("POST", path, foo(name))
    with running(clients, restartable, "dynamic", "default") as lines:
        lines.until("synced")
        call.merge(f"{path}/b", {"metadata": {"labels": {"seen": "yes"}}})
        lines.next("update", name="b")  # a watch that ends without an event is listed anew in any case
        elsewhere = ServerProcess(restartable.folder / "elsewhere", "hello", restartable.storage)
        restartable.kill()
        with elsewhere:
            other = api(elsewhere)
            other("DELETE", f"{path}/a")
            other("POST", path, foo("c"))
        restartable.compact()
        restartable.start()
        since = lines.until("delete")
        assert since[-1]["name"] == "a"
        assert "c" in [one["name"] for one in since if one["event"] == "add"] or lines.next("add")["name"] == "c"
        queries = [one["query"] for one in since if one["event"] == "request" and one.get("code") == 200]
        assert "sendInitialEvents" not in queries[0]
        assert queries[-1]["sendInitialEvents"] == "true"


def test_history_may_be_forgotten_under_a_running_informer(
    clients: Path, restartable: ServerProcess, api: Callable[[ServerProcess], Any]
) -> None:
    call, path = api(restartable), FOOS.format("default")
    call("POST", path, foo("a"))
    with running(clients, restartable, "metadata", "default") as lines:
        lines.until("synced")
        for number in range(5):
            call.merge(f"{path}/a", {"metadata": {"labels": {"number": str(number)}}})
        restartable.compact()
        call("POST", path, foo("b"))
        since = lines.until("add")
        assert since[-1]["name"] == "b"
        assert [one for one in since if one["event"] == "request"] == []


def test_the_pager(clients: Path, hello: ServerProcess, api: Callable[[ServerProcess], Any], namespace: str) -> None:
    names = [f"foo-{number}" for number in range(5)]
    for name in names:
        api(hello)("POST", FOOS.format(namespace), foo(name))
    with running(clients, hello, "pager", namespace) as lines:
        told = lines.until("paged")
    assert told[-1]["names"] == names
    queries = [one["query"] for one in told if one["event"] == "request"]
    assert [query["limit"] for query in queries] == ["2", "2", "2"]
    assert ["continue" in query for query in queries] == [False, True, True]


@pytest.mark.parametrize("cbor", [False, True], ids=["json", "cbor"])
def test_writes(clients: Path, hello: ServerProcess, namespace: str, cbor: bool) -> None:
    with running(clients, hello, "writer", namespace, cbor=cbor) as lines:
        told = lines.until("gone", name="NotFound")
    assert [(one["name"], one["kind"]) for one in told if one["event"] == "wrote"] == [
        ("one", "Foo"), ("two", "Foo"), ("three", "Foo"), ("three", "Foo"),
    ]  # fmt: skip
    requests = [one for one in told if one["event"] == "request"]
    media = "application/cbor" if cbor else "application/json"
    assert {one["got"] for one in requests} == {media}
    applied = "application/apply-patch+cbor" if cbor else "application/apply-patch+yaml"
    assert [one["sent"] for one in requests if "sent" in one and one["sent"] != media] == [applied]


@pytest.mark.parametrize("cbor", [False, True], ids=["json", "cbor"])
def test_appliers_settle_a_conflict(clients: Path, hello: ServerProcess, namespace: str, cbor: bool) -> None:
    with running(clients, hello, "appliers", namespace, cbor=cbor) as lines:
        told = [lines.next("applied", "refused") for _ in range(7)]
    conflict = 'Apply failed with 1 conflict: conflict with "{}": .spec.image'
    field = ["FieldManagerConflict .spec.image"]
    assert [(one["event"], one["name"], one["names"]) for one in told] == [
        ("applied", "busybox", ["first"]),
        ("refused", conflict.format("first"), field),
        ("applied", "busybox", ["first"]),  # the second gave it up
        ("applied", "alpine", ["second"]),  # the second took it
        ("refused", conflict.format("second"), field),
        ("applied", "alpine", ["first", "second"]),  # the first agreed
        ("applied", "alpine", ["second"]),  # the first left it
    ]


def test_an_informer_in_cbor(
    clients: Path, hello: ServerProcess, api: Callable[[ServerProcess], Any], namespace: str
) -> None:
    call, path = api(hello), FOOS.format(namespace)
    created = call("POST", path, foo("a"))
    with running(clients, hello, "dynamic", namespace, cbor=True) as lines:
        start = lines.until("synced")
        (request,) = (one for one in start if one["event"] == "request")
        assert request["got"] == "application/cbor-seq"
        assert [one["version"] for one in start if one["event"] == "add"] == [created["metadata"]["resourceVersion"]]
        call.merge(f"{path}/a", {"metadata": {"labels": {"seen": "yes"}}})
        assert lines.next("update")["labels"] == {**created["metadata"].get("labels", {}), "seen": "yes"}
        call("DELETE", f"{path}/a")
        assert lines.next("delete")["name"] == "a"


@pytest.fixture(scope="module")
def leases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    program = Path(__file__).parent / "leases" / "server.py"
    with ServerProcess(tmp_path_factory.mktemp("leases"), program, "memory://") as server:
        yield server


def test_a_typed_client_in_protobuf(clients: Path, leases: ServerProcess, namespace: str) -> None:
    """With Kubernetes' own type of a lease, as leader election and generated clients use it."""
    with running(clients, leases, "leases", namespace) as lines:
        told = lines.until("done")
    wrote = [one for one in told if one["event"] == "wrote"]
    assert [(one["name"], one["labels"]) for one in wrote] == [
        (n, {"a": "b"}) for n in ("one", "two", "three", "three")
    ]
    (listed,) = (one for one in told if one["event"] == "listed")
    assert listed["names"] == ["leader", "three"]
    ends = {
        one["event"]: (one["name"], one.get("kind", "")) for one in told if one["event"] in ("kept", "gone", "refused")
    }
    assert ends == {"kept": ("Conflict", ""), "gone": ("NotFound", ""), "refused": ("Invalid", "metadata.name")}
    assert [(one["kind"], one["name"]) for one in told if one["event"] == "seen"] == [
        ("ADDED", "one"), ("MODIFIED", "two"), ("MODIFIED", "three"), ("DELETED", "three"),
    ]  # fmt: skip
    requests = [one for one in told if one["event"] == "request"]
    assert {one["got"].partition(";")[0] for one in requests} == {"application/vnd.kubernetes.protobuf"}
    assert {one["sent"] for one in requests if "sent" in one} == {
        "application/vnd.kubernetes.protobuf",
        "application/merge-patch+json",
    }
