"""What happens next to a pod on a node, and when: a pure function of the pod and its behaviour.

Nothing is remembered beside the pod's status, so that a simulation that is started again goes on where it was.
Source: kwok's fast stages and the kubelet's ``status_manager``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from oarlock.extend import Tree, parse_rfc3339, rfc3339
from oarlock_cluster.nodes.behaviour import PodBehaviour

__all__ = ["PodStep", "ProcessEnd", "next_step"]

FIRST_BACKOFF_S = 10.0
LONGEST_BACKOFF_S = 300.0
PULL_AGAIN_S = 10.0
_NOT_READY = "sim: not ready"


@dataclass(frozen=True, slots=True)
class PodStep:
    """From `at` (seconds since the epoch) on the pod has this `status`; without one it is gone."""

    at: float
    status: Tree | None


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """When a container ended, and with which exit code."""

    at: float
    code: int


def _since(time: Any, default: float) -> float:
    return parse_rfc3339(time) if isinstance(time, str) else default


def next_step(
    pod: Tree,
    behaviour: PodBehaviour,
    now: float,
    ip: str = "",
    attempt: int = 0,
    processes: Mapping[str, ProcessEnd | None] = MappingProxyType({}),
) -> PodStep | None:
    """The next step; None when nothing happens until the pod is changed.

    `ip` is what a started pod gets, `attempt` how many pods of its controller have failed before it. `processes` has
    the containers that are real processes, and how they ended.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    deleted = metadata.get("deletionTimestamp")
    if deleted:
        if behaviour.keep:
            return None
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        began = _since(deleted, now) - grace
        return PodStep(began + min(behaviour.stop_s, grace), None)
    phase = status.get("phase") or "Pending"
    if phase in ("Succeeded", "Failed") or behaviour.hold:
        return None
    if phase == "Pending":
        return _pending(pod, behaviour, now, ip)
    return _running(pod, behaviour, now, attempt, processes)


# Pending


def _pending(pod: Tree, behaviour: PodBehaviour, now: float, ip: str) -> PodStep | None:
    status = pod.get("status") or {}
    if behaviour.image_error:
        return _failed_pull(pod, behaviour, now)
    initial = pod["spec"].get("initContainers") or []
    steps = 1 + len(initial)
    if not behaviour.start_s:
        return PodStep(now, _started(pod, behaviour, now, ip))
    began = _since(status.get("startTime"), now)
    if not status.get("startTime"):
        return PodStep(now, _waiting(pod, now, "PodInitializing" if initial else "ContainerCreating", done=0))
    done = sum("waiting" not in (each.get("state") or {}) for each in status.get("initContainerStatuses") or ())
    due = began + (done + 1) * behaviour.start_s
    if done + 1 < steps:
        return PodStep(due, _waiting(pod, began, "PodInitializing", done=done + 1))
    return PodStep(due, _started(pod, behaviour, max(due, now), ip))


def _failed_pull(pod: Tree, behaviour: PodBehaviour, now: float) -> PodStep | None:
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    seen = ((statuses[0].get("state") or {}).get("waiting") or {}).get("reason") if statuses else None
    began = _since(status.get("startTime"), now)
    image = pod["spec"]["containers"][0].get("image", "")
    if seen is None:
        return PodStep(now, _waiting(pod, now, "ErrImagePull", message=behaviour.image_error))
    if seen == "ErrImagePull":
        message = f'Back-off pulling image "{image}": {behaviour.image_error}'
        return PodStep(began + PULL_AGAIN_S, _waiting(pod, began, "ImagePullBackOff", message=message))
    return None


def _waiting(pod: Tree, began: float, reason: str, *, done: int | None = None, message: str = "") -> Tree:
    """Containers that don't run yet; the first `done` init containers have ended."""
    spec = pod["spec"]
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    initial = spec.get("initContainers") or []
    ended = len(initial) if done is None else done
    status: Tree = {
        "phase": "Pending",
        "startTime": rfc3339(began),
        "conditions": _conditions(pod, began, initialized=ended == len(initial), ready=False),
        "containerStatuses": [_container(each, state) for each in spec["containers"]],
    }
    if initial:
        status["initContainerStatuses"] = [
            _initial(each, began) if at < ended else _container(each, {"waiting": {"reason": "PodInitializing"}})
            for at, each in enumerate(initial)
        ]
    return status


def _started(pod: Tree, behaviour: PodBehaviour, now: float, ip: str) -> Tree:
    spec = pod["spec"]
    ready = not behaviour.notready and not behaviour.ready_after_s
    running = {"running": {"startedAt": rfc3339(now)}}
    status: Tree = {
        "phase": "Running",
        "startTime": (pod.get("status") or {}).get("startTime") or rfc3339(now),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "conditions": _conditions(pod, now, ready=ready),
        "containerStatuses": [_container(each, running, ready=ready) for each in spec["containers"]],
    }
    address = "127.0.0.1" if spec.get("hostNetwork") else ip
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [_initial(each, now) for each in spec["initContainers"]]
    return status


def _initial(container: Tree, now: float) -> Tree:
    time = rfc3339(now)
    if container.get("restartPolicy") == "Always":
        return {**_container(container, {"running": {"startedAt": time}}, ready=True), "started": True}
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    return _container(container, {"terminated": ended}, ready=True)


