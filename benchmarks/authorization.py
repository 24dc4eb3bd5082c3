"""How long does an RBAC decision take? With 1,000 bindings and 10,000 rules, in µs: remembered, and cold.

Cold is measured for a user of one binding, for one with all thousand, and for one with none. Then: what a change costs,
with the first decision after it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from oarlock.meta.context import Target, User
from oarlock.policy.authz.role_based import RoleBasedAuthorizer, RoleBasedPolicy
from oarlock.policy.authz.roles import read_binding, read_role

ROLES, RULES, ROUNDS = 1000, 10, 2000
GROUP = "system:authenticated"
NEW_ROLE = {"metadata": {"name": "r500"}, "rules": [{"verbs": ["get"], "apiGroups": ["g"], "resources": ["new"]}]}


def role(number: int) -> dict[str, Any]:
    rules = [
        {"verbs": ["get", "list", "watch"], "apiGroups": [f"g{number}.example.com"], "resources": [f"things{each}"]}
        for each in range(RULES)
    ]
    return {"metadata": {"name": f"r{number}"}, "rules": rules}


def binding(name: str, number: int, user: str) -> dict[str, Any]:
    reference = {"kind": "ClusterRole", "name": f"r{number}"}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [{"kind": "User", "name": user}]}


def policy_of(users: Callable[[int], str]) -> RoleBasedPolicy:
    policy = RoleBasedPolicy()
    for number in range(ROLES):
        policy.put_role(read_role("", role(number)))
        policy.put_binding(read_binding("", binding(f"b{number}", number, users(number))))
    return policy


def measured(name: str, act: Callable[[int], Any]) -> None:
    times = []
    for number in range(ROUNDS):
        began = time.perf_counter_ns()
        act(number)
        times.append(time.perf_counter_ns() - began)
    print(f"{name:58} {statistics.median(times) / 1000:8.2f} µs")


def run(awaitable: Any) -> Any:
    try:
        awaitable.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def target(number: int) -> Target:
    return Target("get", f"g{number % ROLES}.example.com", "v1", "things9", namespace="default", name="a")


def main() -> None:
    each, one = policy_of(lambda number: f"u{number}"), policy_of(lambda number: "everything")
    users = [User(f"u{number}", groups=(GROUP,)) for number in range(ROLES)]
    everything, nobody = User("everything", groups=(GROUP,)), User("nobody", groups=(GROUP, "a", "b", "c"))
    targets = [target(number) for number in range(ROLES)]
    assert each.decide(users[7], targets[7]).allowed
    assert one.decide(everything, targets[7]).allowed
    assert not each.decide(nobody, targets[7]).allowed

    authorizer = RoleBasedAuthorizer(each)
    run(authorizer.decide(users[0], targets[0]))
    measured("remembered", lambda number: run(authorizer.decide(users[0], targets[0])))
    measured(
        "cold, of a user with one binding", lambda number: each.decide(users[number % ROLES], targets[number % ROLES])
    )
    measured("cold, of a user with 1,000 bindings", lambda number: one.decide(everything, targets[number % ROLES]))
    measured("cold, refused, of a user with 4 groups and no binding", lambda number: each.decide(nobody, targets[0]))
    measured("a role of 10 rules changes, and a decision", lambda number: change(each, users[500], number))
    measured("the same of a user with 1,000 bindings", lambda number: change(one, everything, number))


def change(policy: RoleBasedPolicy, user: User, number: int) -> None:
    policy.put_role(read_role("", NEW_ROLE if number % 2 else role(500)))
    policy.decide(user, target(500))


if __name__ == "__main__":
    main()
