"""The values that RBAC decides by: `AccessRole`, `AccessBinding`, `BoundSubject`; and how they are read from trees.

Must not know: decisions (`policy`). Source: k8s.io/api ``rbac/v1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.policy.authz.authorizer import AccessRule

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = "system:serviceaccount"


class RoleKey(NamedTuple):
    """A Role in its namespace; a ClusterRole has none."""

    namespace: str
    name: str

    @property
    def kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"

    @property
    def missing(self) -> str:
        """What is said when a binding refers to it and it doesn't exist."""
        return f"{self.kind.lower()}.{GROUP} {quote(self.name)} not found"


class BoundSubject(NamedTuple):
    """Who a binding is for. `key` is how it is found: ``u:`` and a user's name, or ``g:`` and a group's."""

    key: str
    shown: str


@dataclass(frozen=True, slots=True)
class AccessRole:
    """A Role or ClusterRole."""

    key: RoleKey
    rules: tuple[AccessRule, ...]


@dataclass(frozen=True, slots=True)
class AccessBinding:
    """A RoleBinding, or a ClusterRoleBinding if its namespace is empty."""

    namespace: str
    name: str
    role: RoleKey
    subjects: tuple[BoundSubject, ...]

    def reason(self, subject: BoundSubject) -> str:
        """Why a request is allowed."""
        kind, name = "ClusterRoleBinding", self.name
        if self.namespace:
            kind, name = "RoleBinding", f"{name}/{self.namespace}"
        role = f"{self.role.kind} {quote(self.role.name)}"
        return f"RBAC: allowed by {kind} {quote(name)} of {role} to {subject.shown}"


def read_role(namespace: str, tree: Mapping[str, Any]) -> AccessRole:
    """The tree of a Role, or of a ClusterRole in no namespace."""
    return AccessRole(RoleKey(namespace, tree["metadata"]["name"]), read_rules(tree.get("rules")))


def read_rules(trees: Iterable[Mapping[str, Any]] | None) -> tuple[AccessRule, ...]:
    return tuple(
        AccessRule(
            tuple(tree.get("verbs") or ()),
            tuple(tree.get("apiGroups") or ()),
            tuple(tree.get("resources") or ()),
            tuple(tree.get("resourceNames") or ()),
            tuple(tree.get("nonResourceURLs") or ()),
        )
        for tree in trees or ()
    )


def read_binding(namespace: str, tree: Mapping[str, Any]) -> AccessBinding:
    """The tree of a RoleBinding, or of a ClusterRoleBinding in no namespace."""
    role = tree["roleRef"]
    of = namespace if role["kind"] == "Role" else ""
    subjects = (_subject(namespace, subject) for subject in tree.get("subjects") or ())
    return AccessBinding(
        namespace,
        tree["metadata"]["name"],
        RoleKey(of, role["name"]),
        tuple(subject for subject in subjects if subject is not None),
    )


def _subject(namespace: str, tree: Mapping[str, Any]) -> BoundSubject | None:
    kind, name = tree["kind"], tree["name"]
    match kind:
        case "User":
            return BoundSubject(f"u:{name}", f"User {quote(name)}")
        case "Group":
            return BoundSubject(f"g:{name}", f"Group {quote(name)}")
        case "ServiceAccount":
            home = tree.get("namespace") or namespace
            shown = f"ServiceAccount {quote(f'{name}/{home}')}"
            return BoundSubject(f"u:{ACCOUNT}:{home}:{name}", shown) if home else None
    return None