def _container(container: Tree, state: Tree, *, ready: bool = False, restarts: int = 0) -> Tree:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
    }


def _conditions(pod: Tree, now: float, *, ready: bool, initialized: bool = True) -> list[Tree]:
    time = rfc3339(now)
    why: Tree = {"reason": "ContainersNotReady", "message": _NOT_READY}
    if ready:
        had = any(each.get("reason") for each in (pod.get("status") or {}).get("conditions") or ())
        why = {"reason": None, "message": None} if had else {}
    flag = "True" if ready else "False"
    gates = [each["conditionType"] for each in pod["spec"].get("readinessGates") or ()]
    return [
        {"type": "Initialized", "status": "True" if initialized else "False", "lastTransitionTime": time},
        {"type": "Ready", "status": flag, "lastTransitionTime": time, **why},
        {"type": "ContainersReady", "status": flag, "lastTransitionTime": time, **why},
        *({"type": each, "status": "True", "lastTransitionTime": time} for each in gates),
    ]


# Running


def _running(
    pod: Tree, behaviour: PodBehaviour, now: float, attempt: int, processes: Mapping[str, ProcessEnd | None]
) -> PodStep | None:
    statuses: Sequence[Tree] = (pod.get("status") or {}).get("containerStatuses") or ()
    ephemeral = pod["spec"].get("ephemeralContainers") or ()
    if statuses and len(ephemeral) > len(pod["status"].get("ephemeralContainerStatuses") or ()):
        return PodStep(now, _debugged(pod, ephemeral, now))
    changes = [_change(pod, each, behaviour, now, attempt, processes) for each in statuses]
    at = min((change.at for change in changes if change is not None), default=None)
    if at is None:
        return None
    changed = [
        change.status if change is not None and change.status is not None and change.at <= max(at, now) else each
        for each, change in zip(statuses, changes, strict=True)
    ]
    codes = [((each.get("state") or {}).get("terminated") or {}).get("exitCode") for each in changed]
    if None not in codes:
        return PodStep(at, {"phase": "Failed" if any(codes) else "Succeeded", "containerStatuses": changed})
    ready = all(each.get("ready") for each in changed)
    return PodStep(at, {"conditions": _conditions(pod, max(at, now), ready=ready), "containerStatuses": changed})


def _change(
    pod: Tree,
    container: Tree,
    behaviour: PodBehaviour,
    now: float,
    attempt: int,
    processes: Mapping[str, ProcessEnd | None],
) -> PodStep | None:
    """What happens next to one container: the `PodStep` has its status."""
    state: Mapping[str, Any] = container.get("state") or {}
    restarts: int = container.get("restartCount") or 0
    ready_at_once = not behaviour.notready and not behaviour.ready_after_s
    if "terminated" in state:
        return None
    if "waiting" in state:
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        due = _since(ended, now) + _backoff_s(restarts)
        running = {"running": {"startedAt": rfc3339(max(due, now))}}
        return PodStep(due, {**container, "state": running, "ready": ready_at_once, "restartCount": restarts + 1})
    began = _since((state.get("running") or {}).get("startedAt"), now)
    end: ProcessEnd | None
    if container["name"] in processes:
        end = processes[container["name"]]
    else:
        code = behaviour.ends_with(pod, attempt + restarts)
        end = None if code is None else ProcessEnd(began + behaviour.run_s, code)
    steps = []
    if not container.get("ready") and not behaviour.notready and behaviour.ready_after_s:
        steps.append(PodStep(began + behaviour.ready_after_s, {**container, "ready": True}))
    if end is not None:
        again = behaviour.exit is None or container["name"] in processes
        steps.append(PodStep(end.at, _ended(pod, container, behaviour, max(now, end.at), end.code, again)))
    return min(steps, key=lambda step: step.at, default=None)


def _backoff_s(restarts: int) -> float:
    return float(min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(restarts, 10)))


def _debugged(pod: Tree, ephemeral: Sequence[Tree], now: float) -> Tree:
    """Containers that were added run at once."""
    known = {each["name"]: each for each in pod["status"].get("ephemeralContainerStatuses") or ()}
    running = {"running": {"startedAt": rfc3339(now)}}
    return {"ephemeralContainerStatuses": [known.get(each["name"]) or _container(each, running) for each in ephemeral]}


def _ended(pod: Tree, container: Tree, behaviour: PodBehaviour, now: float, code: int, may_restart: bool) -> Tree:
    """The status of a container that has ended."""
    policy = pod["spec"].get("restartPolicy") or "Always"
    reason = "Completed" if code == 0 else behaviour.reason or "Error"
    began = ((container.get("state") or {}).get("running") or {}).get("startedAt") or rfc3339(now)
    ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": rfc3339(now)}
    status = {**container, "ready": False, "started": False, "state": {"terminated": ended}}
    if not may_restart or not (policy == "Always" or (policy == "OnFailure" and code != 0)):
        return status
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"
    wait = int(_backoff_s(container.get("restartCount") or 0))
    said = f"back-off {wait}s restarting failed container={container['name']} pod={where}"
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": said}}
    return {**status, "state": waiting, "lastState": {"terminated": ended}}
