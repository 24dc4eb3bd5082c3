"""Policies in CEL are in force for the request after the write, with their parameters and permissions."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.meta.context import User
from oarlock.testing import InMemory, VirtualClock

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


async def started() -> InMemory:
    return InMemory(ControlPlane(), clock=VirtualClock())


async def put_policy(api: InMemory, name: str, expression: str, **spec: Any) -> None:
    selector = {"matchLabels": {"p": name}}
    constraints = {"resourceRules": [RULE], "objectSelector": selector}
    given = {"matchConstraints": constraints, "validations": [{"expression": expression}], **spec}
    answer = await api.post(POLICIES, {"metadata": {"name": name}, "spec": given})
    assert answer.status == 201, answer.json


async def bind(api: InMemory, name: str, actions: tuple[str, ...] = ("Deny",), **spec: Any) -> None:
    given = {"policyName": name, "validationActions": [*actions], **spec}
    answer = await api.post(BINDINGS, {"metadata": {"name": name}, "spec": given})
    assert answer.status == 201, answer.json


def config_map(policy: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"p": policy}}, "data": data}


@pytest.mark.anyio
async def test_a_policy_counts_at_once_and_until_it_is_gone() -> None:
    async with await started() as api:
        await put_policy(api, "blue", "object.data.color == 'blue'")
        assert (await api.post(MAPS, config_map("blue", "unbound", color="red"))).status == 201
        await bind(api, "blue")
        refused = await api.post(MAPS, config_map("blue", color="red"))
        text = (
            "ValidatingAdmissionPolicy 'blue' with binding 'blue' denied request: "
            "failed expression: object.data.color == 'blue'"
        )
        assert (refused.status, refused.json["reason"]) == (422, "Invalid")
        assert refused.json["message"] == f'configmaps "a" is forbidden: {text}'
        assert refused.json["details"]["causes"] == [{"message": text}]
        change = {"spec": {"validations": [{"expression": "object.data.color == 'red'"}]}}
        assert (await api.patch(f"{POLICIES}/blue", change)).status == 200
        assert (await api.post(MAPS, config_map("blue", color="red"))).status == 201
        assert (await api.post(MAPS, config_map("blue", "b", color="blue"))).status == 422
        assert (await api.delete(f"{BINDINGS}/blue")).status == 200
        assert (await api.post(MAPS, config_map("blue", "b", color="blue"))).status == 201


@pytest.mark.anyio
async def test_bindings_may_warn() -> None:
    async with await started() as api:
        await put_policy(api, "warn", "object.data.size() > 1")
        await bind(api, "warn", ("Warn", "Audit"))
        answer = await api.post(MAPS, config_map("warn", k="v"))
        assert answer.status == 201
        warning = str(answer.headers["warning"])
        assert "Validation failed for ValidatingAdmissionPolicy 'warn' with binding 'warn'" in warning


@pytest.mark.anyio
async def test_parameters_count_at_once() -> None:
    async with await started() as api:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await put_policy(api, "known", "object.data.n in params.data", paramKind=kind)
        await bind(api, "known", paramRef={"name": "names", "parameterNotFoundAction": "Deny"})
        refused = await api.post(MAPS, config_map("known", n="x"))
        assert refused.json["message"].endswith(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )
        assert (await api.post(MAPS, {"metadata": {"name": "names"}, "data": {"y": ""}})).status == 201
        assert (await api.post(MAPS, config_map("known", n="x"))).status == 422
        assert (await api.patch(f"{MAPS}/names", {"data": {"x": ""}})).status == 200
        assert (await api.post(MAPS, config_map("known", n="x"))).status == 201


@pytest.mark.anyio
async def test_parameters_by_labels_are_each_asked_about() -> None:
    async with await started() as api:
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        await put_policy(api, "all", "object.data.n in params.data", paramKind=kind)
        await bind(
            api,
            "all",
            paramRef={"selector": {"matchLabels": {"set": "x"}}, "parameterNotFoundAction": "Allow"},
        )
        assert (await api.post(MAPS, config_map("all", n="x"))).status == 201  # there are none
        for name in ("one", "two"):
            given = {"metadata": {"name": name, "labels": {"set": "x"}}, "data": {"both": "", name: ""}}
            assert (await api.post(MAPS, given)).status == 201
        assert (await api.post(MAPS, config_map("all", "b", n="both"))).status == 201
        assert (await api.post(MAPS, config_map("all", "c", n="one"))).status == 422


@pytest.mark.anyio
async def test_what_a_user_may_do_counts() -> None:
    async with await started() as api:
        may = "authorizer.group('').resource('configmaps').namespace(request.namespace).check('delete').allowed()"
        await put_policy(api, "may", may)
        await bind(api, "may")
        assert (await api.post(MAPS, config_map("may"))).status == 201


@pytest.mark.anyio
async def test_who_names_parameters_may_read_them() -> None:
    async with await started() as api:
        rule = {"verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}
        roles = "/apis/rbac.authorization.k8s.io/v1"
        assert (await api.post(f"{roles}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})).status == 201
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
        bound = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
        assert (await api.post(f"{roles}/clusterrolebindings", bound)).status == 201
        bob = api.client(User("bob", groups=("system:authenticated",)))
        policy: dict[str, Any] = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "b"},
            "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": [RULE]},
                "validations": [{"expression": "true"}],
            },
        }
        with pytest.raises(Exception, match='must have "get" permission on all objects'):
            await bob.request("POST", POLICIES, policy)
        del policy["spec"]["paramKind"]
        await bob.request("POST", POLICIES, policy)


@pytest.mark.anyio
async def test_nobody_is_locked_out_of_policies() -> None:
    async with await started() as api:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
        await put_policy(api, "never", "false", matchConstraints={"resourceRules": [rule]})
        await bind(api, "never")
        assert (await api.post(MAPS, config_map("x"))).status == 422
        assert (await api.delete(f"{BINDINGS}/never")).status == 200
        assert (await api.post(MAPS, config_map("x"))).status == 201


@pytest.mark.anyio
async def test_the_plugin_can_be_switched_off() -> None:
    options = ControlPlaneOptions(disable_admission_plugins=("ValidatingAdmissionPolicy",))
    async with InMemory(ControlPlane(options=options), clock=VirtualClock()) as api:
        await put_policy(api, "never", "false")
        await bind(api, "never")
        assert (await api.post(MAPS, config_map("never"))).status == 201


@pytest.mark.anyio
async def test_policies_must_make_sense() -> None:
    async with await started() as api:
        answer = await api.post(POLICIES, {"metadata": {"name": "p"}, "spec": {}})
        assert answer.json["message"].endswith(
            "[spec.matchConstraints: Required value, spec.validations: Required value: validations or auditAnnotations "
            "must contain at least one item, spec.auditAnnotations: Required value: validations or auditAnnotations "
            "must contain at least one item]"
        )
        spec = {"policyName": "p", "validationActions": ["Deny", "Warn"]}
        answer = await api.post(BINDINGS, {"metadata": {"name": "p"}, "spec": spec})
        assert "must not contain both Deny and Warn" in answer.json["message"]


@pytest.mark.anyio
async def test_events_are_one_resource_in_two_groups() -> None:
    async with await started() as api:
        rule = {
            "apiGroups": ["events.k8s.io"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["events"],
        }
        seen = "object.note + '|' + request.kind.group + '|' + request.resource.group + '|' + request.requestKind.group"
        told = [{"expression": "false", "messageExpression": f"{seen} + '|' + request.requestResource.version"}]
        await put_policy(api, "ev", "true", matchConstraints={"resourceRules": [rule]}, validations=told)
        await bind(api, "ev")
        involved = {"kind": "Pod", "namespace": "default", "name": "p"}
        event = {
            "metadata": {"name": "e"},
            "involvedObject": involved,
            "message": "hello",
            "reason": "R",
            "type": "Normal",
        }
        refused = await api.post("/api/v1/namespaces/default/events", event)
        assert refused.status == 422
        assert refused.json["message"].endswith("denied request: hello|events.k8s.io|events.k8s.io||v1")
        exact = {"resourceRules": [rule], "matchPolicy": "Exact"}
        assert (await api.patch(f"{POLICIES}/ev", {"spec": {"matchConstraints": exact}})).status == 200
        assert (await api.post("/api/v1/namespaces/default/events", event)).status == 201
