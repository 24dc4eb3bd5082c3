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
        for method, body in (("POST", plain(name="a")), ("DELETE", None), ("PUT", plain(name="a"))):
            answer = await api.request(method, f"/apis/{GROUP}/v1/plains", body)
            assert (answer.status, answer.body) == (404, b"404 page not found\n"), method
            assert (await api.request(method, "/api/v1/configmaps", body)).status == 405
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


@pytest.mark.anyio
async def test_a_custom_object_of_another_kind_is_invalid_and_one_of_no_version_is_refused() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition())
        answer = await api.post(PLAINS, {**plain(name="a"), "kind": "Other"})
        why = f'Other.{GROUP} "a" is invalid: kind: Invalid value: "Other": must be Plain'
        assert (answer.status, answer.json["message"]) == (422, why)
        assert answer.json["details"]["causes"] == [
            {"reason": "FieldValueInvalid", "message": 'Invalid value: "Other": must be Plain', "field": "kind"}
        ]
        for sent in ("", f"{GROUP}/v9", "other.example.com/v1"):
            answer = await api.post(PLAINS, {**plain(name="a"), "apiVersion": sent})
            assert (answer.status, answer.json["message"]) == (
                400,
                f"the API version in the data ({sent}) does not match the expected API version ({GROUP}/v1)",
            )
        answer = await api.post(PLAINS, {key: value for key, value in plain(name="a").items() if key != "apiVersion"})
        assert (answer.status, "version in the data () does not match" in answer.json["message"]) == (400, True)
        answer = await api.post("/api/v1/namespaces/default/configmaps", {"kind": "Other", "metadata": {"name": "a"}})
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.anyio
async def test_only_what_is_in_namespaces_is_selected_by_them_where_a_kind_says_what_selects_it() -> None:
    async with InMemory(ControlPlane()) as api:
        await established(api, definition("wides", "Wide", scope="Cluster"))
        by_namespace = "?fieldSelector=metadata.namespace%3Ddefault"
        for path in (f"/apis/{GROUP}/v1/wides", "/api/v1/nodes", "/api/v1/namespaces"):
            answer = await api.get(path + by_namespace)
            why = "field label not supported: metadata.namespace"
            assert (answer.status, answer.json["message"]) == (400, why), path
        assert (await api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles{by_namespace}")).json["items"] == []


@pytest.mark.anyio
async def test_discovery_lists_the_status_of_a_custom_resource_before_its_scale() -> None:
    scaled = version()
    scaled["subresources"] = {
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        "status": {},
    }
    async with InMemory(ControlPlane()) as api:
        await established(api, definition(versions=[scaled]))
        named = [one["name"] for one in (await api.get(f"/apis/{GROUP}/v1")).json["resources"]]
        assert named == ["plains", "plains/status", "plains/scale"]
        apps = [one["name"] for one in (await api.get("/apis/apps/v1")).json["resources"]]
        assert apps == sorted(apps)
