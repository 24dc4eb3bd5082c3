"""A control plane's roles: what they must be like, who may write them, what makes them up, and reviews of access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from oarlock import Resource
from oarlock.apps.controllers.role_aggregation import (
    AUTOUPDATE,
    create_declared_roles,
    create_default_roles,
    reconciled,
)
from oarlock.apps.controlplane.bootstrap.bootstrap_roles import bindings, cluster_roles
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import User
from oarlock.schema.definition import DefaultRoles
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
ROLES, BINDINGS = f"{RBAC}/namespaces/default/roles", f"{RBAC}/namespaces/default/rolebindings"
REVIEWS = "/apis/authorization.k8s.io/v1"
ALICE = User("alice", groups=("dev", "system:authenticated"))
Tree = dict[str, Any]


def role(name: str, *rules: Tree, kind: str = "Role", **more: Any) -> Tree:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, **more}, "rules": list(rules)}


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Tree:
    made: Tree = {"verbs": verbs.split(), "apiGroups": groups.split(",") if groups else [""]}
    return {**made, "resources": resources.split(), **({"resourceNames": names.split()} if names else {})}


def binding(name: str, of: str, kind: str = "Role", user: str = "alice") -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": of},
        "subjects": [{"kind": "User", "name": user}],
    }


class Both:
    """One server, as its administrator sees it and as alice."""

    def __init__(self, api: InMemory) -> None:
        self.api = api

    async def root(self, method: str, path: str, body: Any = None) -> Any:
        return await self._as({}, method, path, body)

    async def alice(self, method: str, path: str, body: Any = None) -> Any:
        who = {"impersonate-user": "alice", "impersonate-group": "dev"}
        return await self._as(who, method, path, body)

    async def _as(self, who: dict[str, str], method: str, path: str, body: Any) -> Any:
        headers = {**who, "content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        return await self.api.request(method, path, body, headers)


@asynccontextmanager
async def plane() -> AsyncIterator[Both]:
    async with InMemory(ControlPlane()) as api:
        yield Both(api)


KEEPER = role(
    "keeper",
    rule("create update patch get delete", GROUP, "roles rolebindings"),
    rule("get list", "", "pods"),
    rule("get", "", "configmaps", "a"),
)


async def test_nobody_grants_what_they_have_not() -> None:
    async with plane() as both:
        assert (await both.root("POST", ROLES, KEEPER)).status == 201
        assert (await both.root("POST", BINDINGS, binding("keeper", "keeper"))).status == 201
        assert (await both.root("POST", ROLES, role("strong", rule("delete", "", "secrets")))).status == 201
        assert (await both.alice("POST", ROLES, role("weak", rule("get", "", "pods")))).status == 201
        refused = await both.alice("POST", ROLES, role("x", rule("get delete", "", "pods")))
        assert refused.status == 403
        assert refused.json["message"] == (
            'roles.rbac.authorization.k8s.io "x" is forbidden: user "alice" (groups=["dev" "system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
        )
        for method, path, body in (
            ("PATCH", f"{ROLES}/weak", {"rules": [rule("get", "", "secrets")]}),
            ("PUT", f"{ROLES}/weak", role("weak", rule("*", "*", "*"))),
            ("PATCH", f"{ROLES}/strong", {"metadata": {"labels": {"a": "b"}}}),
            ("POST", BINDINGS, binding("b", "strong")),
            ("POST", BINDINGS, binding("b", "cluster-admin", "ClusterRole")),
        ):
            assert (await both.alice(method, path, body)).status == 403, (method, path)
        assert (await both.alice("POST", BINDINGS, binding("b", "ghost"))).status == 404
        assert (await both.alice("POST", BINDINGS, binding("weak", "weak", user="carol"))).status == 201
        finalizer = {"metadata": {"finalizers": ["example.com/hold"]}}
        assert (await both.alice("PATCH", f"{ROLES}/strong", finalizer)).status == 200, "that is no grant"


async def test_the_verbs_that_trust() -> None:
    async with plane() as both:
        trusted = role("trusted", rule("bind", GROUP, "roles", "strong"), rule("escalate", GROUP, "roles"))
        for each in (KEEPER, trusted, role("strong", rule("delete", "", "secrets"))):
            assert (await both.root("POST", ROLES, each)).status == 201
        for name in ("keeper", "trusted"):
            assert (await both.root("POST", BINDINGS, binding(name, name))).status == 201
        assert (await both.alice("POST", BINDINGS, binding("b", "strong"))).status == 201
        assert (await both.alice("POST", ROLES, role("any", rule("*", "*", "*")))).status == 201
        assert (await both.alice("POST", BINDINGS, binding("c", "any"))).status == 403


VERBS = st.sampled_from(("get", "delete", "*"))
RESOURCES = st.sampled_from(("pods", "pods/log", "secrets", "*", "*/log"))
RULES = st.builds(
    lambda verb, group, resource, names: rule(verb, group, resource, names),
    VERBS,
    st.sampled_from(("", "apps", "*")),
    RESOURCES,
    st.sampled_from(("", "a")),
)


def covers(held: Tree, asked: Tree) -> bool:
    """Whether one rule has all of another, of one verb, group, resource and name each."""
    (verb,), (group,), (resource,) = asked["verbs"], asked["apiGroups"], asked["resources"]
    below = "*/" + resource.partition("/")[2] if "/" in resource else "*"
    return (
        bool({verb, "*"} & set(held["verbs"]))
        and bool({group, "*"} & set(held["apiGroups"]))
        and bool({resource, below, "*"} & set(held["resources"]))
        and ("resourceNames" not in held or held["resourceNames"] == asked.get("resourceNames"))
    )


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Both]:
    """One server for many examples: each replaces what alice holds."""
    async with plane() as both:
        assert (await both.root("POST", ROLES, role("held"))).status == 201
        assert (await both.root("POST", BINDINGS, binding("held", "held"))).status == 201
        yield both


def collected() -> Iterator[tuple[Tree, Tree]]:
    """What alice holds, and what she grants."""
    found: list[tuple[Tree, Tree]] = []

    @examples(80, database=None)
    @given(RULES, RULES)
    def collect(held: Tree, granted: Tree) -> None:
        found.append((held, granted))

    collect()
    return iter(found)


async def test_the_matrix_of_grants(shared: Both) -> None:
    writes = rule("create update patch", GROUP, "roles rolebindings")
    outcomes = set()
    for held, granted in collected():
        assert (await shared.root("PUT", f"{ROLES}/held", role("held", writes, held))).status == 200
        expected = 201 if covers(held, granted) else 403
        outcomes.add(expected)
        made = await shared.alice("POST", f"{ROLES}?dryRun=All", role("y", granted))
        assert made.status == expected, (held, granted, made.json)
        assert (await shared.root("PUT", f"{ROLES}/x", role("x", granted))).status in (200, 201)
        assert (await shared.alice("POST", f"{BINDINGS}?dryRun=All", binding("x", "x"))).status == expected
    assert outcomes == {201, 403}


async def test_aggregated_roles_follow_their_parts() -> None:
    async with plane() as both:
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"example.com/aggr": "yes"}}]}
        whole = {**role("whole", kind="ClusterRole"), "aggregationRule": selectors}
        part = role("part", rule("get", "", "configmaps"), kind="ClusterRole", labels={"example.com/aggr": "yes"})
        assert (await both.root("POST", f"{RBAC}/clusterroles", whole)).status == 201
        assert (await both.root("POST", f"{RBAC}/clusterroles", part)).status == 201
        joined = [rule("get", "", "configmaps")]
        assert await settled(both, "whole", lambda rules: rules == joined) == joined
        assert await settled(both, "view", lambda rules: any("pods" in one.get("resources", ()) for one in rules or ()))
        await both.root("PATCH", f"{RBAC}/clusterroles/whole", {"rules": [rule("*", "*", "*")]})
        assert await settled(both, "whole", lambda rules: rules == joined) == joined, "by hand is not for long"
        await both.root("PATCH", f"{RBAC}/clusterroles/part", {"metadata": {"labels": None}})
        assert not await settled(both, "whole", lambda rules: not rules), "what no part allows any more, is not allowed"


async def test_who_aggregates_roles_has_all_rights() -> None:
    async with plane() as both:
        author = role("author", rule("create update patch get", GROUP, "clusterroles"), kind="ClusterRole")
        assert (await both.root("POST", f"{RBAC}/clusterroles", author)).status == 201
        bound = {**binding("author", "author", "ClusterRole"), "kind": "ClusterRoleBinding"}
        assert (await both.root("POST", f"{RBAC}/clusterrolebindings", bound)).status == 201
        plain = role("plain", kind="ClusterRole")
        assert (await both.alice("POST", f"{RBAC}/clusterroles", plain)).status == 201
        sums = {**role("sum", kind="ClusterRole"), "aggregationRule": {"clusterRoleSelectors": [{}]}}
        refused = await both.alice("POST", f"{RBAC}/clusterroles", sums)
        assert refused.status == 403
        assert "must have cluster-admin privileges to use the aggregationRule" in refused.json["message"]
        changed = {"aggregationRule": sums["aggregationRule"]}
        assert (await both.alice("PATCH", f"{RBAC}/clusterroles/plain", changed)).status == 403
        assert (await both.root("POST", f"{RBAC}/clusterroles", sums)).status == 201
        assert (await both.alice("PATCH", f"{RBAC}/clusterroles/sum", {"aggregationRule": None})).status == 403


async def settled(both: Both, name: str, wanted: Callable[[Any], bool]) -> Any:
    """The rules of a role once they are as `wanted`. The controller joins them in a thread, whose time is real."""
    rules = None
    for _ in range(300):
        await both.api.clock.run(1)  # type: ignore[attr-defined]  # a VirtualClock
        await asyncio.to_thread(int)
        rules = (await both.root("GET", f"{RBAC}/clusterroles/{name}")).json["rules"]
        if wanted(rules):
            break
    return rules


async def review(both: Both, plural: str, spec: Tree, *, as_alice: bool = False) -> Any:
    ask = both.alice if as_alice else both.root
    return await ask("POST", f"{REVIEWS}/{plural}", {"spec": spec})


PODS: Tree = {"namespace": "default", "verb": "get", "resource": "pods"}


async def test_reviews_answer_as_the_server_decides() -> None:
    async with plane() as both:
        await both.root("POST", ROLES, KEEPER)
        await both.root("POST", BINDINGS, binding("keeper", "keeper"))
        told = await review(both, "subjectaccessreviews", {"user": "alice", "resourceAttributes": PODS})
        assert told.status == 201
        assert told.json["metadata"] == {}
        assert told.json["status"] == {
            "allowed": True,
            "reason": 'RBAC: allowed by RoleBinding "keeper/default" of Role "keeper" to User "alice"',
        }
        told = await review(both, "selfsubjectaccessreviews", {"resourceAttributes": PODS}, as_alice=True)
        assert told.json["status"]["allowed"] is True
        told = await review(
            both, "selfsubjectaccessreviews", {"resourceAttributes": {**PODS, "verb": "delete"}}, as_alice=True
        )
        assert told.json["status"] == {"allowed": False}
        told = await review(both, "selfsubjectrulesreviews", {"namespace": "default"}, as_alice=True)
        rules = told.json["status"]["resourceRules"]
        assert rule("get list", "", "pods") in rules
        assert told.json["status"]["incomplete"] is False
        refused = await review(both, "subjectaccessreviews", {"user": "bob", "resourceAttributes": PODS}, as_alice=True)
        assert refused.status == 403
        wrong = await review(both, "subjectaccessreviews", {"resourceAttributes": PODS, "nonResourceAttributes": {}})
        assert wrong.status == 422
        assert len(wrong.json["details"]["causes"]) == 2
        local = "namespaces/default/localsubjectaccessreviews"
        assert (await review(both, local, {"user": "alice", "resourceAttributes": PODS})).json["status"]["allowed"]
        elsewhere = {"user": "alice", "resourceAttributes": {**PODS, "namespace": "x"}}
        assert (await review(both, local, elsewhere)).status == 422
        assert (await both.root("GET", f"{REVIEWS}/subjectaccessreviews")).status == 405


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rules": [{"verbs": []}]}, "rules[0].verbs"),
        ({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, "rules[0].nonResourceURLs"),
        ({"rules": [{"verbs": ["get"], "apiGroups": [""]}]}, "rules[0].resources"),
        ({"metadata": {"name": "a/b"}}, "metadata.name"),
    ],
)
async def test_what_a_role_must_be_like(change: Tree, field: str) -> None:
    async with plane() as both:
        wrong = await both.root("POST", ROLES, {**role("x"), **change})
        assert wrong.status == 422
        assert field in [cause["field"] for cause in wrong.json["details"]["causes"]]


async def test_a_binding_keeps_its_role() -> None:
    async with plane() as both:
        assert (await both.root("POST", BINDINGS, binding("b", "r"))).status == 201
        changed = await both.root("PATCH", f"{BINDINGS}/b", {"roleRef": {"name": "other"}})
        assert (changed.status, changed.json["message"].rpartition(": ")[2]) == (422, "cannot change roleRef")


def test_what_is_missing_of_a_default_role_comes_back() -> None:
    wanted = next(one for one in cluster_roles() if one["metadata"]["name"] == "system:basic-user")
    assert reconciled(wanted, wanted) is None
    more = rule("get", "", "pods")
    stored = {**wanted, "rules": [more, wanted["rules"][1]]}
    made = reconciled(wanted, stored)
    assert made is not None
    assert made["rules"] == [more, wanted["rules"][1], wanted["rules"][0]]
    kept = {**stored, "metadata": {**wanted["metadata"], "annotations": {AUTOUPDATE: "false"}}}
    assert reconciled(wanted, kept) is None
    bound = bindings()[0]
    fewer = reconciled(bound, {**bound, "subjects": []})
    assert fewer is not None
    assert fewer["subjects"] == bound["subjects"]
    view = next(one for one in cluster_roles() if one["metadata"]["name"] == "view")
    whole = reconciled(view, {**view, "rules": [more], "aggregationRule": {"clusterRoleSelectors": []}})
    assert whole is not None
    assert whole["aggregationRule"] == view["aggregationRule"]
    assert whole["rules"] == [more]


class Sail(Resource, group="sails.example.com", version="v1", rbac=DefaultRoles(edit=("update",), admin=("delete",))):
    """A sail."""


async def test_a_resource_says_what_the_roles_may_do_with_it() -> None:
    async with InMemory(ControlPlane(serve=[Sail])) as api:
        both = Both(api)
        for name, verbs in (("view", ["get", "list", "watch"]), ("edit", ["update"]), ("admin", ["delete"])):
            about = {"apiGroups": ["sails.example.com"], "resources": ["sails"]}
            wanted = {"verbs": verbs, **about}
            assert wanted in await settled(both, name, lambda rules, wanted=wanted: wanted in (rules or ()))
        await create_declared_roles(api.client(), [])
        assert "sails" not in str(await settled(both, "view", lambda rules: "sails" not in str(rules)))


async def test_default_roles_are_completed_at_each_start() -> None:
    async with plane() as both:
        path = f"{RBAC}/clusterroles/system:basic-user"
        await both.root("PATCH", path, {"rules": []})
        await both.root("DELETE", f"{RBAC}/clusterrolebindings/system:discovery")
        assert (await both.alice("GET", "/api")).status == 403
        await create_default_roles(both.api.client())
        assert len((await both.root("GET", path)).json["rules"]) == 2
        assert (await both.alice("GET", "/api")).status == 200
