"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.networking.ingress import INGRESS
from oarlock.apps.kinds.networking.ingress_class import INGRESS_CLASS
from oarlock.apps.kinds.networking.ip_address import IP_ADDRESS
from oarlock.apps.kinds.networking.network_policy import NETWORK_POLICY
from oarlock.apps.kinds.networking.service_cidr import SERVICE_CIDR

__all__ = ["KINDS"]

KINDS: Final = (
    INGRESS,
    INGRESS_CLASS,
    IP_ADDRESS,
    NETWORK_POLICY,
    SERVICE_CIDR,
)
