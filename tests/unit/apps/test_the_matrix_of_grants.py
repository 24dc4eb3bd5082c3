"""Nobody grants what they don't have: every verb and kind of role, binding and subject, against a reference of RBAC.

A user, a member of a group and a service account write roles and bindings over the whole server; whether they may is
compared with the rules of RBAC as `rbac_reference` has them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from rbac_reference import Tree, allowed, held_rules, points, rule_allows
from thoroughness import examples, rounds

from oarlock.apps.controlplane.bootstrap.bootstrap_roles import bindings, cluster_roles
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.meta.context import Target, User
from oarlock.testing import InMemory

pytestmark = pytest.mark.anyio

ROUNDS = int(os.environ.get("OARLOCK_GRANTS", rounds(150, 50)))
GROUP = "rbac.authorization.k8s.io"
RBAC = f"/apis/{GROUP}/v1"
KNOWN = "system:authenticated"
AUTHORS = {
    "User": User("ann", groups=("staff", KNOWN)),
    "Group": User("bob", groups=("dev", KNOWN)),
    "ServiceAccount": User(
        "system:serviceaccount:default:robot",
        groups=("system:serviceaccounts", "system:serviceaccounts:default", KNOWN),
    ),
}
SUBJECTS = {
    "User": {"kind": "User", "apiGroup": GROUP, "name": "ann"},
    "Group": {"kind": "Group", "apiGroup": GROUP, "name": "dev"},
    "ServiceAccount": {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
}
DECOYS = (
    {"kind": "Group", "apiGroup": GROUP, "name": "ann"},
    {"kind": "User", "apiGroup": GROUP, "name": "dev"},
    {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
    {"kind": "User", "apiGroup": GROUP, "name": "robot"},
)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "*")
RESOURCES = ("pods", "pods/log", "secrets", "deployments/scale", "*/scale", "*/log", "*")
TRUSTED = (
    ("escalate", "roles", ""),
    ("escalate", "clusterroles", "new"),
    ("bind", "roles", "new"),
    ("bind", "clusterroles", ""),
    ("bind", "clusterroles", "other"),
    ("*", "roles", ""),
)
PLURALS = "roles clusterroles rolebindings clusterrolebindings"
WRITER = {"verbs": ["create", "update", "patch"], "apiGroups": [GROUP], "resources": PLURALS.split()}


def some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


RESOURCE_RULES = st.fixed_dictionaries(
    {"verbs": some(*VERBS), "apiGroups": some("", "apps", "*"), "resources": some(*RESOURCES)},
    optional={"resourceNames": some("a", "b")},
)
PATH_RULES = st.fixed_dictionaries(
    {"verbs": some("get", "post", "*"), "nonResourceURLs": some("/api", "/api/*", "/ap*", "*", "/metrics")}
)
TRUST_RULES = st.sampled_from(TRUSTED).map(
    lambda one: {
        "verbs": [one[0]],
        "apiGroups": [GROUP],
        "resources": [one[1]],
        **({"resourceNames": [one[2]]} if one[2] else {}),
    }
)


@dataclass
class Grant:
    """Who has what, and what they try to write."""

    author: str
    scope: str
    """Where they have it: the cluster, by a cluster role in ``default``, or by a role there."""
    held: list[Tree]
    subject: Tree
    kind: str
    how: str
    granted: list[Tree]


@st.composite
def near(draw: st.DrawFn, rule: Tree) -> Tree:
    """The same rule, or one that differs in a value: wider, narrower, or about something else."""
    made = {field: list(values) for field, values in rule.items()}
    field = draw(st.sampled_from([*made, "none", "names"]))
    if field == "none":
        return made
    if field == "names":
        return {**made, "resourceNames": ["a"]} if "resources" in made else made
    at = draw(st.integers(0, len(made[field]) - 1))
    wider = {"resources": ["*", "*/log", "*/scale", "pods"], "nonResourceURLs": ["*", "/a*", "/api/*"]}
    made[field][at] = draw(st.sampled_from(wider.get(field, ["*", "a", "get", "apps"])))
    return made


@st.composite
def grants(draw: st.DrawFn) -> Grant:
    author, scope = draw(st.sampled_from(list(AUTHORS))), draw(st.sampled_from(("cluster", "binding", "role")))
    kind = draw(st.sampled_from(("Role", "ClusterRole", "Role bound", "ClusterRole bound", "ClusterRole everywhere")))
    about = RESOURCE_RULES | PATH_RULES if kind.startswith("ClusterRole") else RESOURCE_RULES
    granted = draw(st.lists(about, min_size=1, max_size=2))
    held = draw(st.lists(RESOURCE_RULES | TRUST_RULES, max_size=1))
    if draw(st.integers(0, 3)):  # else hardly anybody would have what they grant
        held += [draw(near(rule)) for rule in granted]
    if scope == "role":
        held = [rule for rule in held if "nonResourceURLs" not in rule]
    subject = SUBJECTS[author] if draw(st.integers(0, 5)) else draw(st.sampled_from(DECOYS))
    how = draw(st.sampled_from(("POST", "PUT", "PATCH", "apply")))
    return Grant(author, scope, held, subject, kind, how, granted)


def collected() -> list[Grant]:
    found: list[Grant] = []

    @examples(ROUNDS, ROUNDS, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(grants())
    def collect(one: Grant) -> None:
        found.append(one)

    collect()
    return found


def named(kind: str, name: str, **more: Any) -> Tree:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, **more}


def bound(kind: str, name: str, role_kind: str, role: str, subject: Tree) -> Tree:
    return named(kind, name, roleRef={"apiGroup": GROUP, "kind": role_kind, "name": role}, subjects=[subject])


class Cluster:
    """One server for all examples, and what the reference knows of it."""

    def __init__(self, api: InMemory) -> None:
        self.api = api
        self.roles: dict[tuple[str, str], Tree] = {("", one["metadata"]["name"]): one for one in cluster_roles()}
        self.bindings: dict[tuple[str, str], Tree] = {("", one["metadata"]["name"]): one for one in bindings()}

    async def put(self, tree: Tree) -> None:
        """Write a role or binding as an administrator, here and in the reference."""
        of = self.bindings if "roleRef" in tree else self.roles
        home = "" if tree["kind"].startswith("Cluster") else "default"
        key = (home, tree["metadata"]["name"])
        if "roleRef" in tree and key in self.bindings:
            assert (await self.api.delete(path(tree, True))).status == 200
        assert (await self.api.put(path(tree, True), tree)).status in (200, 201)
        of[key] = tree

    async def remove(self, kind: str, name: str) -> None:
        await self.api.delete(path(named(kind, name), True))
        home = "" if kind.startswith("Cluster") else "default"
        self.roles.pop((home, name), None)
        self.bindings.pop((home, name), None)

    async def write(self, one: Grant, tree: Tree) -> int:
        """Try it as the author; nothing changes."""
        user = AUTHORS[one.author]
        headers = {"impersonate-user": user.name}
        if one.author != "ServiceAccount":
            headers["impersonate-group"] = user.groups[0]
        query = "?dryRun=All"
        if one.how == "POST":
            return (await self.api.request("POST", path(tree, False) + query, tree, headers)).status
        if one.how == "PUT":
            return (await self.api.request("PUT", path(tree, True) + query, tree, headers)).status
        if one.how == "PATCH":
            await self.put({**tree, "rules": []} if "rules" in tree else tree)
        kind = "merge-patch+json" if one.how == "PATCH" else "apply-patch+yaml"
        query += "" if one.how == "PATCH" else "&fieldManager=x&force=true"
        headers["content-type"] = f"application/{kind}"
        changed = {**tree, "metadata": {**tree["metadata"], "labels": {"changed": "yes"}}}
        return (await self.api.request("PATCH", path(tree, True) + query, changed, headers)).status

    def expected(self, one: Grant, tree: Tree) -> bool:
        """Whether the author may write it, as the rules of RBAC say."""
        user = AUTHORS[one.author]
        home = "" if tree["kind"].startswith("Cluster") else "default"
        if "roleRef" in tree:
            plural = "roles" if tree["roleRef"]["kind"] == "Role" else "clusterroles"
            trust = Target("bind", GROUP, "v1", plural, "", home, tree["roleRef"]["name"])
        else:
            trust = Target("escalate", GROUP, "v1", tree["kind"].lower() + "s", "", home, tree["metadata"]["name"])
        if allowed(self.roles, self.bindings, user, trust):
            return True
        held = list(held_rules(self.roles, self.bindings, user, home))
        return all(any(rule_allows(rule, point) for rule in held) for point in points(one.granted))


def path(tree: Tree, of_object: bool) -> str:
    home = RBAC if tree["kind"].startswith("Cluster") else f"{RBAC}/namespaces/default"
    return f"{home}/{tree['kind'].lower()}s" + (f"/{tree['metadata']['name']}" if of_object else "")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with InMemory(ControlPlane()) as api:
        made = Cluster(api)
        await made.put(named("ClusterRole", "writer", rules=[WRITER]))
        for author, subject in SUBJECTS.items():
            await made.put(bound("ClusterRoleBinding", f"writer-{author.lower()}", "ClusterRole", "writer", subject))
        yield made


async def prepared(cluster: Cluster, one: Grant) -> Tree:
    """Give the author what they have; the object that they try to write."""
    role, binding = ("Role" if one.scope == "role" else "ClusterRole"), "RoleBinding"
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        await cluster.remove(kind, "held")
    for kind, name in (("Role", "new"), ("ClusterRole", "new"), ("RoleBinding", "new"), ("ClusterRoleBinding", "new")):
        await cluster.remove(kind, name)
    if one.scope == "cluster":
        binding = "ClusterRoleBinding"
    await cluster.put(named(role, "held", rules=one.held))
    await cluster.put(bound(binding, "held", role, "held", one.subject))
    of, _, where = one.kind.partition(" ")
    if not where:
        return named(of, "new", rules=one.granted)
    await cluster.put(named(of, "new", rules=one.granted))
    carol = {"kind": "User", "apiGroup": GROUP, "name": "carol"}
    return bound("ClusterRoleBinding" if where == "everywhere" else "RoleBinding", "new", of, "new", carol)


async def test_nobody_grants_more_than_they_have(cluster: Cluster) -> None:
    outcomes = set()
    for one in collected():
        tree = await prepared(cluster, one)
        status = await cluster.write(one, tree)
        expected = cluster.expected(one, tree)
        assert status in ((200, 201) if expected else (403,)), (status, expected, one)
        outcomes.add((one.author, expected))
    assert {expected for _, expected in outcomes} == {True, False}


async def test_who_grants_gets_nothing_by_it(cluster: Cluster) -> None:
    """After a grant to oneself that was let through, one may do no more than before."""
    for one in collected()[: ROUNDS // 2]:
        tree = await prepared(cluster, one)
        user, before = AUTHORS[one.author], (dict(cluster.roles), dict(cluster.bindings))
        if "roleRef" not in tree:
            continue
        tree["subjects"] = [SUBJECTS[one.author]]
        headers = {"impersonate-user": user.name}
        if one.author != "ServiceAccount":
            headers["impersonate-group"] = user.groups[0]
        status = (await cluster.api.request("POST", path(tree, False), tree, headers)).status
        trusted = any("bind" in rule["verbs"] or "*" in rule["verbs"] for rule in one.held)
        if status != 201 or trusted:
            continue
        for point in points(one.granted):
            spec: Tree = {"user": user.name, "groups": list(user.groups)}
            if point.resource:
                fields = ("group", "resource", "subresource", "namespace", "name", "verb")
                spec["resourceAttributes"] = {field: getattr(point, field) for field in fields}
            else:
                spec["nonResourceAttributes"] = {"path": point.path, "verb": point.verb}
            reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            answer = (await cluster.api.post(reviews, {"spec": spec})).json
            assert answer["status"]["allowed"] is allowed(*before, user, point), (point, one)
