"""RBAC: decisions against a small evaluator written from the rules, and after every change of a role or binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rbac_reference import allowed, rule_allows
from thoroughness import examples

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import AccessRule, KnownRules
from oarlock.policy.authz.role_based import FEW, RoleBasedAuthorizer, RoleBasedPolicy
from oarlock.policy.authz.roles import RoleKey, escalation, read_binding, read_role, read_rules, uncovered

VERBS = ("get", "list", "create", "delete", "*")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/log", "*/scale", "deployments/scale", "deployments", "pods/*", "*")
NAMES = ("a", "b")
URLS = ("/api", "/api/*", "*", "/metrics")
SPACES = ("x", "y")

Tree = dict[str, Any]


def some(values: Sequence[str], at_least: int = 1) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=at_least, max_size=2, unique=True)


def rule_trees(with_urls: bool) -> st.SearchStrategy[Tree]:
    about = st.fixed_dictionaries(
        {"verbs": some(VERBS), "apiGroups": some(GROUPS), "resources": some(RESOURCES), "resourceNames": some(NAMES, 0)}
    )
    urls = st.fixed_dictionaries({"verbs": some(VERBS), "nonResourceURLs": some(URLS)})
    return st.one_of(about, urls) if with_urls else about


SUBJECTS = st.sampled_from(
    [
        {"kind": "User", "name": "ann"},
        {"kind": "Group", "name": "staff"},
        {"kind": "Group", "name": "ann"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "x"},
        {"kind": "ServiceAccount", "name": "robot"},
    ]
)
WHO = st.sampled_from(
    [User("ann"), User("bob", groups=("staff",)), User("system:serviceaccount:x:robot"), User("staff"), User("eve")]
)


@st.composite
def roles(draw: st.DrawFn) -> tuple[str, Tree]:
    namespace = draw(st.sampled_from(("", *SPACES)))
    rules = draw(st.lists(rule_trees(not namespace), max_size=2))
    return namespace, {"metadata": {"name": draw(st.sampled_from("rs"))}, "rules": rules}


@st.composite
def bindings(draw: st.DrawFn) -> tuple[str, Tree]:
    namespace = draw(st.sampled_from(("", *SPACES)))
    kind = draw(st.sampled_from(("Role", "ClusterRole"))) if namespace else "ClusterRole"
    reference = {"kind": kind, "name": draw(st.sampled_from("rst"))}
    subjects = draw(st.lists(SUBJECTS, max_size=2))
    return namespace, {"metadata": {"name": draw(st.sampled_from("bc"))}, "roleRef": reference, "subjects": subjects}


@st.composite
def targets(draw: st.DrawFn) -> Target:
    verb = draw(st.sampled_from(("get", "list", "create", "delete", "escalate")))
    if draw(st.booleans()):
        return Target(verb, path=draw(st.sampled_from(("/api", "/api/v1", "/apis", "/metrics"))))
    resource, _, below = draw(st.sampled_from(("pods", "pods/log", "deployments/scale", "nodes", "pods/x"))).partition(
        "/"
    )
    return Target(
        verb,
        draw(st.sampled_from(("", "apps", "batch"))),
        "v1",
        resource,
        below,
        draw(st.sampled_from(("", *SPACES))),
        draw(st.sampled_from(("", "a", "c"))),
    )


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("role"), roles()),
        st.tuples(st.just("binding"), bindings()),
        st.tuples(st.just("no role"), roles()),
        st.tuples(st.just("no binding"), bindings()),
    ),
    min_size=1,
    max_size=25,
)


@examples(150)
@given(CHANGES, st.lists(st.tuples(WHO, targets()), min_size=1, max_size=6))
def test_decisions_are_those_of_the_rules_after_every_change(
    changes: list[tuple[str, tuple[str, Tree]]], questions: list[tuple[User, Target]]
) -> None:
    policy = RoleBasedPolicy()
    authorizer = RoleBasedAuthorizer(policy)
    known: dict[Any, Tree] = {}
    bound: dict[Any, Tree] = {}
    for what, (namespace, tree) in changes:
        key = (namespace, tree["metadata"]["name"])
        if what == "role":
            known[key] = tree
            policy.put_role(read_role(namespace, tree))
        elif what == "binding":
            bound[key] = tree
            policy.put_binding(read_binding(namespace, tree))
        elif what == "no role":
            known.pop(key, None)
            policy.remove_role(RoleKey(*key))
        else:
            bound.pop(key, None)
            policy.remove_binding(*key)
        for user, target in questions:
            expected = allowed(known, bound, user, target)
            assert decided(authorizer, user, target) is expected
            assert decided(authorizer, user, target) is expected, "remembered"


def decided(authorizer: RoleBasedAuthorizer, user: User, target: Target) -> bool:
    try:
        authorizer.decide(user, target).send(None)
    except StopIteration as done:
        return bool(done.value.allowed)
    raise AssertionError("it waits")


@examples(100)
@given(st.lists(rule_trees(True), max_size=3), st.lists(rule_trees(True), max_size=2), targets())
def test_nobody_gets_by_a_grant_what_they_had_not(held: list[Tree], granted: list[Tree], target: Target) -> None:
    if not uncovered(read_rules(held), read_rules(granted)) and any(rule_allows(rule, target) for rule in granted):
        assert any(rule_allows(rule, target) for rule in held)


@examples(50)
@given(st.lists(rule_trees(True), max_size=3))
def test_who_has_rules_may_grant_them(rules: list[Tree]) -> None:
    assert uncovered(read_rules(rules), read_rules(rules)) == []


def bind(policy: RoleBasedPolicy, namespace: str, name: str, role: str, *subjects: Tree) -> None:
    tree = {"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": list(subjects)}
    policy.put_binding(read_binding(namespace, tree))


def give(policy: RoleBasedPolicy, name: str, **rule: list[str]) -> None:
    policy.put_role(read_role("", {"metadata": {"name": name}, "rules": [rule]}))


ANN = {"kind": "User", "name": "ann"}
PODS = Target("get", "", "v1", "pods", namespace="x", name="p")


def test_a_subject_with_many_bindings_is_decided_by_an_index_that_follows_changes() -> None:
    policy = RoleBasedPolicy()
    for number in range(3 * FEW):
        give(policy, f"r{number}", verbs=["get"], apiGroups=[""], resources=[f"things{number}"])
        bind(policy, "x", f"b{number}", f"r{number}", ANN)
    ann = User("ann")
    assert not policy.decide(ann, PODS).allowed
    give(policy, "r1", verbs=["get"], apiGroups=[""], resources=["pods"])
    assert policy.decide(ann, PODS).reason == 'RBAC: allowed by RoleBinding "b1/x" of ClusterRole "r1" to User "ann"'
    assert not policy.decide(ann, Target("get", "", "v1", "things1", namespace="x")).allowed
    policy.remove_binding("x", "b1")
    assert not policy.decide(ann, PODS).allowed
    bind(policy, "x", "b1", "r1", ANN)
    policy.remove_role(RoleKey("", "r1"))
    refused = policy.decide(ann, PODS)
    assert (refused.allowed, refused.reason) == (
        False,
        'RBAC: clusterrole.rbac.authorization.k8s.io "r1" not found',
    )


def test_who_lets_in_is_named() -> None:
    policy = RoleBasedPolicy()
    give(policy, "r", verbs=["*"], apiGroups=["*"], resources=["*"])
    bind(policy, "", "all", "r", {"kind": "Group", "name": "staff"})
    bind(policy, "x", "here", "r", {"kind": "ServiceAccount", "name": "robot"})
    why = policy.decide(User("bob", groups=("staff",)), PODS).reason
    assert why == 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "r" to Group "staff"'
    why = policy.decide(User("system:serviceaccount:x:robot"), PODS).reason
    assert why == 'RBAC: allowed by RoleBinding "here/x" of ClusterRole "r" to ServiceAccount "robot/x"'


def test_no_rule_about_resources_opens_a_path() -> None:
    policy = RoleBasedPolicy()
    give(policy, "r", verbs=["*"], apiGroups=["*", "", "/"], resources=["*", "", "/", "non-resource URLs"])
    bind(policy, "", "b", "r", ANN)
    assert not policy.decide(User("ann"), Target("get", path="/metrics")).allowed


def test_a_binding_in_a_namespace_opens_no_path_and_no_other_namespace() -> None:
    policy = RoleBasedPolicy()
    policy.put_role(read_role("", {"metadata": {"name": "r"}, "rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}))
    bind(policy, "x", "b", "r", ANN)
    assert not policy.decide(User("ann"), Target("get", path="/metrics")).allowed
    assert not policy.decide(User("ann"), Target("get", path="/metrics", namespace="x")).allowed


def test_what_is_remembered_is_bounded() -> None:
    policy = RoleBasedPolicy()
    authorizer = RoleBasedAuthorizer(policy, limit_bytes=50_000)
    for number in range(1000):
        decided(authorizer, User(f"u{number}", groups=("g",) * (number % 7)), Target("get", "g", "v1", "r" * 200))
    assert 0 < authorizer.remembered_bytes <= 50_000
    give(policy, "r", verbs=["get"], apiGroups=[""], resources=["pods"])
    decided(authorizer, User("ann"), PODS)
    assert authorizer.remembered_bytes < 2000


def test_a_policy_that_lost_everything_weighs_nothing() -> None:
    policy = RoleBasedPolicy()
    for number in range(20):
        give(policy, f"r{number}", verbs=["get"], apiGroups=[""], resources=["pods"])
        bind(policy, "x", f"b{number}", f"r{number}", ANN, ANN)
    for number in range(20):
        policy.remove_binding("x", f"b{number}")
        policy.remove_role(RoleKey("", f"r{number}"))
    assert policy.generation > 0
    assert not any(held for name, held in vars(policy).items() if name not in ("generation", "is_loaded"))


def test_what_may_not_be_granted_is_shown_as_kubernetes_does() -> None:
    alice = User("alice", groups=("dev", "system:authenticated"))
    held = KnownRules((AccessRule(("get",), ("",), ("pods",)),))
    granted = [
        AccessRule(("get",), ("",), ("secrets", "nodes")),
        AccessRule(("list", "watch"), ("apps",), ("deployments",), ("d",)),
        AccessRule(("post",), non_resource_urls=("/logs/*", "/healthz")),
    ]
    assert escalation(alice, held, granted) == (
        'user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently '
        "held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}\n'
        '{APIGroups:["apps"], Resources:["deployments"], ResourceNames:["d"], Verbs:["list" "watch"]}\n'
        '{NonResourceURLs:["/healthz"], Verbs:["post"]}\n'
        '{NonResourceURLs:["/logs/*"], Verbs:["post"]}'
    )
    assert escalation(alice, held, [AccessRule(("get",), ("",), ("pods",), ("a",))]) == ""


def test_the_last_of_a_namespace_goes_although_a_binding_of_nobody_stays() -> None:
    policy = RoleBasedPolicy()
    bind(policy, "x", "nobody", "r")
    bind(policy, "x", "ann", "r", {"kind": "User", "name": "ann"})
    give(policy, "r", verbs=["get"], apiGroups=[""], resources=["pods"])
    policy.remove_binding("x", "ann")
    policy.remove_binding("x", "nobody")
    assert not policy.decide(User("ann"), Target("get", "", "v1", "pods", namespace="x")).allowed
