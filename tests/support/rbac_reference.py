"""RBAC as its documentation says it, without an index: who may do what, and what rules are about.

What our own policy answers is compared with this. Roles and bindings are trees, by (namespace, name); a cluster role
has no namespace. Must not know: anything of ours but `Target` and `User`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from oarlock.meta.context import Target, User

__all__ = ["Tree", "allowed", "applies", "held_rules", "points", "rule_allows"]

Tree = dict[str, Any]
Known = Mapping[tuple[str, str], Tree]


def applies(subject: Tree, user: User, namespace: str) -> bool:
    """Whether a subject of a binding in `namespace` is the user."""
    if subject["kind"] == "User":
        return bool(subject["name"] == user.name)
    if subject["kind"] == "Group":
        return subject["name"] in user.groups
    home = subject.get("namespace") or namespace
    return home != "" and user.name == f"system:serviceaccount:{home}:{subject['name']}"


def rule_allows(rule: Tree, target: Target) -> bool:
    if not {"*", target.verb} & set(rule["verbs"]):
        return False
    if not target.resource:
        urls = rule.get("nonResourceURLs", [])
        return any(url == target.path or (url[-1] == "*" and target.path.startswith(url[:-1])) for url in urls)
    if not {"*", target.group} & set(rule.get("apiGroups", [])):
        return False
    fits = {"*", target.resource}
    if target.subresource:
        fits = {"*", f"{target.resource}/{target.subresource}", f"*/{target.subresource}"}
    if not fits & set(rule["resources"]):
        return False
    names = rule.get("resourceNames", [])
    return not names or target.name in names


def held_rules(roles: Known, bindings: Known, user: User, namespace: str) -> Iterator[Tree]:
    """The rules that `user` has by bindings of the cluster and of `namespace`."""
    for (home, _), binding in bindings.items():
        if home in ("", namespace) and any(applies(subject, user, home) for subject in binding["subjects"]):
            of = home if binding["roleRef"]["kind"] == "Role" else ""
            role = roles.get((of, binding["roleRef"]["name"]))
            yield from (role.get("rules") or ()) if role is not None else ()


def allowed(roles: Known, bindings: Known, user: User, target: Target) -> bool:
    """Whether `user` may do what `target` says."""
    rules = held_rules(roles, bindings, user, target.namespace if target.resource else "")
    return any(rule_allows(rule, target) for rule in rules)


def points(rules: Iterable[Tree]) -> set[Target]:
    """Requests that tell apart what rules are about.

    A ``*`` stands for a value that no rule names, ``NEW``; so rules have all that others have if they allow each of
    these requests. Names are those of the rule, or none and a new one.
    """
    found = set()
    for rule in rules:
        verbs = _several(rule["verbs"])
        for verb, url in product(verbs, rule.get("nonResourceURLs", [])):
            path = f"{url[:-1]}{NEW}" if url.endswith("*") else url
            found |= {Target(verb, path=path), *([Target(verb, path=url[:-1])] if url.endswith("*") else [])}
        names = rule.get("resourceNames") or ["", NEW]
        for group, resource in product(_several(rule.get("apiGroups", [])), rule.get("resources", [])):
            for whole in [NEW, f"{NEW}/{NEW}"] if resource == "*" else [resource.replace("*", NEW)]:
                plural, _, below = whole.partition("/")
                found |= {
                    Target(verb, group, "v1", plural, below, "default", name) for verb, name in product(verbs, names)
                }
    return found


NEW = "new"


def _several(values: Iterable[str]) -> list[str]:
    return [NEW if value == "*" else value for value in values]
