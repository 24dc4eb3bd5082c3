"""`CleaningController`: removes requests for certificates that nobody needs any more.

What was decided or issued goes after an hour, what nobody has looked at after a day, and what was issued when its
certificate has ended. kube-controller-manager's certificatesigningrequest-cleaner-controller.
"""

from __future__ import annotations

from datetime import datetime

from cryptography import x509

from oarlock.apps.controllers.certificates.requests import APPROVED
from oarlock.apps.kinds.certificates import CertificateSigningRequest, CertificateSigningRequestStatus
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.results import Result
from oarlock.meta.errors import Conflict, NotFound

__all__ = ["CleaningController"]

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
