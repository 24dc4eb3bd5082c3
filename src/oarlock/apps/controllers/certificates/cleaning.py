"""`CleaningController`: removes requests for certificates that nobody needs any more.

What was decided or issued goes after an hour, what nobody has looked at after a day, and what was issued when its
certificate has ended. kube-controller-manager's certificatesigningrequest-cleaner-controller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from oarlock.apps.controllers.certificates.requests import APPROVED, parsed_request
from oarlock.apps.kinds.certificates import GROUP, CertificateSigningRequest, CertificateSigningRequestStatus
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.meta.context import Target
from oarlock.meta.errors import Conflict, Forbidden, NotFound
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.access import Access

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


DECIDED_S = 3_600.0
PENDING_S = 86_400.0


class CleaningController(Controller[CertificateSigningRequest], name="certificatesigningrequest-cleaner-controller"):
    """Comes to each request when its time is over."""

    _clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        asked = self.informer.get(key.name)
        if asked is None:
            return None
        left_s = _ends(asked) - self._clock.now()
        if left_s > 0:
            return Result(left_s)
        try:
            await self.client.delete(CertificateSigningRequest, key.name, uid=asked.metadata.uid)
        except (NotFound, Conflict):
            pass  # it is gone, or another
        return None


def _ends(asked: CertificateSigningRequest) -> float:
    """When a request isn't needed any more, in seconds since the epoch."""
    status = asked.status or CertificateSigningRequestStatus()
    created = asked.metadata.creation_timestamp
    begun = created.timestamp() if created is not None else 0.0
    decided = [condition for condition in status.conditions if status.certificate or condition.type != APPROVED]
    if not decided:
        ends = begun + PENDING_S
    else:
        ends = max((_time(condition.last_update_time, begun) for condition in decided), default=begun) + DECIDED_S
    if status.certificate:
        ends = min(ends, _expires(status.certificate, ends))
    return ends


def _time(moment: datetime | None, otherwise: float) -> float:
    return otherwise if moment is None else moment.timestamp()


def _expires(certificate: bytes, otherwise: float) -> float:
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    except ValueError:
        return otherwise
