"""What kube-controller-manager and kube-scheduler ask of a control plane, request by request, in protobuf, under RBAC.

The requests are those that the real programs made: to start, to elect a leader, to make a Deployment's pods and to bind
them to a Node.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.codec.protowire import fields_in
from oarlock.endpoints.http import Response
from oarlock.server.config import ServerConfig
from oarlock.testing import InMemory
from oarlock.testing.server import Answer, Lines

pytestmark = pytest.mark.anyio

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPT = f"{PROTOBUF}, */*"
METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
SMP = "application/strategic-merge-patch+json"
WATCH_LIST = (
    "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=30"
)
RBAC = ServerConfig(storage="memory://", authorization_mode=("RBAC",))
APPS, CORE = "/apis/apps/v1/namespaces/default", "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


PACKAGES = {"": "core", "coordination.k8s.io": "coordination", "events.k8s.io": "events", "meta.k8s.io": "meta"}
META_KINDS = ("Status", "PartialObjectMetadata", "PartialObjectMetadataList")


def opened(data: bytes) -> Any:
    """The object in an envelope."""
    kind = protobuf.opened(data)[0]
    group, _, version = kind["apiVersion"].rpartition("/")
    package = "meta" if kind["kind"] in META_KINDS else PACKAGES.get(group, group.partition(".")[0])
    return protobuf.decode(data, kubernetes_message(f"{package}.{version}.{kind['kind']}"))


class Frames(Lines):
    """A watch in protobuf: a length, then an event whose object is in an envelope."""

    def __init__(self, response: Response) -> None:
        super().__init__(response)
        self._data = b""
        self._more = asyncio.Event()

    def write(self, data: bytes) -> None:
        self._data += data
        self._more.set()

    async def next(self) -> tuple[str, Any]:
        while len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4], "big"):
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 60)
        size = 4 + int.from_bytes(self._data[:4], "big")
        frame, self._data = self._data[4:size], self._data[size:]
        (_, _, event), (_, _, raw) = fields_in(frame)
        ((_, _, shown),) = fields_in(raw)
        return event.decode(), opened(shown)


class Program:
    """A client that speaks as typed clients in Go do."""

    def __init__(self, api: InMemory, name: str) -> None:
        self.api = api
        self.headers = {"accept": ACCEPT, "impersonate-user": f"system:{name}"}

    async def send(self, method: str, path: str, tree: Any = None, media: str = PROTOBUF) -> Answer:
        """Send `tree`, in protobuf unless it is a patch."""
        data = None if tree is None else json.dumps(tree).encode()
        if tree is not None and media == PROTOBUF:
            group, _, version = tree["apiVersion"].rpartition("/")
            message = kubernetes_message(f"{PACKAGES.get(group, group.partition('.')[0])}.{version}.{tree['kind']}")
            data = protobuf.envelope(tree["apiVersion"], tree["kind"], message.write(tree))
        return await self.api.request(method, path, data, {**self.headers, "content-type": media})

    async def does(self, method: str, path: str, tree: Any = None, media: str = PROTOBUF) -> Any:
        """The object in an answer that must be a success, in protobuf."""
        answer = await self.send(method, path, tree, media)
        assert answer.status in (200, 201), (method, path, answer)
        assert answer.headers["content-type"] == PROTOBUF, (method, path, answer)
        return opened(answer.body)

    @asynccontextmanager
    async def watches(self, path: str, selector: str = "", accept: str = ACCEPT) -> AsyncIterator[Frames]:
        query = f"{path}?{WATCH_LIST}{selector}"
        response = await self.api._send("GET", query, None, {**self.headers, "accept": accept})
        assert response.status == 200, (path, response.status)
        assert ("content-type", f"{PROTOBUF};stream=watch") in response.headers
        frames = Frames(response)
        assert response.stream is not None
        response.stream(frames)
        try:
            yield frames
        finally:
            frames.leave()

    async def elects(self, name: str) -> None:
        """Make the lease and renew it, as leader election does."""
        assert (await self.send("GET", f"{LEASES}/{name}?timeout=5s")).status == 404
        spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "leaseTransitions": 0}
        times = dict.fromkeys(("acquireTime", "renewTime"), "2027-01-15T08:00:00.123456Z")
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": spec | times,
        }
        made = await self.does("POST", f"{LEASES}?timeout=5s", lease)
        assert made["spec"] == spec | times
        made["spec"]["renewTime"] = "2027-01-15T08:00:02.000001Z"
        assert (await self.does("PUT", f"{LEASES}/{name}?timeout=5s", made))["spec"] == made["spec"]
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.1", "namespace": "kube-system"},
            "involvedObject": {"kind": "Lease", "name": name, "namespace": "kube-system"}, "reason": "LeaderElection",
        }  # fmt: skip
        await self.does("POST", "/api/v1/namespaces/kube-system/events", event)


async def initial(frames: Frames) -> list[Any]:
    """What a watch shows before the bookmark that ends what was there."""
    there = []
    while True:
        event, tree = await frames.next()
        if event == "BOOKMARK":
            assert tree["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            return there
        assert event == "ADDED"
        there.append(tree)


async def everything_listable(program: Program) -> list[str]:
    """The paths of all kinds that discovery says can be listed and watched."""
    headers = {**program.headers, "accept": f"{DISCOVERY},application/json"}
    paths = []
    for root in ("/api", "/apis"):
        for group in (await program.api.request("GET", root, None, headers)).json["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                prefix = f"/apis/{name}" if name else "/api"
                paths += [
                    f"{prefix}/{version['version']}/{one['resource']}"
                    for one in version["resources"]
                    if {"list", "watch"} <= set(one["verbs"])
                ]
    return paths


async def test_every_kind_is_watched_in_protobuf_by_the_controller_manager() -> None:
    async with InMemory(ControlPlane(), config=RBAC) as api:
        manager = Program(api, "kube-controller-manager")
        selector = "&fieldSelector=metadata.name%3Dextension-apiserver-authentication"
        async with manager.watches("/api/v1/namespaces/kube-system/configmaps", selector) as frames:
            assert await initial(frames) == []  # in memory there are no certificates to authenticate by
        await manager.elects("kube-controller-manager")
        assert (await api.get("/healthz")).body == b"ok"
        paths = await everything_listable(manager)
        assert len(paths) > 40
        collector = Program(api, "serviceaccount:kube-system:generic-garbage-collector")
        metadata = f"{PROTOBUF};{METADATA},application/json;{METADATA},application/json"
        for path in paths:
            async with manager.watches(path) as frames:
                await initial(frames)
            async with collector.watches(path, accept=metadata) as frames:
                assert all(one["kind"] == "PartialObjectMetadata" for one in await initial(frames))


def deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def owned(owner: Any, kind: str, api_version: str, **rest: Any) -> dict[str, Any]:
    """An object that the controller of `owner` makes."""
    by = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, "blockOwnerDeletion": True}
    reference = {**by, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    template = owner["spec"]["template"]
    metadata = {"labels": template["metadata"]["labels"], "ownerReferences": [reference], **rest}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": template["spec"]}


async def test_a_deployment_becomes_pods_on_a_node() -> None:
    async with InMemory(ControlPlane(), config=RBAC) as api:
        kubectl = Program(api, "kube-controller-manager")
        kubectl.headers = {"accept": f"{PROTOBUF},application/json"}
        manager, scheduler = Program(api, "kube-controller-manager"), Program(api, "kube-scheduler")
        deployments = Program(api, "serviceaccount:kube-system:deployment-controller")
        replicas = Program(api, "serviceaccount:kube-system:replicaset-controller")
        await manager.elects("kube-controller-manager")
        await scheduler.elects("kube-scheduler")
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4", "pods": "110"}, "conditions": [ready]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}
        node = {**await kubectl.does("POST", "/api/v1/nodes", node), "status": status}
        assert (await kubectl.does("PUT", "/api/v1/nodes/one/status", node))["status"]["allocatable"] == status[
            "allocatable"
        ]
        waiting = "&fieldSelector=status.phase!%3DSucceeded%2Cstatus.phase!%3DFailed"
        async with (
            deployments.watches("/apis/apps/v1/deployments") as wanted,
            scheduler.watches("/api/v1/pods", waiting) as pods,
        ):
            assert await initial(wanted) == await initial(pods) == []
            await kubectl.does("POST", f"{APPS}/deployments?fieldManager=kubectl-create", deployment())
            event, web = await wanted.next()
            assert (event, web["spec"]["strategy"]["type"]) == ("ADDED", "RollingUpdate")
            made = owned(web, "ReplicaSet", "apps/v1", name="web-1")
            made["spec"] = {key: web["spec"][key] for key in ("replicas", "selector", "template")}
            replica_set = await deployments.does("POST", f"{APPS}/replicasets", made)
            web["status"] = {"observedGeneration": 1, "replicas": 3, "unavailableReplicas": 3}
            assert (await deployments.does("PUT", f"{APPS}/deployments/web/status", web))["status"] == web["status"]
            for _ in range(3):
                pod = owned(replica_set, "Pod", "v1", generateName="web-1-")
                await replicas.does("POST", f"{CORE}/pods", pod)
                event, pod = await pods.next()
                assert (event, pod["status"]["phase"]) == ("ADDED", "Pending")
                await _bind(scheduler, pods, pod)
            replica_set["status"] = {"replicas": 3, "observedGeneration": 1}
            shown = await replicas.does("PUT", f"{APPS}/replicasets/web-1/status", replica_set)
            assert shown["status"]["replicas"] == 3
        listed = await kubectl.does("GET", f"{CORE}/pods?limit=500&resourceVersion=0&fieldSelector=spec.nodeName%3Done")
        assert len(listed["items"]) == 3


async def _bind(scheduler: Program, pods: Frames, pod: Any) -> None:
    """Say why it waits, bind it to the node, tell of it; a second binding is refused."""
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patch = {"status": {"conditions": [condition]}}
    patched = await scheduler.does("PATCH", f"{CORE}/pods/{name}/status", patch, SMP)
    assert [one["reason"] for one in patched["status"]["conditions"]] == ["Unschedulable"]
    assert (await pods.next())[0] == "MODIFIED"
    binding = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default", "uid": uid},
        "target": {"kind": "Node", "name": "one"},
    }  # fmt: skip
    assert (await scheduler.does("POST", f"{CORE}/pods/{name}/binding", binding))["status"] == "Success"
    event, bound = await pods.next()
    assert (event, bound["spec"]["nodeName"]) == ("MODIFIED", "one")
    assert [(one["type"], one["status"]) for one in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await scheduler.send("POST", f"{CORE}/pods/{name}/binding", binding)
    assert (again.status, opened(again.body)["reason"]) == (409, "Conflict")
    event = {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": f"{name}.1", "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.000001Z", "reportingController": "default-scheduler", "reason": "Scheduled",
        "reportingInstance": "one", "action": "Binding", "type": "Normal", "note": "bound",
        "regarding": {"kind": "Pod", "name": name, "namespace": "default", "uid": uid},
    }  # fmt: skip
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    await scheduler.does("POST", events, event)
    series = {"series": {"count": 2, "lastObservedTime": "2027-01-15T08:00:03.000000Z"}}
    assert (await scheduler.does("PATCH", f"{events}/{name}.1", series, SMP))["series"] == series["series"]
