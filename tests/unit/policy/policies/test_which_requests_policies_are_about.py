"""Rules, exceptions, names, scopes and labels select requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oarlock.policy.admission.policies.request_tree import Matching, RequestedResource

ASKED = RequestedResource("apps", "v1", "deployments", "", "CREATE", True, "a", ("v1beta1",))
RULE = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["deployments"],
    "scope": "*",
}


@pytest.mark.parametrize(
    ("rule", "asked", "version"),
    [
        ({}, {}, "v1"),
        ({"apiGroups": ["*"], "operations": ["*"], "resources": ["*"]}, {}, "v1"),
        ({"apiGroups": [""]}, {}, None),
        ({"operations": ["UPDATE"]}, {}, None),
        ({"resources": ["*"]}, {"subresource": "scale"}, None),
        ({"resources": ["*/*"]}, {"subresource": "scale"}, "v1"),
        ({"resources": ["*/*"]}, {}, "v1"),
        ({"resources": ["deployments/*"]}, {"subresource": "status"}, "v1"),
        ({"resources": ["*/scale"]}, {"subresource": "status"}, None),
        ({"scope": "Cluster"}, {}, None),
        ({"scope": "Namespaced"}, {}, "v1"),
        ({"resourceNames": ["b"]}, {}, None),
        ({"resourceNames": ["a"]}, {}, "v1"),
        ({"apiVersions": ["v1beta1"]}, {}, "v1beta1"),
        ({"apiVersions": ["v2"]}, {}, None),
    ],
)
def test_a_rule_takes_a_request(rule: dict[str, Any], asked: dict[str, Any], version: str | None) -> None:
    matching = Matching({"resourceRules": [{**RULE, **rule}]})
    assert matching.version(replace(ASKED, **asked)) == version


def test_exact_rules_take_no_other_version() -> None:
    rules = [{**RULE, "apiVersions": ["v1beta1"]}]
    assert Matching({"resourceRules": rules, "matchPolicy": "Exact"}).version(ASKED) is None


def test_exceptions_count_more() -> None:
    tree = {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["a"]}]}
    assert Matching(tree).version(ASKED) is None
    assert Matching(tree).version(replace(ASKED, name="b")) == "v1"


def test_labels_of_either_object_count() -> None:
    matching = Matching({"objectSelector": {"matchLabels": {"a": "b"}}})
    with_label = {"metadata": {"labels": {"a": "b"}}}
    assert matching.takes_objects(None, with_label)
    assert matching.takes_objects(with_label, {"metadata": {}})
    assert not matching.takes_objects({"metadata": {"labels": {"a": "c"}}}, None)


def test_without_rules_everything_is_taken() -> None:
    assert Matching({}).version(ASKED) == "v1"
    assert Matching({}).takes_objects(None, None)
    assert not Matching({}).by_namespace
