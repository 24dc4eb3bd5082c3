"""`SigningController`: issues the certificates that were approved, as Kubernetes' own signers.

kube-controller-manager's certificatesigningrequest-signing-controller.
"""

from __future__ import annotations

from collections.abc import Callable

from oarlock.apps.controllers.certificates.authority import SigningAuthority
from oarlock.apps.controllers.certificates.requests import APPROVED, DENIED, FAILED, parsed_request
from oarlock.apps.controllers.certificates.signers import SIGNERS, refusal
from oarlock.apps.kinds.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.errors import NotFound

__all__ = ["SigningController"]


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
