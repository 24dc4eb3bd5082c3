"""Roles and who has them; reviews of what somebody may do."""

from __future__ import annotations

from oarlock.apps.controllers.roles.aggregation import RoleAggregation
from oarlock.apps.controllers.roles.default_roles import create_default_roles
from oarlock.apps.controlplane.collections.access_reviews import (
    LocalSubjectAccessReviews,
    SelfSubjectAccessReviews,
    SelfSubjectRulesReviews,
    SubjectAccessReviews,
)
from oarlock.apps.controlplane.collections.escalation import (
    BindingEscalation,
    ClusterBindingEscalation,
    ClusterRoleEscalation,
    RoleEscalation,
)
from oarlock.apps.controlplane.collections.roles import (
    ClusterRoleBindingCollection,
    ClusterRoleCollection,
    RoleBindingCollection,
    RoleCollection,
)
from oarlock.apps.controlplane.part import ControlPlanePart
from oarlock.policy.authz.access import Access

__all__ = ["access_part"]


def access_part(access: Access) -> ControlPlanePart:
    """Roles and who has them; reviews of what somebody may do."""
    return ControlPlanePart(
        "access",
        serve=[
            RoleCollection,
            ClusterRoleCollection,
            RoleBindingCollection,
            ClusterRoleBindingCollection,
            SubjectAccessReviews(access),
            LocalSubjectAccessReviews(access),
            SelfSubjectAccessReviews(access),
            SelfSubjectRulesReviews(access),
        ],
        admission=[
            RoleEscalation(access),
            ClusterRoleEscalation(access),
            BindingEscalation(access),
            ClusterBindingEscalation(access),
        ],
        controllers={"clusterrole-aggregation-controller": RoleAggregation()},
        start=create_default_roles,
    )
