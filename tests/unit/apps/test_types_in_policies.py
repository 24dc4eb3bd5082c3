"""The types of objects in policies' expressions are checked, and warnings are in the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from crd_kit import DEFINITIONS, definition, established

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

Tree = dict[str, Any]


def rule(group: str, *resources: str, version: str = "v1") -> Tree:
    operations = {"operations": ["*"], "resources": [*resources]}
    return {"apiGroups": [group], "apiVersions": [version], **operations}


async def create(api: InMemory, name: str, rules: list[Tree], *expressions: str, **spec: Any) -> None:
    given = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": one} for one in expressions]}
    made = await api.post(POLICIES, {"metadata": {"name": name}, "spec": {**given, **spec}})
    assert made.status == 201, made.json
    assert made.json["status"] == {}


async def status(api: InMemory, name: str, holds: Callable[[Tree], bool] = bool) -> Tree:
    """The status of a policy as soon as `holds` says so of it."""
    async with asyncio.timeout(60), api.watch(f"{POLICIES}?fieldSelector=metadata.name%3D{name}") as events:
        found: Tree = (await api.get(f"{POLICIES}/{name}")).json["status"]
        while not holds(found):
            found = (await events.next())[1]["status"]
        return found


async def warnings(api: InMemory, name: str, holds: Callable[[Tree], bool] = bool) -> dict[str, str]:
    told = (await status(api, name, holds))["typeChecking"].get("expressionWarnings", [])
    return {one["fieldRef"]: one["warning"] for one in told}


async def test_warnings_name_the_kind_and_the_place() -> None:
    async with InMemory(ControlPlane()) as api:
        rules = [rule("", "secrets", "configmaps", "pods/status"), rule("*", "deployments")]
        await create(api, "wrong", rules, "object.binaryData.size() > 0 && object.metadata.labels.a == 'b'")
        assert await warnings(api, "wrong") == {
            "spec.validations[0].expression": (
                "/v1, Kind=Secret: ERROR: <input>:1:7: undefined field 'binaryData'\n"
                " | object.binaryData.size() > 0 && object.metadata.labels.a == 'b'\n"
                " | ......^\n"
            )
        }


async def test_what_is_right_is_observed() -> None:
    async with InMemory(ControlPlane()) as api:
        await create(api, "right", [rule("apps", "deployments")], "object.spec.replicas > 1")
        assert await status(api, "right") == {"observedGeneration": 1, "typeChecking": {}}
        change = {"spec": {"validations": [{"expression": "object.spec.replicas == 'x'"}]}}
        assert (await api.patch(f"{POLICIES}/right", change)).status == 200
        found = await warnings(api, "right", lambda one: one["observedGeneration"] == 2)
        assert "no matching overload for '_==_' applied to '(int, string)'" in found["spec.validations[0].expression"]


async def test_variables_and_parameters_have_types_too() -> None:
    async with InMemory(ControlPlane()) as api:
        variables = [
            {"name": "n", "expression": "object.metadata.name"},
            {"name": "wrong", "expression": "object.none"},
            {"name": "whole", "expression": "object.metadata"},
        ]
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        expressions = ("variables.n == 2", "variables.wrong == 2", "variables.whole.none == 2", "params.none == 'a'")
        await create(api, "typed", [rule("", "secrets")], *expressions, variables=variables, paramKind=kind)
        assert [*await warnings(api, "typed")] == ["spec.validations[0].expression", "spec.validations[3].expression"]


async def test_a_policy_is_checked_again_when_a_schema_changes() -> None:
    async with InMemory(ControlPlane()) as api:
        tree = definition()
        group, plural = tree["spec"]["group"], tree["spec"]["names"]["plural"]
        await create(api, "custom", [rule(group, plural)], "object.spec.n > 1")
        assert await status(api, "custom") == {"observedGeneration": 1, "typeChecking": {}}
        await established(api, tree)
        schema = tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["n"] = {"type": "string"}
        patch = {"spec": {"versions": tree["spec"]["versions"]}}
        assert (await api.patch(f"{DEFINITIONS}/{plural}.{group}", patch)).status == 200
        found = await warnings(api, "custom", lambda one: bool(one["typeChecking"]))
        assert "applied to '(string, int)'" in found["spec.validations[0].expression"]


async def test_at_most_ten_types_are_looked_at() -> None:
    async with InMemory(ControlPlane()) as api:
        kinds = (
            *("configmaps", "secrets", "pods", "services", "namespaces", "nodes", "endpoints", "events"),
            *("limitranges", "resourcequotas", "serviceaccounts", "persistentvolumes"),
        )
        await create(api, "many", [rule("", *kinds)], "object.none == 1")
        [found] = (await warnings(api, "many")).values()
        assert found.count("undefined field 'none'") == 10
