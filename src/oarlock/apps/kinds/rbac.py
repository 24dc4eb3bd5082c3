"""``rbac.authorization.k8s.io``: roles and who has them.

Source: Kubernetes API reference, v1.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import LabelSelector, Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, Doc, Name, NullIfAbsent, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "rbac.authorization.k8s.io"

_CREATED = [Column("Created At", ".metadata.creationTimestamp", "date", relative=False)]


def _subjects(kind: str, shown: str = "s.name") -> str:
    """The expression of a column with the subjects of a kind."""
    return f"has(self.subjects) ? self.subjects.filter(s, s.kind == '{kind}').map(s, {shown}).join(', ') : ''"


def _columns(role: str, binding: str) -> list[Column]:
    account = "(has(s.namespace) ? s.namespace : '') + '/' + s.name"
    return [
        Column("Role", expression="self.roleRef.kind + '/' + self.roleRef.name", description=role),
        AGE,
        Column("Users", expression=_subjects("User"), description=f"Users in the {binding}", priority=1),
        Column("Groups", expression=_subjects("Group"), description=f"Groups in the {binding}", priority=1),
        Column(
            "ServiceAccounts",
            expression=_subjects("ServiceAccount", account),
            description=f"ServiceAccounts in the {binding}",
            priority=1,
        ),
    ]


class PolicyRule(Model):
    """What may be done: verbs on resources, or on paths."""

    verbs: Annotated[list[str], Atomic, Doc("Verbs; * is every verb.")] = []
    api_groups: Annotated[list[str], OmitEmpty, Atomic] = []
    resources: Annotated[list[str], OmitEmpty, Atomic] = []
    resource_names: Annotated[list[str], OmitEmpty, Atomic] = []
    non_resource_urls: Annotated[list[str], Name("nonResourceURLs"), OmitEmpty, Atomic] = []


class Subject(Model):
    """Who: a User, a Group or a ServiceAccount."""

    kind: str = ""
    api_group: Text = ""
    name: str = ""
    namespace: Text = ""


class RoleRef(Model):
    """Which role: a Role of the same namespace, or a ClusterRole."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AggregationRule(Model):
    """Which cluster roles make up another."""

    cluster_role_selectors: Annotated[list[LabelSelector], OmitEmpty, Atomic] = []


class Role(
    Resource,
    group=GROUP,
    version="v1",
    name_rule="path-segment",
    generation=False,
    unconditional_update=True,
    create_on_update=True,
    columns=_CREATED,
):
    """What may be done in a namespace."""

    rules: Annotated[list[PolicyRule] | None, OmitEmpty, NullIfAbsent, Atomic] = None


class ClusterRole(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    name_rule="path-segment",
    generation=False,
    unconditional_update=True,
    create_on_update=True,
    columns=_CREATED,
):
    """What may be done in all namespaces, or in one that binds it."""

    rules: Annotated[list[PolicyRule] | None, OmitEmpty, NullIfAbsent, Atomic] = None
    aggregation_rule: AggregationRule | None = None


class RoleBinding(
    Resource,
    group=GROUP,
    version="v1",
    name_rule="path-segment",
    generation=False,
    unconditional_update=True,
    create_on_update=True,
    columns=_columns(
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the "
        "RoleRef cannot be resolved, the Authorizer must return an error.",
        "roleBinding",
    ),
):
    """Gives a role to subjects, in its namespace."""

    subjects: Annotated[list[Subject], OmitEmpty, Atomic] = []
    role_ref: Annotated[RoleRef, Atomic] = RoleRef()

    def default(self) -> None:
        _default(self.subjects, self.role_ref)


class ClusterRoleBinding(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    name_rule="path-segment",
    generation=False,
    unconditional_update=True,
    create_on_update=True,
    columns=_columns(
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the "
        "Authorizer must return an error.",
        "clusterRoleBinding",
    ),
):
    """Gives a cluster role to subjects, everywhere."""

    subjects: Annotated[list[Subject], OmitEmpty, Atomic] = []
    role_ref: Annotated[RoleRef, Atomic] = RoleRef()

    def default(self) -> None:
        _default(self.subjects, self.role_ref)


def _default(subjects: list[Subject], role_ref: RoleRef) -> None:
    """A group that isn't said is this one, but for service accounts."""
    role_ref.api_group = role_ref.api_group or GROUP
    for subject in subjects:
        if subject.kind in ("User", "Group"):
            subject.api_group = subject.api_group or GROUP
