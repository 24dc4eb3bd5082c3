"""`ApprovingController`: approves what nodes ask for to be clients of the server, if they may ask for it.

kube-controller-manager's certificatesigningrequest-approving-controller.
"""

from __future__ import annotations

from oarlock.apps.controllers.certificates.authority import names_in
from oarlock.apps.controllers.certificates.requests import APPROVED, DENIED, FAILED, parsed_request
from oarlock.apps.controllers.certificates.signers import KUBELET_CLIENT, refusal
from oarlock.apps.kinds.certificates import (
    GROUP,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.meta.context import Target, User
from oarlock.meta.errors import NotFound
from oarlock.policy.authz.access import Access

__all__ = ["ApprovingController"]

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
