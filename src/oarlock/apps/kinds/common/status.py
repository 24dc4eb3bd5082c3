"""Rules of the statuses of several kinds: numbers of pods, conditions, addresses of load balancers.

Source: Kubernetes' validation of apps/v1, core/v1 and networking.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.trees import Tree
from oarlock.apps.kinds.common.values import check_ip, check_not_negative, check_text
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required

__all__ = ["check_load_balancer", "check_replica_counts"]

_MORE: Final = "cannot be greater than status.replicas"
_COUNTS: Final = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def check_replica_counts(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    """The status of a ReplicaSet or ReplicationController."""
    status = new.get("status") or {}
    yield from check_not_negative(status, "status", *_COUNTS)
    replicas = status.get("replicas") or 0
    for name in _COUNTS[1:4]:
        if (status.get(name) or 0) > replicas:
            yield Invalid(f"status.{name}", status.get(name, 0), _MORE)
    ready, available = status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    if available > ready:
        yield Invalid("status.availableReplicas", available, "cannot be greater than readyReplicas")


def check_load_balancer(balancer: Tree, path: str, *, modes: bool = True) -> Iterator[FieldError]:
    """Where a load balancer is; `modes` says that its addresses have an ipMode."""
    for i, ingress in enumerate(balancer.get("ingress") or ()):
        where, address, host = f"{path}.ingress[{i}]", ingress.get("ip"), ingress.get("hostname")
        if address:
            yield from check_ip(address, f"{where}.ip")
        mode = ingress.get("ipMode")
        if modes and mode is None and address:
            yield Required(f"{where}.ipMode", "must be specified when `ip` is set")
        elif mode is not None and not address:
            yield Forbidden(f"{where}.ipMode", "may not be specified when `ip` is not set")
        elif mode is not None and mode not in ("Proxy", "VIP"):
            yield NotSupported(f"{where}.ipMode", mode, ("Proxy", "VIP"))
        if host:
            yield from check_text(names.dns1123_subdomain, host, f"{where}.hostname")
            if not list(check_ip(host, "")):
                yield Invalid(f"{where}.hostname", host, "must be a DNS name, not an IP address")
