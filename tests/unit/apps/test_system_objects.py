"""What a control plane says of itself in objects: cluster-info, its identity's Lease, and who is let in."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from oarlock.apps.controllers.certificates.signing import SigningAuthority
from oarlock.apps.controllers.own_objects import OwnObjects
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.meta.context import User
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.description import ServerAddress
from oarlock.testing import InMemory, ServerThread, VirtualClock

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
ANYBODY = User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.anyio
async def test_anybody_may_read_where_the_server_is_and_nothing_else_there() -> None:
    async with InMemory(ControlPlane(), user=ANYBODY) as api:
        found = yaml.safe_load((await api.get(INFO)).json["data"]["kubeconfig"])
        assert found["clusters"] == [{"name": "", "cluster": {"server": "https://127.0.0.1:6443"}}]
        assert (await api.get("/api/v1/namespaces/kube-public/configmaps")).status == 403
        assert (await api.delete(INFO)).status == 403


@pytest.mark.anyio
async def test_a_server_renews_the_lease_of_its_identity() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        (first,) = await leases(api)
        assert first["metadata"]["name"].startswith("apiserver-")
        assert first["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver"
        assert first["spec"]["leaseDurationSeconds"] == 3600
        second = first
        for _ in range(20):  # the first renewal waits until what runs the controllers has begun
            await clock.run(10)
            (second,) = await leases(api)
            if second["spec"]["renewTime"] > first["spec"]["renewTime"]:
                break
        assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
        assert second["spec"]["holderIdentity"] == first["spec"]["holderIdentity"]


@pytest.mark.anyio
async def test_leases_of_servers_that_are_gone_are_removed() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        (own,) = await leases(api)
        old = {"spec": {**own["spec"], "holderIdentity": "gone"}, "metadata": {"labels": own["metadata"]["labels"]}}
        assert (
            await api.post(LEASES, {**old, "metadata": {**old["metadata"], "name": "apiserver-gone"}})
        ).status == 201
        await clock.run(3500)
        assert len(await leases(api)) == 2
        await clock.run(200)
        assert [one["metadata"]["name"] for one in await leases(api)] == [own["metadata"]["name"]]


@pytest.mark.anyio
async def test_what_is_removed_is_back_within_a_minute() -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        for path in (INFO, "/api/v1/namespaces/kube-node-lease"):
            assert (await api.delete(path)).status in (200, 202)
        await clock.run(70)
        for path in (INFO, "/api/v1/namespaces/kube-node-lease"):
            assert (await api.get(path)).json.get("metadata", {}).get("deletionTimestamp", "") == ""
            assert (await api.get(path)).status == 200


@pytest.mark.anyio
async def test_the_certificate_to_trust_is_in_cluster_info() -> None:
    async with InMemory(ControlPlane()) as api:
        client = api.client()
        await client.delete("v1/ConfigMap", "cluster-info", namespace="kube-public")
        address = ServerAddress("https://db.example.com:6443", b"pem")
        await OwnObjects(lambda: address, ControlPlaneOptions()).publish(client)
        found = yaml.safe_load((await api.get(INFO)).json["data"]["kubeconfig"])
        expected = {"server": address.url, "certificate-authority-data": base64.b64encode(b"pem").decode()}
        assert found["clusters"][0]["cluster"] == expected


async def leases(api: InMemory) -> Sequence[Any]:
    items: list[Any] = (await api.get(LEASES)).json["items"]
    return items


@pytest.mark.anyio
async def test_programs_are_told_since_when_tokens_are_tracked() -> None:
    clock = VirtualClock()
    path = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(1)
        since = (await api.get(path)).json["data"]["since"]
        assert date.fromisoformat(since) <= datetime.now(UTC).date()
        await api.patch(path, {"data": {"since": "2020-02-03"}})
        await clock.run(130)
        assert (await api.get(path)).json["data"] == {"since": "2020-02-03"}
        await api.patch(path, {"data": {"since": "once"}})
        await clock.run(130)
        assert date.fromisoformat((await api.get(path)).json["data"]["since"]) >= date.fromisoformat(since)


def test_the_authorities_that_an_option_names_are_published(tmp_path: Path) -> None:
    authority = SigningAuthority.made(time.time(), timedelta(days=1)).pem
    (tmp_path / "root.crt").write_bytes(authority)
    options = ControlPlaneOptions(root_ca_file=tmp_path / "root.crt")
    with ServerThread(ControlPlane(options=options), folder=tmp_path / "server") as server:
        maps = f"{server.url}/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
        request = urllib.request.Request(maps, headers={"authorization": f"Bearer {server.token}"})
        for _ in range(500):
            try:
                with urllib.request.urlopen(request, context=server.tls(), timeout=20) as answer:
                    found = json.loads(answer.read())
                break
            except urllib.error.HTTPError as error:
                error.close()
                time.sleep(0.02)
        assert found["data"] == {"ca.crt": authority.decode()}


@pytest.mark.anyio
async def test_what_else_is_in_the_published_authorities_is_removed(tmp_path: Path) -> None:
    authority = SigningAuthority.made(time.time(), timedelta(days=1)).pem
    (tmp_path / "root.crt").write_bytes(authority)
    clock, path = VirtualClock(), "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    options = ControlPlaneOptions(root_ca_file=tmp_path / "root.crt")
    async with InMemory(ControlPlane(options=options), clock=clock) as api:
        await clock.run(1)
        await api.patch(path, {"data": {"more": "y", "ca.crt": "z"}})
        await clock.run(1)
        assert (await api.get(path)).json["data"] == {"ca.crt": authority.decode()}


def test_a_file_without_authorities_is_told(tmp_path: Path) -> None:
    (tmp_path / "root.crt").write_text("nothing")
    with pytest.raises(KeywordError, match=r"root_ca_file=.*it contains no PEM certificates"):
        ControlPlane(options=ControlPlaneOptions(root_ca_file=tmp_path / "root.crt"))
