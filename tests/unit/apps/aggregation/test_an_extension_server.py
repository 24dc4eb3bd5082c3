"""A server behind a control plane, as behind a cluster: it believes the front proxy, and asks about tokens."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from silent_terminal import Silent

from oarlock import APIServer, Model, Resource, errors
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client import Client, connect, load_config
from oarlock.client.clock import SystemClock
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

NAME = "v1.shop.example.com"
ORDERS = "/apis/shop.example.com/v1/namespaces/default/orders"
TOKENS = 'admin-token,admin,1,system:masters\nalice-token,alice,2,"dev"\nbob-token,bob,3\n'


class OrderSpec(Model):
    """What is wanted."""

    item: str


class Order(Resource, group="shop.example.com", version="v1"):
    """Something to be delivered."""

    spec: OrderSpec


@dataclass(frozen=True)
class Story:
    """A control plane, and a server behind it."""

    folder: Path
    cluster: Running
    extension: Running

    def through_the_cluster(self, user: str) -> Client:
        return connect(load_config(kubeconfig(self.folder, self.cluster, user)))


def kubeconfig(folder: Path, running: Running, user: str, ca: Path | None = None, server_name: str = "") -> Path:
    ca = ca or folder / "cluster" / "pki" / "ca.crt"
    cluster = {
        "server": running.url,
        "certificate-authority-data": base64.b64encode(ca.read_bytes()).decode(),
        **({"tls-server-name": server_name} if server_name else {}),
    }
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": f"{user}-token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file = folder / f"{user}-{running.url.rpartition(':')[2]}.kubeconfig"
    file.write_text(json.dumps(tree))
    return file


async def started_cluster(folder: Path) -> Running:
    (folder / "tokens.csv").write_text(TOKENS)
    config = ServerConfig(
        storage="memory://", data_dir=folder / "cluster", secure_port=0, token_auth_file=folder / "tokens.csv"
    )
    return await start(ControlPlane(), for_control_plane(config), SystemClock(), Silent())


@asynccontextmanager
async def story(folder: Path) -> AsyncIterator[Story]:
    """As the manifests have it: the certificate is kept in a Secret of the cluster, and told to the APIService."""
    cluster = await started_cluster(folder)
    extension: Running | None = None
    try:
        client = cluster.client(None, "test")
        spec = {
            "group": "shop.example.com",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "shop"},
        }
        metadata = {"name": NAME, "annotations": {"oarlock.dev/url": "https://127.0.0.1:1"}}
        kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
        await client.create({**kind, "metadata": metadata, "spec": spec})
        here = kubeconfig(folder, cluster, "admin")
        (folder / "no-tokens.csv").write_text("")
        extension = await start(
            APIServer(serve=[Order]),
            ServerConfig(
                storage="memory://",
                data_dir=folder / "extension",
                secure_port=0,
                token_auth_file=folder / "no-tokens.csv",
                authentication_kubeconfig=here,
                authorization_kubeconfig=here,
                serving_certificate_secret="default/shop-certificate",
                tls_sans=("shop.default.svc",),
            ),
            SystemClock(),
            Silent(),
        )
        moved = {"metadata": {"annotations": {"oarlock.dev/url": extension.url}}}
        await client.patch("apiregistration.k8s.io/v1/APIService", NAME, moved)
        watch = client.watch("apiregistration.k8s.io/v1/APIService", field_selector=f"metadata.name={NAME}")
        async with asyncio.timeout(60):
            async for event in watch:
                conditions = (event.object.get("status") or {}).get("conditions") or [{}]
                if conditions[0].get("status") == "True":
                    break
        yield Story(folder, cluster, extension)
    finally:
        if extension is not None:
            await extension.shut_down()
        await cluster.shut_down()


async def allow(running: Running, user: str, *verbs: str) -> None:
    client = running.client(None, "test")
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rules = [{"apiGroups": ["shop.example.com"], "resources": ["orders"], "verbs": list(verbs)}]
    await client.create({**rbac, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules})
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    await client.create({**rbac, "kind": "ClusterRoleBinding", "metadata": {"name": user}, **binding})


async def ordered(client: Client, name: str, namespace: str, **metadata: object) -> dict[str, Any]:
    """Create an order; what is available is forwarded a moment later."""
    body = {"apiVersion": "shop.example.com/v1", "kind": "Order", "spec": {"item": "tea"}}
    async with asyncio.timeout(30):
        while True:
            try:
                return await client.create({**body, "metadata": {"name": name, "namespace": namespace, **metadata}})
            except errors.ServiceUnavailable:
                await asyncio.sleep(0)


async def gone(client: Client, path: str) -> None:
    """Wait until there is no such object."""
    async with asyncio.timeout(40):
        while True:
            try:
                await client.request("GET", path)
            except errors.NotFound:
                return
            await asyncio.sleep(0)


def owner_reference(owner: dict[str, Any]) -> dict[str, Any]:
    link = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return {**link, "uid": owner["metadata"]["uid"]}


async def test_what_belongs_to_an_object_of_the_cluster_goes_with_it(tmp_path: Path) -> None:
    async with story(tmp_path) as told, told.through_the_cluster("admin") as admin:
        metadata = {"name": "owner", "namespace": "default"}
        owner = await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        await ordered(admin, "a", "default", ownerReferences=[owner_reference(owner)])
        await admin.delete("v1/ConfigMap", "owner", namespace="default")
        await gone(admin, f"{ORDERS}/a")


async def test_what_belongs_to_an_object_of_the_server_goes_with_it(tmp_path: Path) -> None:
    async with story(tmp_path) as told, told.through_the_cluster("admin") as admin:
        owner = await ordered(admin, "a", "default")
        metadata = {"name": "receipt", "namespace": "default", "ownerReferences": [owner_reference(owner)]}
        await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        await admin.delete("shop.example.com/v1/Order", "a", namespace="default")
        await gone(admin, "/api/v1/namespaces/default/configmaps/receipt")


async def test_users_of_the_cluster_use_it_as_far_as_they_may(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await allow(told.cluster, "alice", "get", "list")
        order = Order(metadata={"name": "a", "namespace": "default"}, spec=OrderSpec(item="tea"))  # type: ignore[arg-type]
        async with (
            told.through_the_cluster("admin") as admin,
            told.through_the_cluster("alice") as alice,
            told.through_the_cluster("bob") as bob,
        ):
            async with asyncio.timeout(30):  # what is available is forwarded a moment later
                while True:
                    try:
                        await admin.create(order)
                        break
                    except errors.ServiceUnavailable:
                        await asyncio.sleep(0)
            assert (await alice.get(Order, "a", namespace="default")).spec.item == "tea"
            with pytest.raises(errors.Forbidden, match='User "alice" cannot create'):
                await alice.create(order)
            with pytest.raises(errors.Forbidden, match='User "bob" cannot get'):
                await bob.get(Order, "a", namespace="default")
            groups = await admin.request("GET", "/apis")
            assert "shop.example.com" in {one["name"] for one in groups["groups"]}


async def test_who_comes_past_the_cluster_is_asked_about_and_may_no_more(tmp_path: Path) -> None:
    async with story(tmp_path) as told:
        await allow(told.cluster, "alice", "list")
        secret = await told.cluster.client(None, "test").get("v1/Secret", "shop-certificate", namespace="default")
        ca = told.folder / "extension-ca.crt"
        ca.write_bytes(base64.b64decode(secret["data"]["ca.crt"]))
        for user, status in (("alice", 200), ("bob", 403), ("nobody", 401)):
            file = kubeconfig(told.folder, told.extension, user, ca, "shop.default.svc")
            async with connect(load_config(file)) as client:
                if status == 200:
                    assert (await client.request("GET", ORDERS))["items"] == []
                    continue
                with pytest.raises(errors.StatusError) as refused:
                    await client.request("GET", ORDERS, headers={"x-remote-user": "admin"})
                assert refused.value.code == status


async def test_a_namespace_takes_what_is_in_it_at_a_backend(tmp_path: Path) -> None:
    async with story(tmp_path) as told, told.through_the_cluster("admin") as admin:
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        await ordered(admin, "a", "n")
        await admin.delete("v1/Namespace", "n")
        await gone(admin, "/api/v1/namespaces/n")
        listed = await admin.request("GET", "/apis/shop.example.com/v1/orders")
        assert listed["items"] == []
