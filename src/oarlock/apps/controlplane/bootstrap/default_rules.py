"""`DefaultRule`: a rule of one of the roles that every control plane has, as short as it can be written.

See also: `bootstrap_roles`, `system_roles`, `controller_roles`: the roles.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["ALL", "EVENTS", "READ", "WRITE", "DefaultRule", "rule_tree"]

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
ALL = "create delete deletecollection get list patch update watch"


class DefaultRule(NamedTuple):
    """Verbs, groups (``core`` for the one without a name; none for paths) and resources or paths, and maybe names."""

    verbs: str
    groups: str
    about: str
    names: str = ""


EVENTS = DefaultRule("create patch update", "core events.k8s.io", "events")
"""Whoever tells what it does by Events has this."""


def rule_tree(rule: DefaultRule) -> dict[str, Any]:
    """The rule as it is stored in a role."""
    tree: dict[str, Any] = {"verbs": rule.verbs.split()}
    if not rule.groups:
        return {**tree, "nonResourceURLs": rule.about.split()}
    tree["apiGroups"] = ["" if group == "core" else group for group in rule.groups.split()]
    tree["resources"] = rule.about.split()
    if rule.names:
        tree["resourceNames"] = rule.names.split()
    return tree
