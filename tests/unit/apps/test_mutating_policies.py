"""MutatingAdmissionPolicies change what is written, from the request after the write on, and are asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import User
from oarlock.testing import InMemory, VirtualClock

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


def label(name: str, value: str) -> dict[str, Any]:
    expression = f"Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}"
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


async def put(api: InMemory, name: str, *mutations: dict[str, Any], bound: Any = None, **spec: Any) -> None:
    given = {"matchConstraints": {"resourceRules": [RULE]}, "reinvocationPolicy": "Never", **spec}
    answer = await api.post(POLICIES, {"metadata": {"name": name}, "spec": {**given, "mutations": [*mutations]}})
    assert answer.status == 201, answer.json
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, **(bound or {})}}
    assert (await api.post(BINDINGS, binding)).status == 201


async def create(api: InMemory, **metadata: Any) -> Any:
    body = {"metadata": {"name": "a", **metadata}, "data": {"a": "1"}}
    return await api.post(f"{MAPS}?dryRun=All", body)


@pytest.mark.anyio
async def test_a_policy_counts_at_once_and_until_its_binding_is_gone() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await put(api, "p", label("by", "request.userInfo.username"))
        assert "by" in (await create(api)).json["metadata"]["labels"]
        assert (await api.delete(f"{BINDINGS}/p")).status == 200
        assert "labels" not in (await create(api)).json["metadata"]


@pytest.mark.anyio
async def test_an_earlier_policy_is_asked_again_if_it_wants_that_and_a_later_one_changed_something() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        seen = "'later' in object.metadata.?labels.orValue({}) ? 'yes' : 'no'"
        await put(api, "a", label("again", seen), reinvocationPolicy="IfNeeded")
        await put(api, "b", label("once", seen))
        await put(api, "c", label("later", "'1'"))
        labels = (await create(api)).json["metadata"]["labels"]
        assert labels == {"again": "yes", "once": "no", "later": "1"}


@pytest.mark.anyio
async def test_a_failed_mutation_refuses_and_under_ignore_the_next_is_made() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await put(api, "p", label("a", "object.data.nokey"), label("b", "'2'"))
        refused = await create(api)
        assert (refused.status, refused.json["reason"]) == (403, "Invalid")
        assert refused.json["message"].startswith("policy 'p' with binding 'p' denied request: expression 'Object{")
        assert (await api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}})).status == 200
        assert (await create(api)).json["metadata"]["labels"] == {"b": "2"}


@pytest.mark.anyio
async def test_each_object_of_parameters_is_one_invocation() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        for name in ("x", "y"):
            metadata = {"name": name, "labels": {"params": "yes"}}
            assert (await api.post(MAPS, {"metadata": metadata, "data": {"key": name}})).status == 201
        path = "'/data/' + jsonpatch.escapeKey(params.data.key)"
        patch = f"[JSONPatch{{op: 'add', path: {path}, value: string(size(object.data))}}]"
        reference = {"selector": {"matchLabels": {"params": "yes"}}, "parameterNotFoundAction": "Deny"}
        await put(
            api,
            "p",
            {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}},
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            bound={"paramRef": reference},
        )
        assert (await create(api)).json["data"] == {"a": "1", "x": "1", "y": "2"}


@pytest.mark.anyio
async def test_a_generated_name_is_kept_and_not_seen() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await put(api, "p", label("named", "string(has(object.metadata.name))"))
        metadata = (await create(api, name="", generateName="g-")).json["metadata"]
        assert metadata["labels"] == {"named": "false"}
        assert metadata["name"].startswith("g-")


@pytest.mark.anyio
async def test_variables_that_double_a_list_make_no_patch_without_end() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        doubled = [{"name": "v0", "expression": "['xxxxxxxxxxxxxxxx']"}]
        doubled += [{"name": f"v{n}", "expression": f"[variables.v{n - 1}, variables.v{n - 1}]"} for n in range(1, 40)]
        patch = "[JSONPatch{op: 'add', path: '/data/x', value: variables.v39}]"
        await put(api, "p", {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}, variables=doubled)
        refused = await create(api)
        assert (refused.status, refused.json["reason"]) == (403, "Invalid")
        assert "the patch has more than 3145728 bytes" in refused.json["message"]


MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "policies.md"


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["system:apiserver", "system:serviceaccount:kube-system:default"])
async def test_the_documented_policy_fits_the_names_of_those_who_run_a_cluster(name: str) -> None:
    text = PAGE.read_text().partition("kind: MutatingAdmissionPolicy")[2].partition("```")[0]
    spec = yaml.safe_load(f"kind: MutatingAdmissionPolicy{text}")["spec"]
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await put(api, "team", *spec.pop("mutations"), **spec)
        client = api.client(User(name, groups=("system:masters",)))
        made = await client.create({**MAP, "metadata": {"name": "a", "namespace": "default"}})
        assert made["metadata"]["annotations"] == {"by": name, "example.com/seen": "yes"}
