"""The cells of pods in a Table. Source: Kubernetes' printer of pods. See also: `printing`."""

from __future__ import annotations

from typing import Any

from oarlock.meta.json_trees import Tree
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339

__all__ = ["pod_row"]


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
    for at, container_status in enumerate(status.get("initContainerStatuses") or ()):
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
        return f"Init:{at}/{len(names)}"
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
