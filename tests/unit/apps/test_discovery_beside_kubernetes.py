"""What discovery tells beside the documents that Kubernetes 1.36.2 has of itself, in its Go module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory, VirtualClock

DOCUMENTS = Path.home() / "go/pkg/mod/k8s.io/kubernetes@v1.36.2/api/discovery"
Tree = dict[str, Any]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not DOCUMENTS.exists(), reason="the Go module k8s.io/kubernetes isn't on this machine"),
]

BEHIND_GATES = {"internal.apiserver.k8s.io"}
"""Groups that aren't served by default; the documents are made with every gate on."""

OURS = {"storagemigration.k8s.io"}
"""Served as v1, which a later release has."""

STORED_AS_V1 = {"customresourcedefinitions", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}
"""Kubernetes 1.36 stores these as v1beta1."""


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as server:
        await clock.run(1)
        yield server


def document(name: str) -> Any:
    return msgspec.json.decode((DOCUMENTS / f"{name}.json").read_bytes())


def stable(versions: Iterable[Tree]) -> list[str]:
    """The versions that are on by default: beta and alpha ones are off since 1.24."""
    return [one["version"] for one in versions if "alpha" not in one["version"] and "beta" not in one["version"]]


def shown(resource: Tree) -> Tree:
    """Without order where it says nothing."""
    lists = {name: sorted(resource.get(name) or ()) for name in ("verbs", "shortNames", "categories")}
    shown = {**resource, **lists}
    if resource["name"] in STORED_AS_V1:
        del shown["storageVersionHash"]
    return shown


async def test_groups_and_versions_are_those_that_are_on_by_default(api: InMemory) -> None:
    theirs = [group for group in document("apis")["groups"] if group["name"] not in BEHIND_GATES | OURS]
    ours = [group for group in (await api.get("/apis")).json["groups"] if group["name"] not in OURS]
    assert [(group["name"], [one["version"] for one in group["versions"]]) for group in ours] == [
        (group["name"], stable(group["versions"])) for group in theirs
    ]
    assert [group["preferredVersion"] for group in ours] == [group["preferredVersion"] for group in theirs]


async def test_resources_are_told_as_kubernetes_tells_them(api: InMemory) -> None:
    places = {"api__v1": "/api/v1"}
    for group in (await api.get("/apis")).json["groups"]:
        if group["name"] not in OURS:
            places |= {
                f"apis__{group['name']}__{one['version']}": f"/apis/{one['groupVersion']}" for one in group["versions"]
            }
    assert len(places) > 20
    for name, path in places.items():
        ours, theirs = (await api.get(path)).json, document(name)
        found, wanted = (
            {resource["name"]: shown(resource) for resource in tree["resources"]} for tree in (ours, theirs)
        )
        assert found == wanted, path
