"""CertificateSigningRequests: what one may be, the admission plugins about them, and `CleaningController`.

Source: Kubernetes' validation of certificates; its admission plugins and cleaner of these names.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from oarlock.apps.kinds.certificates import (
    GROUP,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.meta.context import Context, Target
from oarlock.meta.errors import Conflict, Forbidden, NotFound
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required
from oarlock.meta.fielderrors import Forbidden as ForbiddenField
from oarlock.meta.names import dns1123_subdomain
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.policy.authz.union import Access
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.hooks.subresource import part

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LEGACY = "kubernetes.io/legacy-unknown"
_BEGIN = b"-----BEGIN CERTIFICATE REQUEST-----"
SHORTEST_S = 600
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip


class CertificateRequests(StoredCollection[CertificateSigningRequest]):
    """Who asks is noted; what is asked for stays as it is; what was decided stays decided."""

    approval = part("approval", fields=["status.conditions"], shared=True)

    def prepare(self, new: CertificateSigningRequest, old: CertificateSigningRequest | None, ctx: Context) -> None:
        if old is None:
            user, spec = ctx.user, new.spec
            spec.username, spec.uid, spec.groups = user.name, user.uid, [*user.groups]
            spec.extra = {key: [*values] for key, values in user.extra.items()}
            new.status = CertificateSigningRequestStatus()
            return
        new.spec = old.spec
        if ctx.target.subresource and new.status is not None:
            before = old.status or CertificateSigningRequestStatus()
            if ctx.target.subresource == "status":
                _keep_decisions(new.status, before)
            _set_times(new.status.conditions, before.conditions, datetime.fromtimestamp(int(ctx.clock.now()), UTC))

    def validate(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest | None, ctx: Context
    ) -> Iterator[FieldError]:
        if old is None:
            yield from _spec_errors(new.spec)
            return
        status, before = new.status or CertificateSigningRequestStatus(), old.status
        before = before or CertificateSigningRequestStatus()
        yield from _condition_errors(status.conditions)
        if ctx.target.subresource == "approval":
            kept = {condition.type for condition in status.conditions}
            for condition in before.conditions:
                if condition.type in (APPROVED, DENIED, FAILED) and condition.type not in kept:
                    why = f'updates may not remove a condition of type "{condition.type}"'
                    yield ForbiddenField("status.conditions", why)
        if before.certificate and status.certificate != before.certificate:
            yield ForbiddenField("status.certificate", "updates may not modify existing certificate content")
        elif status.certificate and b"-----BEGIN CERTIFICATE-----" not in status.certificate:
            yield Invalid("status.certificate", "<certificate data>", "must contain one or more PEM blocks")


def parsed_request(data: bytes) -> x509.CertificateSigningRequest:
    """The request in PEM. Raises ValueError with why it is none."""
    if not data.lstrip().startswith(_BEGIN):
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(data)
        valid = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"asn1: structure error: {error}") from None
    if not valid:
        raise ValueError("x509: verification failure: its signature isn't by its key")
    return request


def _keep_decisions(new: CertificateSigningRequestStatus, before: CertificateSigningRequestStatus) -> None:
    """Only ``/approval`` approves and denies."""
    decided = [condition for condition in before.conditions if condition.type in (APPROVED, DENIED)]
    new.conditions = [
        *decided,
        *(condition for condition in new.conditions if condition.type not in (APPROVED, DENIED)),
    ]


def _set_times(
    new: list[CertificateSigningRequestCondition], before: list[CertificateSigningRequestCondition], now: datetime
) -> None:
    known = {(condition.type, condition.status): condition.last_transition_time for condition in before}
    for condition in new:
        condition.last_update_time = condition.last_update_time or now
        condition.last_transition_time = (
            condition.last_transition_time or known.get((condition.type, condition.status)) or now
        )


def _spec_errors(spec: CertificateSigningRequestSpec) -> Iterator[FieldError]:
    try:
        parsed_request(spec.request)
    except ValueError as error:
        yield Invalid("spec.request", base64.b64encode(spec.request).decode(), str(error))
    if not spec.usages:
        yield Required("spec.usages")
    seen: set[str] = set()
    for at, usage in enumerate(spec.usages):
        if usage not in _USAGES:
            yield NotSupported(f"spec.usages[{at}]", usage, _USAGES)
        if usage in seen:
            yield Duplicate(f"spec.usages[{at}]", usage)
        seen.add(usage)
    yield from _signer_errors(spec.signer_name)
    if spec.expiration_seconds is not None and spec.expiration_seconds < SHORTEST_S:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield Invalid("spec.expirationSeconds", spec.expiration_seconds, why)


def _signer_errors(name: str) -> Iterator[FieldError]:
    path = "spec.signerName"
    if not name:
        yield Required(path)
        return
    if name == LEGACY:
        yield Invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    domain, slash, rest = name.partition("/")
    if not (slash and domain and rest) or "/" in rest:
        yield Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    for complaint in dns1123_subdomain(domain):
        yield Invalid(path, domain, f'validating label "{domain}": {complaint}')
    if "." not in domain:
        yield Invalid(path, domain, "should be a domain with at least two segments separated by dots")
    for complaint in dns1123_subdomain(rest):
        yield Invalid(path, rest, f'validating label "{rest}": {complaint}')


def _condition_errors(conditions: list[CertificateSigningRequestCondition]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for at, condition in enumerate(conditions):
        path = f"status.conditions[{at}]"
        if not condition.type:
            yield Required(f"{path}.type")
        if condition.type in seen:
            yield Duplicate(f"{path}.type", condition.type)
        if condition.type in (APPROVED, DENIED, FAILED):
            if not condition.status:
                yield Required(f"{path}.status")
            elif condition.status != "True":
                yield NotSupported(f"{path}.status", condition.status, ["True"])
        elif condition.status not in ("True", "False", "Unknown"):
            yield NotSupported(f"{path}.status", condition.status, ["False", "True", "Unknown"])
        opposite = {APPROVED: DENIED, DENIED: APPROVED}.get(condition.type)
        if opposite in seen:
            yield Invalid("status.conditions", condition.type, "Approved and Denied conditions are mutually exclusive")
        seen.add(condition.type)


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
