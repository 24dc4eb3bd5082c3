"""A role or binding that takes long to read holds nobody up, and counts for the next request all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_role_based_access import DEVELOPERS_READ, KINDS, RBAC, THINGS, ClusterRole, Role, RoleBinding
from walk_kit import walk

from oarlock import APIServer, Target, User
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.policy.authz.role_based import FEW, MANY_GROUPS, RoleBasedAuthorizer, RoleBasedPolicy
from oarlock.policy.authz.roles import AccessBinding, AccessRole, BoundSubject, RoleKey
from oarlock.testing import InMemory

ANN = User("ann", groups=("dev", "system:authenticated"))
GET_THINGS = {"verbs": ["get", "list"], "apiGroups": ["things.example.com"], "resources": ["things"]}
OTHERS = [{"verbs": ["get"], "apiGroups": [f"g{n}.example.com"], "resources": [f"r{n}"]} for n in range(2_000)]
ONE = THINGS.format("x")


def served() -> InMemory:
    return InMemory(APIServer(serve=KINDS), config=RBAC, user=ANN)


def role(name: str, *rules: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, of: str, *users: str) -> dict[str, Any]:
    subjects = [{"kind": "User", "name": user} for user in users]
    return {"metadata": {"name": name}, "roleRef": {"kind": "Role", "name": of}, "subjects": subjects}


@walk
async def test_a_large_role_is_read_in_a_thread_and_counts_for_the_next_request():
    async with served() as api:
        root, policy = api.client(), api.parts.authorization.policy
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        announced = policy.announced
        await root.create(role("readers", *OTHERS, GET_THINGS), kind=Role, namespace="x")
        assert policy.announced == announced + 1
        assert (await api.get(ONE)).status == 200

        await root.patch(Role, "readers", {"rules": OTHERS}, namespace="x")
        assert (await api.get(ONE)).status == 403, "what is taken away is gone for the next request"
        assert policy.announced == announced + 2

        await root.patch(Role, "readers", {"rules": [*OTHERS, GET_THINGS]}, namespace="x")
        await root.patch(Role, "readers", {"rules": []}, namespace="x")
        assert (await api.get(ONE)).status == 403, "small changes wait for large ones before them"
        await root.patch(Role, "readers", {"rules": [GET_THINGS]}, namespace="x")
        assert (await api.get(ONE)).status == 200
        await root.patch(Role, "readers", {"rules": [*OTHERS, GET_THINGS]}, namespace="x")
        await root.delete(Role, "readers", namespace="x")
        assert (await api.get(ONE)).status == 403


@walk
async def test_a_large_binding_is_made_in_slices_and_counts_for_the_next_request():
    crowd = [f"somebody-{n}" for n in range(4_000)]
    async with served() as api:
        root, policy = api.client(), api.parts.authorization.policy
        await root.create(role("readers", GET_THINGS), kind=Role, namespace="x")
        announced = policy.announced
        await root.create(binding("many", "readers", *crowd, "ann"), kind=RoleBinding, namespace="x")
        assert policy.announced == announced + 1
        assert not policy.has_arrived(announced + 1)
        assert (await api.get(ONE)).status == 200
        await root.create(binding("many", "readers", *crowd), kind=RoleBinding, namespace="y")
        await root.delete(RoleBinding, "many", namespace="x")
        assert (await api.get(ONE)).status == 403


@walk
async def test_who_is_allowed_by_another_role_waits_for_nothing():
    async with served() as api:
        root, policy = api.client(), api.parts.authorization.policy
        await root.create(role("readers", GET_THINGS), kind=Role, namespace="x")
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        await root.create(role("wide", *OTHERS), kind=ClusterRole)
        assert not policy.has_arrived(policy.announced)
        authorizer = RoleBasedAuthorizer(policy)
        asked = Target("list", "things.example.com", "v1", "things", namespace="x")
        allowed = authorizer.authorize_cached(ANN, asked)
        assert allowed is not None
        assert allowed.allowed
        assert authorizer.authorize_cached(User("nobody"), asked) is None, "nobody is denied before it is there"
        assert not (await authorizer.decide(User("nobody"), asked)).allowed


@walk
async def test_who_keeps_changing_large_roles_keeps_nobody_waiting():
    policy = RoleBasedPolicy()
    authorizer = RoleBasedAuthorizer(policy)
    policy.expect((True, "x", "a"))
    waiting = asyncio.ensure_future(authorizer.decide(ANN, Target("get", "", "v1", "pods")))
    await asyncio.sleep(0)
    policy.expect((True, "x", "b"))
    policy.arrived((True, "x", "a"))
    assert not (await waiting).allowed
    assert not policy.has_arrived(policy.announced)


@walk
async def test_a_large_role_that_nobody_can_read_gives_nobody_anything(caplog: pytest.LogCaptureFixture):
    async with served() as api:
        root = api.client()
        await root.create(DEVELOPERS_READ, kind=RoleBinding, namespace="x")
        await root.create(role("readers", GET_THINGS), kind=Role, namespace="x")
        await root.patch(Role, "readers", {"rules": [GET_THINGS, {"verbs": 7, "x": "y" * 100_000}]}, namespace="x")
        assert (await api.get(ONE)).status == 403
    assert "is unreadable and grants no permissions" in caplog.text


@walk
async def test_a_server_that_ends_amid_a_large_change_leaves_no_task():
    async with served() as api:
        await api.client().create(role("wide", *OTHERS), kind=ClusterRole)
        named = [task for task in asyncio.all_tasks() if task.get_name().startswith("RBAC")]
        assert len(named) == 1
    await asyncio.sleep(1)
    assert named[0].done()


class Counted(RoleBasedPolicy):
    """How many groups were looked at in one go."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once: list[int] = []

    def bound_groups(self, groups: Any, namespace: str) -> list[str]:
        self.at_once.append(len(groups))
        return super().bound_groups(groups, namespace)


