"""Identities of programs, and questions about identities."""

from __future__ import annotations

import logging

from oarlock.apps.controllers.namespaces import DefaultServiceAccounts, RootCaPublisher
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controllers.role_aggregation import RoleAggregation, create_default_roles
from oarlock.apps.controllers.token_secrets import TokenSecrets, TokenUseLabels
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
from oarlock.apps.controlplane.collections.identities import SelfSubjectReviews, ServiceAccounts, TokenReviews
from oarlock.apps.controlplane.collections.roles import (
    ClusterRoleBindingCollection,
    ClusterRoleCollection,
    RoleBindingCollection,
    RoleCollection,
)
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.client.client import Client
from oarlock.policy.authn.tokens.service_accounts import SecretTokenUses
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
from oarlock.policy.authz.union import Access


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


log = logging.getLogger("oarlock.controlplane")


def identities_part(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """Identities of programs, and questions about identities."""
    identities = around.identities

    def ca() -> bytes | None:
        address = around.address()
        return None if address is None else address.ca

    async def start(client: Client) -> None:
        if around.identities() is not None and ca() is None:
            log.warning("kube-root-ca.crt isn't published: set --root-ca-file to the authority of --tls-cert-file")
        await trust.publish(client)

    def issuer() -> TokenIssuer | None:
        known = identities()
        return None if known is None else known.issuer

    def uses() -> SecretTokenUses | None:
        known = identities()
        return None if known is None else known.secret_uses

    return ControlPlanePart(
        "identities",
        serve=[ServiceAccounts(identities), TokenReviews(identities), SelfSubjectReviews],
        controllers={
            "serviceaccount-controller": DefaultServiceAccounts(),
            "serviceaccount-token-controller": TokenSecrets(issuer, ca),
            "root-ca-certificate-publisher-controller": RootCaPublisher(ca),
            "legacy-token-tracking-controller": TokenUseLabels(uses),
        },
        everywhere=("legacy-token-tracking-controller",),
        needs=("namespaces", "configuration"),
        start=start,
    )
