"""``certificates.k8s.io``: requests for certificates, which somebody approves and a signer carries out.

Source: Kubernetes API reference, CertificateSigningRequest v1. See also: ``controllers.certificates``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.apps.kinds.meta import Text
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, Format, ListMap, NullIfAbsent, OmitEmpty
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

GROUP = "certificates.k8s.io"

_SECONDS = "self.spec.?expirationSeconds.orValue(0)"
_DURATION = (
    f"{_SECONDS} == 0 ? '<none>' : {_SECONDS} < 600 ? string({_SECONDS}) + 's' : "
    f"{_SECONDS} < 10800 ? string({_SECONDS} / 60) + 'm' : {_SECONDS} < 172800 ? string({_SECONDS} / 3600) + 'h' : "
    f"string({_SECONDS} / 86400) + 'd'"
)
_TYPES = "self.?status.?conditions.orValue([])"
_CONDITION = (
    f"({_TYPES}.exists(c, c.type == 'Denied') ? 'Denied' : {_TYPES}.exists(c, c.type == 'Approved') ? 'Approved' : "
    f"'Pending') + ({_TYPES}.exists(c, c.type == 'Failed') ? ',Failed' : '') + "
    "(self.?status.?certificate.hasValue() ? ',Issued' : '')"
)


class CertificateSigningRequestSpec(Model):
    """What certificate is asked for, of whom, and who asks: the server fills in the latter."""

    request: Annotated[bytes, Atomic]
    signer_name: str = ""
    expiration_seconds: Annotated[int | None, Format("int32")] = None
    usages: Annotated[list[str], OmitEmpty, Atomic] = []
    username: Text = ""
    uid: Text = ""
    groups: Annotated[list[str], OmitEmpty, Atomic] = []
    extra: Annotated[dict[str, list[str]], OmitEmpty] = {}


class CertificateSigningRequestCondition(Model):
    """Approved, Denied or Failed."""

    type: str
    status: str
    reason: Text = ""
    message: Text = ""
    last_update_time: Annotated[datetime | None, NullIfAbsent] = None
    last_transition_time: Annotated[datetime | None, NullIfAbsent] = None


class CertificateSigningRequestStatus(Model):
    """What was decided, and the certificate."""

    conditions: Annotated[list[CertificateSigningRequestCondition], OmitEmpty, ListMap("type")] = []
    certificate: Annotated[bytes, OmitEmpty] = b""


class CertificateSigningRequest(
    Resource,
    group=GROUP,
    version="v1",
    scope="Cluster",
    short_names=["csr"],
    generation=False,
    unconditional_update=True,
    status_subresource=True,
    selectable=[".spec.signerName"],
    columns=[
        AGE,
        Column("SignerName", ".spec.signerName"),
        Column("Requestor", ".spec.username"),
        Column("RequestedDuration", expression=_DURATION),
        Column("Condition", expression=_CONDITION),
    ],
):
    """Asks a signer for a certificate."""

    spec: CertificateSigningRequestSpec
    status: CertificateSigningRequestStatus | None = None
