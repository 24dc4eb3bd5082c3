"""What paths of custom resources answer where those of built-in kinds answer otherwise, and how they are described."""

from __future__ import annotations

from typing import Any

import pytest
from crd_kit import GROUP, definition, established, version

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

PLAINS = f"/apis/{GROUP}/v1/namespaces/default/plains"


def plain(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": metadata, "spec": {"a": "b"}}


@pytest.mark.anyio
async def test_a_post_to_the_path_of_an_object_creates_that_object_and_no_other() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        for other in ({"name": "b"}, {"generateName": "a"}, {}, {"name": "a", "namespace": "kube-system"}):
            assert (await api.post(f"{PLAINS}/a", plain(**other))).status == 400, other
        assert (await api.get(PLAINS)).json["items"] == []
        made = await api.post(f"{PLAINS}/a", plain(name="a"))
        assert (made.status, made.json["metadata"]["namespace"]) == (201, "default")
        again = await api.post(f"{PLAINS}/a", plain(name="a"))
        assert (again.status, again.json["reason"]) == (409, "AlreadyExists")


@pytest.mark.anyio
async def test_a_post_to_the_path_of_a_built_in_object_is_not_allowed() -> None:
    async with InMemory(ControlPlane()) as api:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        assert (await api.post("/api/v1/namespaces/default/configmaps/a", tree)).status == 405


@pytest.mark.anyio
async def test_what_no_custom_resource_has_is_no_page() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        await established(api, definition("wides", "Wide", scope="Cluster"))
        for path in (f"/apis/{GROUP}/v1/plains/a", f"/apis/{GROUP}/v1/namespaces/default/wides"):
            answer = await api.get(path)
            assert (answer.status, answer.body) == (404, b"404 page not found\n"), path
        answer = await api.get(f"{PLAINS}/a/log")
        assert (answer.status, answer.json["message"]) == (404, f'plains.{GROUP} "a" not found')


@pytest.mark.anyio
async def test_how_a_custom_kind_is_described() -> None:
    columns = [{"name": "A", "jsonPath": ".spec.a", "type": "string"}]
    v1 = version(additionalPrinterColumns=columns)
    port = {"x-kubernetes-int-or-string": True}
    v1["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["port"] = port
    async with InMemory(ControlPlane()) as api:
        await established(api, definition("plains", "Plain", v1))
        table = await api.get(PLAINS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        described = table.json["columnDefinitions"][1]["description"]
        assert described == "Custom resource definition column (in JSONPath format): .spec.a"
        document = (await api.get(f"/openapi/v3/apis/{GROUP}/v1")).json
        kind = document["components"]["schemas"]["com.example.names.v1.Plain"]
        either = [{"type": "integer"}, {"type": "string"}]
        assert kind["properties"]["spec"]["properties"]["port"] == {**port, "anyOf": either}
        assert document["paths"][PLAINS.replace("default", "{namespace}")]["get"]["description"] == (
            "list objects of kind Plain"
        )
