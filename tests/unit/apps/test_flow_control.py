"""Flow schemas and priority levels of a control plane: what is there, what may be said, what takes effect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import User
from oarlock.policy.fairness import builtin
from oarlock.server.config import ServerConfig
from oarlock.server.filters.fairness import FairnessFilter
from oarlock.testing import InMemory, VirtualClock

pytestmark = pytest.mark.anyio

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEVELS, SCHEMAS = f"{GROUP}/prioritylevelconfigurations", f"{GROUP}/flowschemas"


@pytest.fixture
async def api() -> AsyncIterator[InMemory]:
    async with InMemory(ControlPlane()) as api:
        await settled(api)
        yield api


async def settled(api: InMemory, seconds: float = 1.0) -> None:
    assert isinstance(api.clock, VirtualClock)
    for _ in range(20):
        await api.clock.run(seconds / 20)


def level(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"type": "Limited", **spec}}


def schema(name: str, **spec: Any) -> dict[str, Any]:
    rule = {"subjects": [{"kind": "User", "user": {"name": "u"}}]}
    resource = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}
    given = {"priorityLevelConfiguration": {"name": "x"}, "rules": [{**rule, "resourceRules": [resource]}], **spec}
    return {"metadata": {"name": name}, "spec": given}


async def test_the_built_in_objects_are_stored(api: InMemory) -> None:
    for path, trees in (
        (LEVELS, (*builtin.MANDATORY_LEVELS, *builtin.SUGGESTED_LEVELS)),
        (SCHEMAS, (*builtin.MANDATORY_SCHEMAS, *builtin.SUGGESTED_SCHEMAS)),
    ):
        stored = {one["metadata"]["name"]: one for one in (await api.get(path)).json["items"]}
        assert {name: one["spec"] for name, one in stored.items()} == {
            one["metadata"]["name"]: one["spec"] for one in trees
        }
        assert all(one["metadata"]["annotations"] == {builtin.AUTO_UPDATE: "true"} for one in stored.values())


async def test_a_schema_says_whether_its_level_exists(api: InMemory) -> None:
    await api.post(SCHEMAS, schema("mine", priorityLevelConfiguration={"name": "later"}))
    await settled(api)
    (told,) = (await api.get(f"{SCHEMAS}/mine")).json["status"]["conditions"]
    about = 'This FlowSchema references the PriorityLevelConfiguration object named "later"'
    assert (told["type"], told["status"], told["reason"]) == ("Dangling", "True", "NotFound")
    assert told["message"] == f"{about} but there is no such object"
    await api.post(LEVELS, level("later", limited={"limitResponse": {"type": "Reject"}}))
    await settled(api)
    (told,) = (await api.get(f"{SCHEMAS}/mine")).json["status"]["conditions"]
    assert (told["status"], told["reason"], told["message"]) == ("False", "Found", f"{about} and it exists")


async def test_what_is_deleted_comes_back_and_what_is_kept_stays(api: InMemory) -> None:
    await api.delete(f"{SCHEMAS}/catch-all")
    await api.delete(f"{LEVELS}/system")
    kept = (await api.get(f"{LEVELS}/workload-low")).json
    kept["metadata"]["annotations"][builtin.AUTO_UPDATE] = "false"
    kept["spec"]["limited"]["nominalConcurrencyShares"] = 7
    await api.put(f"{LEVELS}/workload-low", kept)
    changed = (await api.get(f"{LEVELS}/workload-high")).json
    changed["spec"]["limited"]["nominalConcurrencyShares"] = 7
    await api.put(f"{LEVELS}/workload-high", changed)
    await settled(api)
    assert (await api.get(f"{SCHEMAS}/catch-all")).status == 200
    assert (await api.get(f"{LEVELS}/system")).status == 200
    assert await shares(api, "workload-low") == 7
    assert await shares(api, "workload-high") == 40


async def shares(api: InMemory, name: str) -> int:
    found: int = (await api.get(f"{LEVELS}/{name}")).json["spec"]["limited"]["nominalConcurrencyShares"]
    return found


async def test_what_is_written_is_in_force(api: InMemory) -> None:
    fair = api.parts.fairness.in_flight
    assert isinstance(fair, FairnessFilter)
    await api.post(LEVELS, level("mine", limited={"limitResponse": {"type": "Reject"}}))
    await settled(api)
    assert fair.fairness.levels["mine"].limits.nominal == 600 * 30 // 275 + 1
    await api.delete(f"{LEVELS}/mine")
    await settled(api)
    assert "mine" not in fair.fairness.levels


async def test_the_answer_names_the_stored_objects() -> None:
    alice = User("alice", groups=("system:authenticated",))
    config = ServerConfig(storage="memory://", authorization_mode=("AlwaysAllow",))
    async with InMemory(ControlPlane(), user=alice, config=config) as api:
        await settled(api)
        answer = await api.get(LEVELS)
        uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in answer.json["items"]}
        assert answer.headers["x-kubernetes-pf-prioritylevel-uid"] == uids["global-default"]


async def test_it_can_be_turned_off() -> None:
    config = ServerConfig(storage="memory://", enable_priority_and_fairness=False)
    async with InMemory(ControlPlane(), config=config) as api:
        assert not isinstance(api.parts.fairness.in_flight, FairnessFilter)
        assert (await api.get("/debug/api_priority_and_fairness/dump_queues")).status == 404


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"limited": {}},
            'spec.limited.limitResponse.type: Unsupported value: "": supported values: "Queue", "Reject"',
        ),
        ({"limited": {"limitResponse": {"type": "Reject"}, "lendablePercent": 101}}, "spec.limited.lendablePercent"),
        ({"limited": {"limitResponse": {"type": "Reject"}}, "exempt": {}}, "spec.exempt: Forbidden: must be nil if"),
        (
            {"limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 512, "handSize": 8}}}},
            "required entropy bits of deckSize 512 and handSize 8 should not be greater than 60",
        ),
        (
            {"limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 7, "handSize": 8}}}},
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (7)",
        ),
        ({"type": "Exempt"}, "type must be 'Exempt' if and only if name is 'exempt'"),
    ],
)
async def test_levels_that_make_no_sense_are_refused(api: InMemory, spec: dict[str, Any], text: str) -> None:
    answer = await api.post(LEVELS, level("bad", **spec))
    assert answer.status == 422
    assert text in answer.json["message"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"matchingPrecedence": 1}, "only the schema named 'exempt' may have matchingPrecedence 1"),
        ({"matchingPrecedence": -1}, "spec.matchingPrecedence: Invalid value: -1: must be a positive value"),
        ({"rules": [{}]}, "spec.rules[0].subjects: Required value: subjects must contain at least one value"),
        (
            {"rules": [{"subjects": [{"kind": "Dog"}]}]},
            'spec.rules[0].subjects[0].kind: Unsupported value: "Dog": supported values: "Group", "ServiceAccount",',
        ),
        (
            {"rules": [{"subjects": [{"kind": "User", "user": {"name": "a"}, "group": {"name": "b"}}]}]},
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
        ),
        (
            {"rules": [{"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "a"}}]}]},
            "serviceAccount.namespace: Required value: must specify namespace for service account",
        ),
        (
            {"rules": [{"resourceRules": [{"verbs": ["feed"], "apiGroups": ["*"], "resources": ["*"]}]}]},
            'resourceRules[0].verbs: Unsupported value: ["feed"]: supported values: "create", "delete",',
        ),
        (
            {"rules": [{"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/health*"]}]}]},
            'nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/health*": wildcard can only do suffix matching',
        ),
        ({"distinguisherMethod": {"type": "ByMood"}}, "spec.distinguisherMethod.type: Unsupported value"),
        ({"priorityLevelConfiguration": {"name": "a b"}}, "a lowercase RFC 1123 subdomain must consist of"),
    ],
)
async def test_schemas_that_make_no_sense_are_refused(api: InMemory, spec: dict[str, Any], text: str) -> None:
    answer = await api.post(SCHEMAS, schema("bad", **spec))
    assert answer.status == 422
    assert text in answer.json["message"]


async def test_the_mandatory_ones_cannot_be_changed(api: InMemory) -> None:
    answer = await api.put(f"{SCHEMAS}/exempt", schema("exempt", priorityLevelConfiguration={"name": "exempt"}))
    assert answer.status == 422
    assert "spec of 'exempt' must equal the fixed value" in answer.json["message"]
    found = (await api.get(f"{LEVELS}/exempt")).json
    found["spec"]["exempt"]["lendablePercent"] = 50
    assert (await api.put(f"{LEVELS}/exempt", found)).status == 200
    await settled(api)
    assert (await api.get(f"{LEVELS}/exempt")).json["spec"]["exempt"]["lendablePercent"] == 50