@walk
async def test_a_user_of_many_groups_is_looked_at_in_slices():
    policy = Counted()
    pods = AccessRule(("get",), ("",), ("pods",), (), ())
    policy.put_role(AccessRole(RoleKey("", "r"), (pods,)))
    policy.put_binding(AccessBinding("", "b", RoleKey("", "r"), (BoundSubject("g:g99999", "Group g99999"),)))
    policy.put_binding(AccessBinding("x", "c", RoleKey("", "r"), (BoundSubject("g:g5", "Group g5"),)))
    authorizer = RoleBasedAuthorizer(policy)
    many = User("many", groups=tuple(f"g{n}" for n in range(100_000)))
    asked = Target("get", "", "v1", "pods")
    assert authorizer.authorize_cached(many, asked) is None
    assert (await authorizer.decide(many, asked)).allowed
    assert (await authorizer.rules(many, "y")).rules == (pods,)
    assert max(policy.at_once) == MANY_GROUPS
    few = User("few", groups=many.groups[:99_999])
    assert not (await authorizer.decide(few, asked)).allowed
    assert (await authorizer.decide(few, Target("get", "", "v1", "pods", namespace="x"))).allowed
    assert authorizer.remembered_bytes == 0


@pytest.mark.parametrize("many", [1, FEW + 4])
def test_a_wide_role_is_found_beside_others_and_gone_when_it_is(many: int) -> None:
    policy = RoleBasedPolicy()
    ann, subject = User("ann"), (BoundSubject("u:ann", "User ann"),)
    wide = tuple(AccessRule(("get",), (f"g{n}",), ("r",), (), ()) for n in range(1_000))
    policy.put_role(AccessRole(RoleKey("", "wide"), wide))
    policy.put_binding(AccessBinding("", "wide", RoleKey("", "wide"), subject))
    for number in range(many):
        policy.put_role(AccessRole(RoleKey("", f"r{number}"), (AccessRule(("get",), ("h",), (f"r{number}",), (), ()),)))
        policy.put_binding(AccessBinding("", f"b{number}", RoleKey("", f"r{number}"), subject))
    assert policy.decide(ann, Target("get", "g999", "v1", "r")).allowed
    assert policy.decide(ann, Target("get", "h", "v1", "r0")).allowed
    policy.put_role(AccessRole(RoleKey("", "wide"), wide[:10]))
    assert not policy.decide(ann, Target("get", "g999", "v1", "r")).allowed
    assert policy.decide(ann, Target("get", "g9", "v1", "r")).allowed
    policy.put_role(AccessRole(RoleKey("", "wide"), wide))
    policy.remove_binding("", "wide")
    assert not policy.decide(ann, Target("get", "g9", "v1", "r")).allowed
    for number in range(many):
        policy.remove_binding("", f"b{number}")
    assert not policy._holders
