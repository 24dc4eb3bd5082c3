"""`SigningController`: issues the certificates that were approved, as Kubernetes' own signers.

kube-controller-manager's certificatesigningrequest-signing-controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cryptography import x509

from oarlock.apps.controllers.certificates.authority import SigningAuthority, names_in
from oarlock.apps.controllers.certificates.requests import APPROVED, DENIED, FAILED, parsed_request
from oarlock.apps.kinds.certificates import (
    GROUP,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.context import Target, User
from oarlock.meta.errors import NotFound
from oarlock.policy.authz.access import Access

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY)

NODES = "system:nodes"
NODE = "system:node:"
_BESIDE = frozenset(("digital signature", "key encipherment"))


def refusal(signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]) -> str:
    """Why a signer doesn't sign a request; empty if it does."""
    if signer == CLIENT:
        return _wrong_usages(usages, "client auth")
    if signer not in (KUBELET_CLIENT, KUBELET_SERVING):
        return ""
    names = names_in(request)
    if names.organizations != (NODES,):
        return f"subject organization is not {NODES}"
    if not names.common_name.startswith(NODE):
        return f"subject common name does not begin with {NODE}"
    if names.emails:
        return "emailSANs not allowed"
    if names.uris:
        return "uriSANs not allowed"
    if signer == KUBELET_CLIENT:
        if names.dns or names.ips:
            return "dnsNames and ipAddresses not allowed"
        return _wrong_usages(usages, "client auth")
    if not (names.dns or names.ips):
        return "DNS or IP subjectAltName is required"
    return _wrong_usages(usages, "server auth")


def _wrong_usages(usages: Collection[str], needed: str) -> str:
    given = set(usages)
    right = needed in given and given <= _BESIDE | {needed}
    return "" if right else f"usages did not match {sorted(_BESIDE | {needed})}"


RESOURCE = "certificatesigningrequests"
REASON = "AutoApproved"


class ApprovingController(
    Controller[CertificateSigningRequest],
    name="certificatesigningrequest-approving-controller",
    field_selector=f"spec.signerName={KUBELET_CLIENT}",
):
    """`access` is asked whether who asks may have such a certificate."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def reconcile(self, key: ObjectKey) -> None:
        asked = self.informer.get(key.name)
        if asked is None or (asked.status is not None and (asked.status.certificate or asked.status.conditions)):
            return
        try:
            request = parsed_request(asked.spec.request)
            if refusal(KUBELET_CLIENT, request, asked.spec.usages):
                return
            own = names_in(request).common_name == asked.spec.username
        except ValueError:
            return
        spec = asked.spec
        user = User(spec.username, spec.uid, tuple(spec.groups), {k: tuple(v) for k, v in spec.extra.items()})
        for which, message in (
            ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
            ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
        ):
            if which == "selfnodeclient" and not own:
                continue
            target = Target("create", GROUP, "*", RESOURCE, subresource=which)
            if (await self._access.decide(user, target)).allowed:
                await self._approve(key.name, message)
                return

    async def _approve(self, name: str, message: str) -> None:
        def approve(live: CertificateSigningRequest) -> None:
            status = live.status = live.status or CertificateSigningRequestStatus()
            if not any(condition.type in (APPROVED, DENIED, FAILED) for condition in status.conditions):
                approved = CertificateSigningRequestCondition(
                    type=APPROVED, status="True", reason=REASON, message=message
                )
                status.conditions = [*status.conditions, approved]

        try:
            await self.client.change(CertificateSigningRequest, name, approve, subresource="approval")
        except NotFound:
            pass  # it was taken back


class SigningController(
    Controller[CertificateSigningRequest], name="certificatesigningrequest-signing-controller", concurrency=2
):
    """`authority` is what it signs with, None if others sign; it is asked for whenever the controller begins."""

    def __init__(self, authority: Callable[[float], SigningAuthority | None]) -> None:
        self._make = authority
        self._authority: SigningAuthority | None = None
        self._clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        self._authority = self._make(clock.now())
        if self._authority is None:
            self.log.info(
                "no certificates are signed here: clients are let in by --client-ca-file, so name what signs for it by "
                "--cluster-signing-cert-file, or let another program sign"
            )
            return
        await super().run(client, clock)

    async def reconcile(self, key: ObjectKey) -> None:
        asked = self.informer.get(key.name)
        if asked is None or asked.spec.signer_name not in SIGNERS or asked.status is None or asked.status.certificate:
            return
        types = {condition.type for condition in asked.status.conditions}
        if APPROVED not in types or not types.isdisjoint((DENIED, FAILED)):
            return
        spec = asked.spec
        try:
            request = parsed_request(spec.request)
            why = refusal(spec.signer_name, request, spec.usages)
        except ValueError as error:
            why = str(error)
        if why:
            await self._fail(key.name, why)
            return
        assert self._authority is not None
        certificate = self._authority.sign(request, spec.usages, self._clock.now(), spec.expiration_seconds)

        def issue(live: CertificateSigningRequest) -> None:
            live.status = live.status or CertificateSigningRequestStatus()
            live.status.certificate = live.status.certificate or certificate

        await self._write(key.name, issue)

    async def _fail(self, name: str, why: str) -> None:
        failed = CertificateSigningRequestCondition(
            type=FAILED, status="True", reason="SignerValidationFailure", message=why
        )

        def fail(live: CertificateSigningRequest) -> None:
            live.status = live.status or CertificateSigningRequestStatus()
            live.status.conditions = [
                *(condition for condition in live.status.conditions if condition.type != FAILED),
                failed,
            ]

        await self._write(name, fail)

    async def _write(self, name: str, change: Callable[[CertificateSigningRequest], None]) -> None:
        try:
            await self.client.change(CertificateSigningRequest, name, change, subresource="status")
        except NotFound:
            pass  # it was taken back
