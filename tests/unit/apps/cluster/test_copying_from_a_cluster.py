"""``oarlock storage copy --from-cluster``: objects of definitions move into a store as they are."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from boats_behind_a_cluster import login_of

from oarlock.cli.storage import copying
from oarlock.cli.storage.copying import CopyOptions, copy_from_cluster
from oarlock.client.client import Client
from oarlock.client.transport import ClientRequest, ClientResponse, WholeResponse
from oarlock.meta.errors import NotFound
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.registry.stored.importing import ImportRefused
from oarlock.server.assembly.run import Running
from oarlock.server.command import CommandError
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import OperationProgress

pytestmark = pytest.mark.anyio
SHIP = "sea.example.com/v1/Ship"
CODE = """
from oarlock import APIServer, Model, Resource


class ShipSpec(Model):
    sails: int = 1


class Ship(Resource, group="sea.example.com", version="v1"):
    spec: ShipSpec


server = APIServer(serve=[Ship])
"""
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.sea.example.com"},
    "spec": {
        "group": "sea.example.com",
        "names": {"plural": "ships", "kind": "Ship"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


def ship(name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "finalizers": ["sea.example.com/anchor"]}
    return {"apiVersion": "sea.example.com/v1", "kind": "Ship", "metadata": metadata, "spec": {"sails": 2}, **fields}


@pytest.fixture
async def admin(cluster: Running) -> Client:
    """A client of a cluster that has the definition of ships."""
    client = cluster.client(None, "test")
    await client.create(DEFINITION)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.ref(SHIP)
                break
            except NotFound:
                await asyncio.sleep(0.01)
    return client


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CopyOptions:
    """To a new store in a file."""
    (tmp_path / "ships.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "ships", raising=False)
    kubeconfig, url = tmp_path / "cluster" / "oarlock.kubeconfig", f"sqlite:///{tmp_path / 'ships.db'}"
    return CopyOptions(source=url, kubeconfig=kubeconfig, from_cluster=True, server=str(tmp_path / "ships.py"))


def ignored(progress: OperationProgress) -> None:
    pass


async def stored(url: str) -> dict[str, Any]:
    async with opened(url) as backend:
        page = await backend.list("/registry/", "/registry0")
    return {kv.key.rpartition("/")[2]: json.loads(kv.value) for kv in page.kvs}


async def test_objects_arrive_as_they_were_in_pages(
    admin: Client, asked: CopyOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE", 2)
    for name in "abcde":
        await admin.create(ship(name), field_manager="captain")
    told: list[tuple[str, int, int]] = []
    result = await copy_from_cluster(
        asked, lambda told_now: told.append((told_now.what, told_now.done, told_now.total))
    )
    assert (result.created, result.replaced, result.unchanged) == (5, 0, 0)
    assert [line for line in told if line[0].startswith("reading")] == [
        ("reading ships.sea.example.com", 2, 5),
        ("reading ships.sea.example.com", 4, 5),
        ("reading ships.sea.example.com", 5, 5),
    ]
    found = await stored(asked.source)
    for name in "abcde":
        there = await admin.get(SHIP, name, namespace="default")
        del there["metadata"]["resourceVersion"]
        assert found[name] == there
        assert found[name]["metadata"]["managedFields"][0]["manager"] == "captain"


async def test_a_store_that_has_some_is_left_alone_unless_that_is_asked_for(admin: Client, asked: CopyOptions) -> None:
    await admin.create(ship("a"))
    await copy_from_cluster(asked, ignored)
    await admin.create(ship("b"))
    with pytest.raises(CommandError, match=r"has objects of ships\.sea\.example\.com already: --overwrite"):
        await copy_from_cluster(asked, ignored)
    assert (await stored(asked.source)).keys() == {"a"}
    await admin.patch(SHIP, "a", {"spec": {"sails": 7}}, namespace="default")
    result = await copy_from_cluster(replace(asked, overwrite=True), ignored)
    assert (result.created, result.replaced, result.unchanged) == (1, 1, 0)
    again = await copy_from_cluster(replace(asked, overwrite=True), ignored)
    assert (again.created, again.replaced, again.unchanged) == (0, 0, 2)


async def test_listing_is_the_one_right_that_it_takes(
    cluster: Running, admin: Client, asked: CopyOptions, tmp_path: Path
) -> None:
    await admin.create(ship("a"))
    rule = AccessRule(("list",), ("sea.example.com",), ("ships",))
    enough = await login_of(cluster, tmp_path, "enough", [rule])
    nothing = await login_of(cluster, tmp_path, "nothing", [])
    with pytest.raises(CommandError, match=r"ships\.sea\.example\.com of the cluster can't be read: .*forbidden"):
        await copy_from_cluster(replace(asked, kubeconfig=nothing), ignored)
    assert (await copy_from_cluster(replace(asked, kubeconfig=enough), ignored)).created == 1


async def test_what_cannot_be_copied_is_told(admin: Client, asked: CopyOptions, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"--resource=boats: .* doesn't store it: it stores ships"):
        await copy_from_cluster(replace(asked, resources=("boats",)), ignored)
    with pytest.raises(CommandError, match="nowhere"):
        await copy_from_cluster(replace(asked, kubeconfig=tmp_path / "nowhere"), ignored)
    await admin.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", "ships.sea.example.com")
    async with asyncio.timeout(30):
        while await has_ships(admin):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with pytest.raises(CommandError, match=r"the server has no Ship in sea\.example\.com/v1"):
        await copy_from_cluster(asked, ignored)


async def has_ships(client: Client) -> bool:
    try:
        await client.request("GET", "/apis/sea.example.com/v1")
    except NotFound:
        return False
    return True


class Hostile:
    """A cluster that answers every list with `items`."""

    def __init__(self, items: Any) -> None:
        self._items = items

    async def send(self, request: ClientRequest) -> ClientResponse:
        if request.path.endswith("/v1"):
            resources = [{"name": "ships", "kind": "Ship", "namespaced": True, "verbs": ["list"]}]
            tree: Any = {"kind": "APIResourceList", "groupVersion": "sea.example.com/v1", "resources": resources}
        else:
            tree = {"kind": "ShipList", "items": self._items, "metadata": {}}
        return WholeResponse(200, {"content-type": "application/json"}, json.dumps(tree).encode())

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "items",
    [
        7,
        [7],
        [{}],
        [{"metadata": []}],
        [{"metadata": {"name": "../../secrets/a", "uid": "u", "creationTimestamp": "t", "namespace": "default"}}],
        [{"metadata": {"name": "a", "uid": "u", "creationTimestamp": "t", "namespace": "x/../y"}}],
        [{"metadata": {"name": "a", "uid": "u", "creationTimestamp": "t", "namespace": ""}}],
        [{"metadata": {"name": "a", "namespace": "default"}}],
        [{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u", "creationTimestamp": "t"}}],
        [{"metadata": {"name": "a", "uid": "u", "creationTimestamp": "t", "namespace": "default"}}] * 2,
        [{"metadata": {"name": "a\nb", "uid": [], "creationTimestamp": {}, "namespace": "default"}}],
    ],
)
async def test_whatever_a_cluster_answers_writes_nothing_but_objects_of_the_kind(
    asked: CopyOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, items: Any
) -> None:
    kubeconfig = tmp_path / "hostile"
    cluster = {"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a"}}
    kubeconfig.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "a"}))
    monkeypatch.setattr(copying, "connect", lambda config: Client(Hostile(items)))  # type: ignore[arg-type]
    with pytest.raises((CommandError, ImportRefused)) as told:
        await copy_from_cluster(replace(asked, kubeconfig=kubeconfig), ignored)
    assert "\n" not in str(told.value)
    assert told.type is CommandError or not await stored(asked.source)
