"""The status that a new object begins with. Source: the strategies of Kubernetes' registries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.apps.kinds.common.trees import Settle, at, below
from oarlock.apps.kinds.common.values import (
    NON_NEGATIVE,
    check_ip,
    check_not_negative,
    check_qualified_name,
    check_text,
)
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required, TooLong
from oarlock.meta.json_trees import Tree


def initial_phase(phase: str) -> Settle:
    def prepare(new: Tree) -> None:
        below(new, "status").setdefault("phase", phase)

    return prepare


def empty_load_balancer(new: Tree) -> None:
    below(below(new, "status"), "loadBalancer")


def initial_status(**fields: object) -> Settle:
    """Sets fields of the status of a new object, which Go writes even if they are empty."""

    def prepare(new: Tree) -> None:
        status = below(new, "status")
        for name, value in fields.items():
            status.setdefault(name, value)

    return prepare


def empty_status(new: Tree) -> None:
    below(new, "status")


_MORE: Final = "cannot be greater than status.replicas"
_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_BAD_REASON: Final = names.regex_complaint(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)
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


def check_collisions(status: Tree, old: Tree) -> Iterator[FieldError]:
    """The number of names that were taken, which only grows."""
    before, count = at(old, "status.collisionCount"), status.get("collisionCount")
    if before is not None and (count is None or count < before):
        yield Invalid("status.collisionCount", count or 0, "cannot be decremented")


def check_conditions(conditions: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """Conditions as ``metav1.Condition`` has them, one of each type."""
    known: dict[str, int] = {}
    for i, condition in enumerate(conditions):
        where, kind, status = f"{path}[{i}]", condition.get("type") or "", condition.get("status") or ""
        if kind in known:
            yield Duplicate(f"{where}.type", kind)
        known[kind] = i
        if not kind:
            yield Required(f"{where}.type", "must be set")
        else:
            yield from check_qualified_name(kind, f"{where}.type")
        if status not in _STATUSES:
            yield NotSupported(f"{where}.status", status, _STATUSES)
        if (condition.get("observedGeneration") or 0) < 0:
            yield Invalid(f"{where}.observedGeneration", condition["observedGeneration"], NON_NEGATIVE)
        if not condition.get("lastTransitionTime"):
            yield Required(f"{where}.lastTransitionTime")
        reason = condition.get("reason") or ""
        if not reason:
            yield Required(f"{where}.reason")
        elif not re.fullmatch(_REASON, reason):
            yield Invalid(f"{where}.reason", reason, _BAD_REASON)
        if len(reason) > 1024:
            yield TooLong(f"{where}.reason", 1024)
        if len(condition.get("message") or "") > 32 * 1024:
            yield TooLong(f"{where}.message", 32 * 1024)


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
