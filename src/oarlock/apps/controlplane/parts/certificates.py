"""Certificates on request."""

from __future__ import annotations

from datetime import timedelta

from oarlock.apps.controllers.certificates.requests import (
    CertificateApproval,
    CertificateRequests,
    CertificateSigning,
    CertificateSubjectRestriction,
    CleaningController,
)
from oarlock.apps.controllers.certificates.signing import ApprovingController, SigningAuthority, SigningController
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.client.client import Client


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
