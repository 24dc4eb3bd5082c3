"""The cells of pods in a Table. Source: Kubernetes' printer of pods. See also: `printing`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.rules import IMMUTABLE
from oarlock.apps.kinds.common.trees import at, go_list
from oarlock.apps.kinds.common.values import check_ip, check_qualified_name, check_text
from oarlock.apps.kinds.pods.updates import keep_all_but_resources, pod_quality
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339

__all__ = ["check_pod_status", "keep_status", "pod_row"]

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


NONE = "<none>"


def pod_row(tree: Tree, now: float) -> list[Any]:
    """The cells after the name."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    containers = spec.get("containers") or []
    states = status.get("containerStatuses") or []
    ready = sum(1 for state in states if state.get("ready") and "running" in (state.get("state") or {}))
    count = len(containers)
    reason, restarts = status.get("reason") or status.get("phase", ""), 0
    waiting = _init_reason(spec, status)
    for state in status.get("initContainerStatuses") or ():
        restarts += state.get("restartCount") or 0
    if waiting:
        reason = waiting
    else:
        restarts = sum(state.get("restartCount") or 0 for state in states)
        reason = _reason(states, reason)
    for gate in _true(status):
        if (
            gate == "Ready"
            and reason == "Completed"
            and any("running" in (state.get("state") or {}) for state in states)
        ):
            reason = "Running"
    if tree["metadata"].get("deletionTimestamp"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    addresses = status.get("podIPs") or []
    return [
        f"{ready}/{count}",
        reason,
        _restarts(restarts, states, now),
        _since(tree["metadata"].get("creationTimestamp", ""), now),
        addresses[0].get("ip", NONE) if addresses else status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _true(status: Tree) -> list[str]:
    return [
        condition.get("type", "") for condition in status.get("conditions") or () if condition.get("status") == "True"
    ]


def _init_reason(spec: Tree, status: Tree) -> str:
    """Why the init containers aren't through; empty if they are."""
    names = [container.get("name") for container in spec.get("initContainers") or ()]
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    for position, container_status in enumerate(status.get("initContainerStatuses") or ()):
        state = container_status.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container_status.get("name") in sidecars and container_status.get("started"):
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or _ending(ended)}"
        if waits is not None and waits.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waits['reason']}"
        return f"Init:{position}/{len(names)}"
    return ""


def _reason(states: list[Tree], reason: str) -> str:
    """The reason of the first container that isn't running; `reason` if all are."""
    for container_status in reversed(states):
        state = container_status.get("state") or {}
        waits, ended = state.get("waiting"), state.get("terminated")
        if waits is not None and waits.get("reason"):
            reason = waits["reason"]
        elif ended is not None and ended.get("reason"):
            reason = ended["reason"]
        elif ended is not None:
            reason = _ending(ended)
    return reason


def _ending(ended: Tree) -> str:
    """How a container ended that gives no reason."""
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(count: int, states: list[Tree], now: float) -> str:
    ends = [((state.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for state in states]
    last = max(ends, default="")
    return f"{count} ({_since(last, now)} ago)" if count and last else str(count)


def _since(time: str, now: float) -> str:
    try:
        return human_duration(now - parse_rfc3339(time)) if time else "<unknown>"
    except TimeError:
        return "<invalid>"


def _gates(spec: Tree, status: Tree) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    true = set(_true(status))
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}"
