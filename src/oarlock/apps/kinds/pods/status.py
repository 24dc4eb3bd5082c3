"""What the status of a pod may say. Source: Kubernetes' ``ValidatePodStatusUpdate`` and the strategy of pods."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from oarlock.apps.kinds.common.go_values import go_list
from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_ip, check_qualified_name, check_text
from oarlock.apps.kinds.pods.quality import pod_quality
from oarlock.apps.kinds.pods.updates import keep_all_but_resources
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.json_trees import Tree

__all__ = ["check_pod_status", "keep_status"]

_SYSTEM: Final = ("PodScheduled", "Ready", "Initialized")
_ONE_OF_EACH: Final = "may specify no more than one IP for each IP family"
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def keep_status(new: Tree, old: Tree, ctx: Context) -> None:
    """The quality of service stays, and an address stands in two fields; a resize changes nothing else."""
    if ctx.target.subresource == "resize":
        keep_all_but_resources(new, old)
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass"):
        status["qosClass"] = before.get("qosClass") or pod_quality(new.get("spec") or {})
    for single, plural in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        first, several = status.get(single), status.get(plural) or []
        if first and at(several[0] if several else {}, "ip") != first:
            status[plural] = [{"ip": first}]
        elif not first and single == "podIP" and several:
            if before.get(single):
                status.pop(plural)
            else:
                status[single] = several[0].get("ip", "")


def check_pod_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    """The errors in the status of a pod."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for i, condition in enumerate(status.get("conditions") or ()):
        if (condition.get("observedGeneration") or 0) < 0:
            path = f"status.conditions[{i}].observedGeneration"
            yield Invalid(path, condition["observedGeneration"], "must be a non-negative integer")
        if condition.get("type") not in _SYSTEM:
            yield from check_qualified_name(condition.get("type") or "", f"status.conditions[{i}].Type")
    node = status.get("nominatedNodeName") or ""
    if node and node != before.get("nominatedNodeName"):
        yield from check_text(names.dns1123_subdomain, node, "status.nominatedNodeName")
        if at(old, "spec.nodeName"):
            yield Forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if (status.get("observedGeneration") or 0) < 0:
        yield Invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    if status.get("qosClass") != before.get("qosClass") and before.get("qosClass"):
        yield Invalid("status.qosClass", status.get("qosClass"), IMMUTABLE)
    for name in _STATUSES[:2]:
        yield from _check_transitions(status.get(name) or (), before.get(name) or (), new, f"status.{name}")
    claims = {claim.get("name") for claim in at(new, "spec.resourceClaims", ())}
    for i, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in claims:
            why = "must match the name of an entry in `spec.resourceClaims`"
            yield Invalid(f"status.resourceClaimStatuses[{i}].name", claim.get("name", ""), why)
    yield from _check_addresses(status.get("podIPs") or (), "status.podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip", "") != (status.get("hostIP") or ""):
        yield Invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`")
    yield from _check_addresses(hosts, "status.hostIPs")


def _check_addresses(addresses: Sequence[Tree], path: str) -> Iterator[FieldError]:
    bad = [error for i, address in enumerate(addresses) for error in check_ip(address.get("ip") or "", f"{path}[{i}]")]
    yield from bad
    if len(addresses) > 1 and not bad:
        versions = {ipaddress.ip_address(address["ip"]).version for address in addresses}
        if len(versions) == 1 or len(addresses) > 2:
            yield Invalid(path, go_list("PodIP", addresses), _ONE_OF_EACH)


def _check_transitions(now: Sequence[Tree], before: Sequence[Tree], pod: Tree, path: str) -> Iterator[FieldError]:
    """A container that has ended, and isn't restarted, doesn't run again."""
    policy = at(pod, "spec.restartPolicy", "Always")
    if policy == "Always":
        return
    kinds = [*at(pod, "spec.containers", ()), *at(pod, "spec.initContainers", ())]
    own = {container.get("name"): container.get("restartPolicy") for container in kinds}
    for i, old in enumerate(before):
        ended = at(old, "state.terminated")
        restarts = own.get(old.get("name")) or policy
        if ended is None or restarts == "Always" or (ended.get("exitCode") and restarts == "OnFailure"):
            continue
        same = next((state for state in now if state.get("name") == old.get("name")), None)
        if same is not None and at(same, "state.terminated") is None:
            yield Forbidden(f"{path}[{i}].state", "may not be transitioned to non-terminated state")
