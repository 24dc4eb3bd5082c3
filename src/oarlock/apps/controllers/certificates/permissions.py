"""Who may approve and sign requests for certificates, and what nobody may ask for: three admission plugins.

Their names are Kubernetes': CertificateApproval, CertificateSigning, CertificateSubjectRestriction; so are messages.
"""

from __future__ import annotations

from typing import Any

from cryptography.x509.oid import NameOID

from oarlock.apps.controllers.certificates.requests import parsed_request
from oarlock.apps.kinds.certificates import GROUP, CertificateSigningRequest, CertificateSigningRequestStatus
from oarlock.meta.context import Target
from oarlock.meta.errors import Forbidden
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.access import Access

__all__ = ["CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction"]

CLIENT = "kubernetes.io/kube-apiserver-client"
MASTERS = "system:masters"


class CertificateApproval(Admission[CertificateSigningRequest], operations=["UPDATE"], subresources=["approval"]):
    """Who approves may approve for that signer."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[CertificateSigningRequest]) -> None:
        if review.subresource == "approval":
            await _check_signer(self._access, review, "approve")


class CertificateSigning(Admission[CertificateSigningRequest], operations=["UPDATE"], subresources=["status"]):
    """Who issues a certificate may sign for that signer."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def validate(self, review: Review[CertificateSigningRequest]) -> None:
        if review.subresource != "status" or review.old_object is None:
            return
        new = review.object.status or CertificateSigningRequestStatus()
        old = review.old_object.status or CertificateSigningRequestStatus()
        if new.certificate != old.certificate or new.conditions != old.conditions:
            await _check_signer(self._access, review, "sign")


class CertificateSubjectRestriction(Admission[CertificateSigningRequest], operations=["CREATE"]):
    """Refuses requests for certificates of ``system:masters``."""

    waits = False

    async def validate(self, review: Review[CertificateSigningRequest]) -> None:
        spec = review.object.spec
        if spec.signer_name != CLIENT:
            return
        try:
            subject = parsed_request(spec.request).subject
        except ValueError:
            return  # validation says why it is none
        if any(attribute.value == MASTERS for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
            why = f"use of {CLIENT} signer with {MASTERS} group is not allowed"
            raise Forbidden(review.ctx.target.group_resource, review.name, why)


async def _check_signer(access: Access, review: Review[Any], verb: str) -> None:
    """Raises Forbidden unless the user may do `verb` for the signer, or all signers of its domain."""
    signer = (review.old_object or review.object).spec.signer_name
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        target = Target(verb, GROUP, "*", "signers", name=name)
        if (await access.decide(review.user, target)).allowed:
            return
    why = f'user not permitted to {verb} requests with signerName "{signer}"'
    raise Forbidden(review.ctx.target.group_resource, review.name, why)
