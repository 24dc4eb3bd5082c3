"""What takes long for an object made to be long runs in a thread: what the server's own code does with it too.

Nothing is timed. Every step of Python's that belongs to such work is seen with the thread that it ran in, if it was
given something long: the server's own objects pass through the same steps at times that no test chooses.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
from walk_kit import walk

from oarlock.apps.admission import webhook_rules
from oarlock.apps.controllers import role_aggregation
from oarlock.apps.controlplane.collections import access_reviews, roles, secrets
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.codec import json
from oarlock.meta.context import User
from oarlock.policy.authz import roles as read_roles
from oarlock.policy.authz import webhook
from oarlock.registry.workers import MANY_VALUES, is_wide
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MANY = 4_000
KEYS = {f"k{n}": "v" for n in range(MANY)}
RULES = [{"verbs": ["get"], "apiGroups": [f"g{n}.example.com"], "resources": [f"r{n}"]} for n in range(MANY)]
SUBJECTS = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"u{n}"} for n in range(MANY)]
REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wide"}
ABOUT = {"verb": "get", "resource": "pods"}
HOOK = {
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["n.example.com"], "apiVersions": ["v1"], "resources": ["x"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
WEBHOOKS = [{"name": f"h{n}.example.com", **HOOK} for n in range(600)]


def is_long(thing: Any, depth: int = 3) -> bool:
    """Whether a tree, or the fields of an object, hold hundreds of values in one place. None of the server does."""
    if isinstance(thing, dict | list | tuple) and len(thing) > MANY_VALUES:
        return True
    if isinstance(thing, dict):
        inner = [*thing.values()]
    elif isinstance(thing, list | tuple):
        inner = [*thing]
    else:
        names = [*getattr(thing, "__struct_fields__", ()), *getattr(thing, "__dataclass_fields__", ())]
        inner = [getattr(thing, name, None) for name in names]
    return depth > 0 and any(is_long(one, depth - 1) for one in inner)


@contextmanager
def seen(*functions: Any) -> Iterator[dict[str, set[str]]]:
    """By the name of each of these functions: what called it with something long, ``loop`` or ``thread``."""
    codes: dict[CodeType, str] = {one.__code__: one.__name__ for one in functions}
    found: dict[str, set[str]] = {one.__name__: set() for one in functions}

    def look(where: str) -> Any:
        def profile(frame: FrameType, event: str, argument: Any) -> None:
            name = codes.get(frame.f_code) if event == "call" else None
            if name is not None and any(map(is_long, frame.f_locals.values())):
                found[name].add(where)

        return profile

    before = sys.getprofile()
    threading.setprofile(look("thread"))
    sys.setprofile(look("loop"))
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # none


CASES: list[tuple[str, str, Any, tuple[Any, ...]]] = [
    ("secrets", f"{CORE}/secrets", {"metadata": {"name": "a"}, "stringData": KEYS}, (secrets.key_errors,)),
    ("config maps", f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": KEYS}, (secrets.key_errors,)),
    (
        "roles",
        f"{RBAC}/clusterroles",
        {"metadata": {"name": "wide"}, "rules": RULES},
        (roles._rule_errors, read_roles.read_role, read_roles.Grants.__init__),
    ),
    (
        "bindings",
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "wide"}, "roleRef": REFERENCE, "subjects": SUBJECTS},
        (roles._subject_errors, read_roles.read_binding),
    ),
    ("webhooks", HOOKS, {"metadata": {"name": "many"}, "webhooks": WEBHOOKS}, (webhook_rules.webhook_errors,)),
    (
        "extra of a review",
        f"{REVIEWS}/subjectaccessreviews",
        {"spec": {"user": "x", "extra": {f"e{n}": ["v"] for n in range(MANY)}, "resourceAttributes": ABOUT}},
        (webhook.user_of, json.encode_sorted),
    ),
    (
        "groups of a review",
        f"{REVIEWS}/subjectaccessreviews",
        {"spec": {"user": "x", "groups": [f"g{n}" for n in range(MANY)], "resourceAttributes": ABOUT}},
        (webhook.user_of, json.encode_sorted),
    ),
]


@pytest.mark.parametrize(("path", "body", "steps"), [one[1:] for one in CASES], ids=[one[0] for one in CASES])
@walk
async def test_an_object_made_to_be_long_is_worked_on_in_a_thread(path: str, body: Any, steps: tuple[Any, ...]):
    clock = VirtualClock()
    with seen(*steps) as found:
        async with InMemory(ControlPlane(), clock=clock) as api:
            await clock.run(60)
            answer = await api.post(path, body)
            assert answer.status == 201, answer
            policy = api.parts.authorization.policy
            arrived = asyncio.Event()
            policy.when_arrived(policy.announced, arrived.set)
            await arrived.wait()
    assert found == {step.__name__: {"thread"} for step in steps}


@walk
async def test_the_rules_of_a_user_who_has_many_are_listed_in_a_thread():
    with seen(access_reviews._rules_status, json.encode_sorted) as found:
        async with InMemory(ControlPlane()) as api:
            await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "wide"}, "rules": RULES})
            subjects = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "admin"}]
            await api.post(
                f"{RBAC}/clusterrolebindings", {"metadata": {"name": "w"}, "roleRef": REFERENCE, "subjects": subjects}
            )
            answer = await api.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert len(answer.json["status"]["resourceRules"]) >= MANY
    assert found == {"_rules_status": {"thread"}, "encode_sorted": {"thread"}}


@walk
async def test_the_rules_of_aggregated_roles_are_joined_in_a_thread():
    clock = VirtualClock()
    with seen(role_aggregation._union) as found:
        async with InMemory(ControlPlane(), clock=clock) as api:
            await clock.run(1)
            labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
            twice = [*RULES, *RULES]
            await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "wide", "labels": labels}, "rules": twice})
            view: list[Any] = []
            while len(view) < MANY:
                await clock.run(1)
                view = (await api.get(f"{RBAC}/clusterroles/view")).json["rules"]
    assert [rule for rule in view if rule in RULES[:3]] == RULES[:3]
    assert len({str(rule) for rule in view}) == len(view)
    assert found == {"_union": {"thread"}}


def test_what_is_wide() -> None:
    few, many = list(range(MANY_VALUES)), list(range(MANY_VALUES + 1))
    assert not is_wide({"metadata": {"name": "a"}, "spec": {"a": few, "b": {"c": few}}})
    for tree in (many, {"a": many}, {"spec": {"a": {"b": many}}}, {"spec": dict.fromkeys(many)}):
        assert is_wide(tree)
    assert not is_wide(User("x"))
