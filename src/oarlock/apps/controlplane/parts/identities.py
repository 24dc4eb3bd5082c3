"""Identities of programs, and questions about identities."""

from __future__ import annotations

import logging

from oarlock.apps.controllers.namespaces.root_ca import RootCaPublisher
from oarlock.apps.controllers.namespaces.service_accounts import DefaultServiceAccounts
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controllers.token_secrets import TokenSecrets
from oarlock.apps.controlplane.collections.identities import SelfSubjectReviews, ServiceAccounts, TokenReviews
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.client.client import Client
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer

__all__ = ["identities_part"]

log = logging.getLogger("oarlock.controlplane")


def identities_part(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """Identities of programs, and questions about identities."""
    identities = around.identities

    def ca() -> bytes | None:
        address = around.address()
        return None if address is None else address.ca

    async def start(client: Client) -> None:
        if around.identities() is not None and ca() is None:
            log.warning("kube-root-ca.crt is published nowhere: say by --root-ca-file who signed --tls-cert-file")
        await trust.publish(client)

    def issuer() -> TokenIssuer | None:
        known = identities()
        return None if known is None else known.issuer

    return ControlPlanePart(
        "identities",
        serve=[ServiceAccounts(identities), TokenReviews(identities), SelfSubjectReviews],
        controllers={
            "serviceaccount-controller": DefaultServiceAccounts(),
            "serviceaccount-token-controller": TokenSecrets(issuer, ca),
            "root-ca-certificate-publisher-controller": RootCaPublisher(ca),
        },
        needs=("namespaces", "configuration"),
        start=start,
    )
