"""Kubernetes' own types in OpenAPI documents: by their names, as Kubernetes publishes them, and each once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.schema.released.published import meta_types, published_types, release_files
from oarlock.testing import InMemory

RELEASE = "1.36"
SOURCES = Path.home() / "go/pkg/mod/k8s.io"
POSSIBLE = "\n\nPossible enum values:"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
pytestmark = pytest.mark.skipif(next(release_files(), None) is None, reason="Kubernetes' kinds aren't installed")

NAMES = {
    "api/v1": """
        Affinity ConfigMap Container ContainerPort ContainerStatus EnvVar EnvVarSource Event LimitRange Namespace Node
        NodeStatus PersistentVolumeClaim PersistentVolumeSpec Pod PodList PodSpec PodStatus PodTemplateSpec Probe
        ResourceRequirements Secret Service ServiceAccount ServicePort ServiceSpec Toleration Volume VolumeMount
    """,
    "apis/apps/v1": "DaemonSet Deployment DeploymentSpec DeploymentStrategy ReplicaSetList StatefulSetSpec",
    "apis/batch/v1": "CronJobSpec Job JobSpec JobTemplateSpec",
    "apis/networking.k8s.io/v1": "HTTPIngressPath Ingress NetworkPolicySpec",
    "apis/rbac.authorization.k8s.io/v1": "ClusterRole PolicyRule RoleRef Subject",
}


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


class Served(NamedTuple):
    documents: dict[str, Any]
    entries: list[CatalogEntry]


@pytest.fixture(scope="module")
def served() -> Served:
    """What a control plane serves, and all its documents by their paths, decoded."""

    async def read() -> Served:
        async with InMemory(ControlPlane()) as api:
            index = json.loads((await api.get("/openapi/v3")).body)["paths"]
            paths = ["/openapi/v2", *(f"/openapi/v3/{name}" for name in index)]
            documents = {path: json.loads((await api.get(path)).body) for path in paths}
            groups = api.server.catalog.in_order()
            entries = [one for group in groups for version in group.versions for one in group.of_version(version)]
            return Served(documents, entries)

    return asyncio.run(read())


@pytest.fixture(scope="module")
def documents(served: Served) -> dict[str, Any]:
    return served.documents


def test_types_have_the_names_that_kubernetes_gives_them(documents):
    old = documents["/openapi/v2"]["definitions"]
    for place, kinds in NAMES.items():
        schemas = documents[f"/openapi/v3/{place}"]["components"]["schemas"]
        group, version = place.removeprefix("apis/").removeprefix("api/").rpartition("/")[::2]
        package = f"io.k8s.api.{group.removesuffix('.k8s.io').partition('.')[0] or 'core'}.{version}"
        for kind in kinds.split():
            assert f"{package}.{kind}" in schemas
            assert f"{package}.{kind}" in old
    assert len(old) > 550


def test_every_reference_leads_to_a_type_or_a_parameter(documents):
    for path, document in documents.items():
        for reference in references(document):
            if reference.startswith("#/components/schemas/"):
                assert reference.rpartition("/")[2] in document["components"]["schemas"], (path, reference)
            else:
                _, section, name = reference.split("/")
                assert name in document[section], (path, reference)


def test_nested_types_are_referred_to_and_have_defaults_where_kubernetes_has_them(documents):
    at = "#/components/schemas/io.k8s.api.core.v1."
    core = documents["/openapi/v3/api/v1"]["components"]["schemas"]
    pod = core["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": f"{at}PodSpec"}]
    assert pod["properties"]["spec"]["default"] == {}
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    containers = core["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["items"] == {"default": {}, "allOf": [{"$ref": f"{at}Container"}]}
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    port = core["io.k8s.api.core.v1.ContainerPort"]["properties"]
    assert port["protocol"]["default"] == "TCP"
    assert port["protocol"]["enum"] == ["SCTP", "TCP", "UDP"]
    assert "x-kubernetes-unions" in core["io.k8s.api.core.v1.AppArmorProfile"]
    old = documents["/openapi/v2"]["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]
    assert old == {
        "$ref": "#/definitions/io.k8s.api.core.v1.PodSpec",
        "description": pod["properties"]["spec"]["description"],
    }


def test_the_document_of_version_2_is_no_larger_than_kubernetes_own(documents):
    assert len(json.dumps(documents["/openapi/v2"], separators=(",", ":"))) < 2_500_000


def test_bodies_of_subresources_are_types_too(documents):
    paths = documents["/openapi/v3/api/v1"]["paths"]
    for name, kind in (("eviction", "policy.v1.Eviction"), ("binding", "core.v1.Binding")):
        post = paths["/api/v1/namespaces/{namespace}/pods/{name}/" + name]["post"]
        for part in (post["requestBody"], post["responses"]["201"]):
            assert part["content"]["application/json"]["schema"]["$ref"].endswith(f"/io.k8s.api.{kind}")


def test_what_is_served_of_a_declared_kind_has_the_fields_that_are_published(served):
    """The kinds that are classes of ours: who believes the documents writes no field that is dropped."""
    checked = 0
    for entry in served.entries:
        if not entry.definition.released:
            gvk = entry.gvk
            root = f"/openapi/v3/apis/{gvk.group}/{gvk.version}" if gvk.group else f"/openapi/v3/api/{gvk.version}"
            schemas = served.documents[root]["components"]["schemas"]
            name = next(one for one in schemas if one.endswith(f".{gvk.version}.{gvk.kind}"))
            assert [*lacking(entry.version.schema, schemas[name], schemas, gvk.kind)] == []
            checked += 1
    assert checked > 30


def lacking(ours: Any, told: Any, schemas: Any, path: str) -> Iterator[str]:
    """Published fields that our schema doesn't have."""
    reference = told.get("$ref") or told.get("allOf", [{}])[0].get("$ref")
    if reference:
        told = schemas[reference.rpartition("/")[2]]
    if ours.get("x-kubernetes-preserve-unknown-fields") or path.endswith(".metadata"):
        return
    for name, field in told.get("properties", {}).items():
        known = ours.get("properties", {}).get(name)
        if known is None:
            yield f"{path}.{name}"
        else:
            yield from lacking(known, field, schemas, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(told.get(key), dict) and isinstance(ours.get(key), dict):
            yield from lacking(ours[key], told[key], schemas, path + "[]")


def test_types_are_published_as_in_the_documents_of_kubernetes():
    """Field by field, where the source of the release is at hand; those documents don't have the choices of fields."""
    folder = max(SOURCES.glob(f"kubernetes@v{RELEASE}.*"), default=None)
    known = published_types(RELEASE)
    if folder is None or f"{META}Status" not in known:
        pytest.skip(f"the source of Kubernetes {RELEASE} or its data isn't here")
    checked = 0
    for file in (folder / "api" / "openapi-spec" / "v3").glob("*.json"):
        for name, theirs in json.loads(file.read_bytes()).get("components", {}).get("schemas", {}).items():
            if not name.endswith((".DeleteOptions", ".WatchEvent")):  # kinds of each version that is served
                ours = meta_types().get(name) or known.schema(name)
                assert plain(ours) == plain(theirs), name
                checked += 1
    assert checked > 1000


def plain(tree: Any) -> Any:
    """References by name, and nothing of choices."""
    if isinstance(tree, list):
        return [plain(one) for one in tree]
    if isinstance(tree, str):
        return re.sub("^#/components/schemas/", "", tree).partition(POSSIBLE)[0]
    if not isinstance(tree, dict):
        return tree
    return {key: plain(one) for key, one in tree.items() if key != "enum" or not isinstance(one, list)}
