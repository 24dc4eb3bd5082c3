"""What policies refuse, warn of, record and let pass is counted under kube-apiserver's names."""

from __future__ import annotations

from typing import Any

import pytest
from until import settled

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.policy.admission.counts import MOST_NAMES, OTHER, PolicyCheck, PolicyCounts
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


async def put(api: InMemory, kind: str, name: str, spec: dict[str, Any], **binding: Any) -> None:
    policy = {"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    assert (await api.post(f"{GROUP}/{kind}admissionpolicies", policy)).status == 201
    bound = {"metadata": {"name": f"{name}-bound"}, "spec": {"policyName": name, **binding}}
    assert (await api.post(f"{GROUP}/{kind}admissionpolicybindings", bound)).status == 201


async def series(api: InMemory, kind: str) -> dict[str, float]:
    """The counter of a kind of policy, by labels."""
    head = f"apiserver_{kind}_admission_policy_check_total"
    lines = (await api.get("/metrics")).body.decode().splitlines()
    found = [line.removeprefix(head).rpartition(" ") for line in lines if line.startswith(f"{head}{{")]
    return {labels: float(count) for labels, _, count in found}


def labels(action: str, error: str, policy: str) -> str:
    return f'{{enforcement_action="{action}",error_type="{error}",policy="{policy}",policy_binding="{policy}-bound"}}'


async def test_validations_are_counted_by_what_was_done_about_them() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await settled(api)
        small = {"validations": [{"expression": "object.data.size() < 2"}, {"expression": "object.data.size() > 0"}]}
        await put(api, "validating", "deny", small, validationActions=["Deny"])
        await put(api, "validating", "tell", small, validationActions=["Warn", "Audit"])
        lost = {"validations": [{"expression": "object.data.nokey == ''"}]}
        await put(api, "validating", "lost", {**lost, "failurePolicy": "Ignore"}, validationActions=["Deny"])
        await put(api, "validating", "fails", {**lost, "failurePolicy": "Fail"}, validationActions=["Audit"])
        conditions = {"matchConditions": [{"name": "c", "expression": "object.data.nokey == ''"}], **lost}
        await put(api, "validating", "unsure", {**conditions, "failurePolicy": "Ignore"}, validationActions=["Deny"])
        assert await series(api, "validating") == {}
        assert (await api.post(MAPS, {"metadata": {"name": "a"}, "data": {"a": "1"}})).status == 201
        assert (await api.post(MAPS, {"metadata": {"name": "b"}, "data": {"a": "1", "b": "2"}})).status == 422
        assert await series(api, "validating") == {
            labels("deny", "no_error", "deny"): 1.0,
            labels("warn", "no_error", "tell"): 1.0,
            labels("audit", "no_error", "tell"): 1.0,
            labels("allow", "invalid_error", "lost"): 2.0,
            labels("audit", "invalid_error", "fails"): 2.0,
            labels("allow", "invalid_error", "unsure"): 2.0,
        }
        durations = (await api.get("/metrics")).body.decode()
        head = "apiserver_validating_admission_policy_check_duration_seconds"
        of_deny = labels("deny", "no_error", "deny")
        assert f"{head}_count{of_deny} 1.0" in durations
        bucket = of_deny.replace('",policy=', '",le="1",policy=')
        assert f"{head}_bucket{bucket} 1.0" in durations


async def test_spent_budgets_and_errors_of_annotations_are_told_apart() -> None:
    notes = {"auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.nokey)"}]}
    dear = {"validations": [{"expression": f"!object.data.s.contains(object.data.t) || {n} < 0"} for n in range(20)]}
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await settled(api)
        for policy, failing in (("fails", "Fail"), ("lets", "Ignore")):
            await put(api, "validating", policy, {**dear, "failurePolicy": failing}, validationActions=["Deny"])
        await put(api, "validating", "notes", {**notes, "failurePolicy": "Fail"}, validationActions=["Warn"])
        body = {"metadata": {"name": "a"}, "data": {"s": "x" * 30_000, "t": "y" * 3_000}}
        assert (await api.post(MAPS, body)).status == 422
        assert await series(api, "validating") == {
            labels("deny", "invalid_error", "notes"): 1.0,
            labels("deny", "out_of_budget", "fails"): 1.0,
            labels("allow", "out_of_budget", "lets"): 1.0,
        }


async def test_mutations_are_counted() -> None:
    async with InMemory(ControlPlane(), clock=VirtualClock()) as api:
        await settled(api)
        good, bad = (
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": f"[JSONPatch{{op: 'add', path: '{path}', value: '1'}}]"},
            }
            for path in ("/data/added", "/none/of/these")
        )
        spec = {"mutations": [good, bad], "reinvocationPolicy": "Never", "failurePolicy": "Ignore"}
        await put(api, "mutating", "both", spec)
        assert (await api.post(MAPS, {"metadata": {"name": "a"}, "data": {"a": "1"}})).status == 201
        head = 'policy="both",policy_binding="both-bound"}'
        assert await series(api, "mutating") == {
            f'{{error_type="no_error",{head}': 1.0,
            f'{{error_type="invalid_error",{head}': 1.0,
        }


def test_names_of_policies_are_bounded() -> None:
    counts = PolicyCounts()
    for n in range(MOST_NAMES + 5):
        counts.checked(PolicyCheck(f"p{n}", "b", "no_error", "deny"), 0.001)
    counts.checked(PolicyCheck("p0", "b", "no_error", "deny"), 0.001)
    assert len(counts.checks) == MOST_NAMES + 1
    others = counts.checks[PolicyCheck(OTHER, OTHER, "no_error", "deny")]
    assert sum(others.buckets) == 5
    assert sum(counts.checks[PolicyCheck("p0", "b", "no_error", "deny")].buckets) == 2
