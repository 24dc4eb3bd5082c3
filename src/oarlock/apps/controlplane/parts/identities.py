"""Identities of programs, questions about identities, and certificates on request."""

from __future__ import annotations

import logging
from datetime import timedelta

from oarlock.apps.controllers.certificates.requests import (
    CertificateApproval,
    CertificateRequests,
    CertificateSigning,
    CertificateSubjectRestriction,
    CleaningController,
)
from oarlock.apps.controllers.certificates.signing import ApprovingController, SigningAuthority, SigningController
from oarlock.apps.controllers.namespaces import DefaultServiceAccounts, RootCaPublisher
from oarlock.apps.controllers.own_objects import PublishedTrust
from oarlock.apps.controllers.role_aggregation import RoleAggregation, create_default_roles
from oarlock.apps.controllers.token_secrets import TokenSecrets, TokenUseLabels
from oarlock.apps.controlplane.collections.access_reviews import (
    LocalSubjectAccessReviews,
    SelfSubjectAccessReviews,
    SelfSubjectRulesReviews,
    SubjectAccessReviews,
)
from oarlock.apps.controlplane.collections.identities import SelfSubjectReviews, ServiceAccounts, TokenReviews
from oarlock.apps.controlplane.collections.roles import (
    BindingEscalation,
    ClusterBindingEscalation,
    ClusterRoleBindingCollection,
    ClusterRoleCollection,
    ClusterRoleEscalation,
    RoleBindingCollection,
    RoleCollection,
    RoleEscalation,
)
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.client.client import Client
from oarlock.policy.authn.tokens.service_accounts import SecretTokenUses
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
from oarlock.policy.authz.union import Access


def certificates_part(around: PartSurroundings) -> ControlPlanePart:
    """Certificates on request."""
    options, access = around.options, around.access

    def authority(now: float) -> SigningAuthority | None:
        longest = timedelta(seconds=options.cluster_signing_duration_s)
        certificate, key = options.cluster_signing_cert_file, options.cluster_signing_key_file
        if certificate is not None and key is not None:
            return SigningAuthority.read(certificate, key, longest)
        if not around.signs():
            return None
        directory = around.certificates()
        return (
            SigningAuthority.made(now, longest) if directory is None else SigningAuthority.kept(directory, now, longest)
        )

    in_use: list[SigningAuthority | None] = []

    async def start(client: Client) -> None:
        in_use.clear()  # a server that ran before may have had another directory

    def kept(now: float) -> SigningAuthority | None:
        if not in_use:
            in_use.append(authority(now))
        return in_use[0]

    return ControlPlanePart(
        "certificates",
        serve=[CertificateRequests],
        admission=[CertificateApproval(access), CertificateSigning(access), CertificateSubjectRestriction()],
        controllers={
            "certificatesigningrequest-approving-controller": ApprovingController(access),
            "certificatesigningrequest-signing-controller": SigningController(kept),
            "certificatesigningrequest-cleaner-controller": CleaningController(),
        },
        start=start,
    )


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
