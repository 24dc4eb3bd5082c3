"""The wording of 403."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import forbidden


def test_the_shared_cases(shared_vectors: Callable[[str], Any]) -> None:
    for case in shared_vectors("http_requests.json")["groups"]["forbidden_messages"]:
        a = case["attributes"]
        verb = a["Verb"] if isinstance(a["Verb"], str) else "GET"
        target = Target(
            verb,
            a.get("APIGroup", ""),
            "",
            a.get("Resource", ""),
            a.get("Subresource", ""),
            a.get("Namespace", ""),
            a.get("Name", ""),
            path=a.get("Path", ""),
        )
        error = forbidden(User(a["User"]["Name"]), target, case["reason"])
        assert error.status() == json.loads(case["expected"])


def test_the_reason_follows() -> None:
    error = forbidden(User("u"), Target("get", path="/x"), "RBAC: no")
    assert error.message == 'forbidden: User "u" cannot get path "/x": RBAC: no'
    error = forbidden(User("<u>"), Target("list", "g", "v1", "pods"), "no rule")
    assert error.message == (
        'pods.g is forbidden: User "&lt;u&gt;" cannot list resource "pods" in API group "g" '
        "at the cluster scope: no rule"
    )
