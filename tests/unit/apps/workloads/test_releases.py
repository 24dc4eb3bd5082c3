"""The data of releases: which one counts, what happens without, and what schemas are made of it."""

from __future__ import annotations

import gzip
import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.kinds.released import release as releases
from oarlock.apps.kinds.released.release import NoReleases, newest_release
from oarlock.registry.stored.records import digests_of
from oarlock.schema.released import published
from oarlock.testing import InMemory


def test_the_newest_release_counts() -> None:
    newest = newest_release()
    assert tuple(map(int, newest.version.split("."))) >= (1, 34)
    assert newest_release("1.30").version == "1.30"
    with pytest.raises(NoReleases, match=r"there is no Kubernetes 1\.2 but 1\."):
        newest_release("1.2")


def test_types_are_shared() -> None:
    release = newest_release()
    pod = release.object_schema("io.k8s.api.core.v1.Pod")
    deployment = release.object_schema("io.k8s.api.apps.v1.Deployment")
    template = deployment["properties"]["spec"]["properties"]["template"]
    inside = template["properties"]["spec"]["properties"]["containers"]["items"]
    assert inside is pod["properties"]["spec"]["properties"]["containers"]["items"]
    assert inside["properties"]["ports"]["x-kubernetes-patch-merge-key"] == "containerPort"
    assert "required" not in str(pod["properties"]["status"].keys())


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """kubernetes-validate isn't installed."""
    monkeypatch.setattr(published, "_OWN_PLACE", tmp_path)  # an installed checkout has a file there
    found = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "kubernetes_validate" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def test_an_installed_oarlock_has_one_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The wheel has it beside the code that reads it; see ``tools/kinds_in_the_wheel.py``."""
    whole = newest_release()
    types = json.dumps({"$defs": {name: whole._tree(name) for name in whole._data}}).encode()
    (tmp_path / "v1.99.json.gz").write_bytes(gzip.compress(types))
    (tmp_path / "other.json.gz").write_bytes(b"")
    monkeypatch.setattr(published, "_OWN_PLACE", tmp_path)
    assert newest_release().version == "1.99"
    assert newest_release("1.30").version == "1.30"
    request.getfixturevalue("no_package")
    alone = newest_release()
    pod = "io.k8s.api.core.v1.Pod"
    assert (alone.version, alone.object_schema(pod)) == ("1.99", whole.object_schema(pod))


@pytest.mark.anyio
@pytest.mark.usefixtures("no_package")
async def test_without_the_data_there_are_the_other_kinds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with InMemory(ControlPlane()) as api:
            assert (await api.get("/api/v1/namespaces/default/configmaps")).status == 200
            assert (await api.get("/api/v1/pods")).status == 404
    told = [one.getMessage() for one in caplog.records]
    (line,) = {one for one in told if "control plane kinds" in one}  # again by one who prepares a store for tests
    assert line.endswith(releases.HINT)


@pytest.mark.anyio
async def test_workload_kinds_can_be_left_out() -> None:
    async with InMemory(ControlPlane(disable=["workloads"])) as api:
        assert (await api.get("/api/v1/pods")).status == 404


def test_the_digest_of_a_released_schema_is_its_release() -> None:
    release = newest_release()
    definitions = [one.definition for one in ControlPlane().catalog.resources if one.definition.released]
    assert {digest for one in digests_of(definitions) for digest in one.values()} == {f"release-{release.version}"}
