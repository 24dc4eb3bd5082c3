"""Which requests a policy records, and what it says of a mistake."""

from __future__ import annotations

from typing import Any

import pytest

from oarlock.meta.context import Target, User
from oarlock.policy.audit.policy import AuditPolicyError, Level, Stage, policy_of

ALICE = User("alice", groups=("devs", "system:authenticated"))


def policy(*rules: dict[str, Any], **more: Any) -> Any:
    return policy_of({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more})


def level(rule: dict[str, Any], target: Target, user: User = ALICE) -> str:
    return policy({"level": "Metadata", **rule}).decide(user, target).level.word


POD = Target("get", "", "v1", "pods", "", "default", "a")
LOG = Target("get", "", "v1", "pods", "log", "default", "a")
SCALE = Target("update", "apps", "v1", "deployments", "scale", "default", "a")
NODE = Target("list", "", "v1", "nodes")
PATH = Target("get", path="/healthz/etcd")


@pytest.mark.parametrize(
    ("rule", "target", "matches"),
    [
        ({}, POD, True),
        ({}, PATH, True),
        ({"users": ["alice"]}, POD, True),
        ({"users": ["bob"]}, POD, False),
        ({"userGroups": ["ops", "devs"]}, POD, True),
        ({"userGroups": ["ops"]}, POD, False),
        ({"verbs": ["get"]}, POD, True),
        ({"verbs": ["list"]}, POD, False),
        ({"namespaces": ["default"]}, POD, True),
        ({"namespaces": ["kube-system"]}, POD, False),
        ({"namespaces": [""]}, NODE, True),
        ({"namespaces": [""]}, POD, False),
        ({"namespaces": ["default"]}, PATH, False),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, POD, True),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, LOG, False),
        ({"resources": [{"group": "", "resources": ["pods/log"]}]}, LOG, True),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, LOG, True),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, POD, True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, LOG, True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, POD, False),
        ({"resources": [{"group": "", "resources": ["*"]}]}, LOG, True),
        ({"resources": [{"group": ""}]}, LOG, True),
        ({"resources": [{"group": ""}]}, SCALE, False),
        ({"resources": [{"group": "*", "resources": ["*/scale"]}]}, SCALE, True),
        ({"resources": [{"group": "apps", "resources": ["*"]}]}, POD, False),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["a"]}]}, POD, True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["b"]}]}, POD, False),
        ({"resources": [{"group": ""}]}, PATH, False),
        ({"nonResourceURLs": ["/healthz*"]}, PATH, True),
        ({"nonResourceURLs": ["/healthz"]}, PATH, False),
        ({"nonResourceURLs": ["*"]}, PATH, True),
        ({"nonResourceURLs": ["/metrics", "/healthz/etcd"]}, PATH, True),
        ({"nonResourceURLs": ["*"]}, POD, False),
    ],
)
def test_a_rule_matches_what_every_part_of_it_matches(rule: dict[str, Any], target: Target, matches: bool) -> None:
    assert level(rule, target) == ("Metadata" if matches else "None")


@pytest.mark.parametrize("others", [0, 10])
def test_the_first_rule_that_matches_decides(others: int) -> None:
    more = [{"level": "None", "users": [f"user-{i}"]} for i in range(others)]
    decided = policy(*more, {"level": "None", "verbs": ["watch"]}, {"level": "Request"})
    for _ in range(2):
        assert decided.decide(ALICE, POD).level is Level.REQUEST
        assert decided.decide(ALICE, Target("watch", "", "v1", "pods")).level is Level.NONE
        assert decided.decide(User("user-3"), POD).level is (Level.NONE if others else Level.REQUEST)


def test_stages_are_left_out_by_the_policy_and_by_the_rule() -> None:
    recording = policy(
        {"level": "Metadata", "omitStages": ["Panic"], "omitManagedFields": False},
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    ).decide(ALICE, POD)
    assert recording.omitted == {Stage.PANIC, Stage.REQUEST_RECEIVED}
    assert not recording.omit_managed_fields
    assert policy({"level": "Metadata"}, omitManagedFields=True).decide(ALICE, POD).omit_managed_fields


@pytest.mark.parametrize(
    "target",
    [
        Target("get", "", "v1", "secrets", "", "default", "a"),
        Target("list", "", "v1", "secrets"),
        Target("create", "", "v1", "serviceaccounts", "token", "default", "a"),
        Target("create", "authentication.k8s.io", "v1", "tokenreviews"),
    ],
)
def test_credentials_are_never_recorded(target: Target) -> None:
    decided = policy({"level": "RequestResponse", "omitStages": ["RequestReceived"]}).decide(ALICE, target)
    assert decided.level is Level.METADATA
    assert decided.omitted == {Stage.REQUEST_RECEIVED}


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ([], "the document: must be a mapping"),
        ({"kind": "Policy"}, "apiVersion: Invalid value: null: write audit.k8s.io/v1"),
        ({"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy"}, "write audit.k8s.io/v1"),
        ({}, "rules: Required value: a policy without rules records nothing; write at least one"),
        ({"rules": {}}, "rules: Invalid value: {}: write a list"),
        ({"rules": [{}]}, "rules[0].level: Required value: write one of None, Metadata, Request, RequestResponse"),
        ({"rules": [{"level": "metadata"}]}, 'rules[0].level: Unsupported value: "metadata": supported values: None,'),
        ({"rules": [{"level": "None", "user": ["a"]}]}, 'unknown field "rules[0].user": leave it out, or write one of'),
        ({"rules": [{"level": "None", "users": "a"}]}, 'rules[0].users: Invalid value: "a": write a list'),
        ({"rules": [{"level": "None", "verbs": [1]}]}, "rules[0].verbs[0]: Invalid value: 1: write a text"),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["healthz"]}]},
            "rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/'",
        ),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["/a*b"]}]},
            "non-resource URL wildcards '*' must be the final character of the rule",
        ),
        (
            {"rules": [{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["b"]}]},
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            {"rules": [{"level": "None", "resources": [{"group": "apps/v1"}]}]},
            'rules[0].resources[0].group: Invalid value: "apps/v1": a group has no version',
        ),
        (
            {"rules": [{"level": "None", "resources": [{"resourceNames": ["a"]}]}]},
            "using resourceNames requires at least one resource",
        ),
        (
            {"rules": [{"level": "None", "omitStages": ["Received"]}]},
            'rules[0].omitStages[0]: Invalid value: "Received": allowed stages are '
            "RequestReceived,ResponseStarted,ResponseComplete,Panic",
        ),
        ({"rules": [{"level": "None", "omitManagedFields": "yes"}]}, 'omitManagedFields: Invalid value: "yes": write'),
    ],
)
def test_a_mistake_is_told_with_its_field(tree: Any, says: str) -> None:
    whole = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **tree} if isinstance(tree, dict) else tree
    if tree == {"kind": "Policy"}:
        whole = tree
    with pytest.raises(AuditPolicyError) as told:
        policy_of(whole)
    assert says in str(told.value)
    assert "\n" not in str(told.value)
