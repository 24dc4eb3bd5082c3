"""What a Job makes of pods that have ended: indexes, failure and success policies, pauses between pods.

Source: k8s.io/kubernetes ``pkg/controller/job``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from oarlock.extend import ReadOnlyTree
from oarlock_cluster.shapes import condition_of, created, is_terminating, phase_of, time_of

__all__ = [
    "INDEX",
    "failures_of_index",
    "finished_at",
    "index_of",
    "indexes_of",
    "indexes_text",
    "is_failed",
    "matched_rule",
    "pause_s",
    "success_rule",
]

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 600.0


def index_of(pod: ReadOnlyTree) -> int | None:
    """Which completion a pod is for."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def indexes_of(text: str | None) -> set[int]:
    """The numbers of a text such as ``0,2-4``."""
    found: set[int] = set()
    for part in (text or "").split(",") if text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def indexes_text(indexes: Collection[int]) -> str:
    """Numbers as a text such as ``0,2-4``."""
    parts: list[tuple[int, int]] = []
    for at in sorted(indexes):
        if parts and parts[-1][1] == at - 1:
            parts[-1] = (parts[-1][0], at)
        else:
            parts.append((at, at))
    ways = {0: "{0}", 1: "{0},{1}"}
    return ",".join(ways.get(last - first, "{0}-{1}").format(first, last) for first, last in parts)


def is_failed(pod: ReadOnlyTree, job: ReadOnlyTree) -> bool:
    """Whether the pod has failed, or counts as failed because it is being deleted."""
    if phase_of(pod) == "Failed":
        return True
    if job["spec"].get("podReplacementPolicy") == "Failed":
        return False
    return is_terminating(pod) and phase_of(pod) != "Succeeded"


def _exit_code(pod: ReadOnlyTree, rule: Mapping[str, Any]) -> tuple[str, int] | None:
    """The container whose exit code a rule is for, and the code."""
    status, wanted = pod.get("status") or {}, rule.get("containerName")
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container_status in status.get(kind) or ():
            code = ((container_status.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            known = code in rule["values"]
            if code and wanted in (None, container_status["name"]) and known == (rule["operator"] == "In"):
                return container_status["name"], code
    return None


def matched_rule(job: ReadOnlyTree, pod: ReadOnlyTree) -> tuple[str, str]:
    """The action of the first rule of the ``podFailurePolicy`` that fits a failed pod, and what to say of it."""
    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for at, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        end = f"matching {rule['action']} rule at index {at}"
        if rule.get("onExitCodes"):
            found = _exit_code(pod, rule["onExitCodes"])
            if found is not None:
                return rule["action"], f"Container {found[0]} for pod {where} failed with exit code {found[1]} {end}"
        for pattern in rule.get("onPodConditions") or ():
            condition = condition_of(pod, pattern["type"]) or {}
            if condition.get("status") == pattern.get("status", "True"):
                return rule["action"], f"Pod {where} has condition {pattern['type']} {end}"
    return "", ""


def success_rule(job: ReadOnlyTree, succeeded: Collection[int]) -> str:
    """Which rule of the ``successPolicy`` is met; empty if none is."""
    for at, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted, count = indexes_of(rule.get("succeededIndexes")), rule.get("succeededCount")
        if wanted:
            met = len(wanted & set(succeeded))
            if met == len(wanted) or (count is not None and met >= count):
                return f"Matched rules at index {at}"
        elif count is not None and len(succeeded) >= count:
            return f"Matched rules at index {at}"
    return ""


def _number(pod: ReadOnlyTree, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "0")
    return int(text) if text.isdecimal() else 0


def failures_of_index(job: ReadOnlyTree, failed: Iterable[ReadOnlyTree], index: int) -> tuple[int, int, float]:
    """How often the pods of an index have failed, how often that was ignored, and when the last did."""
    counted, ignored, at = 0, 0, 0.0
    for pod in failed:
        if index_of(pod) == index:
            ignores = matched_rule(job, pod)[0] == "Ignore"
            counted = max(counted, _number(pod, INDEX_FAILURES) + (not ignores))
            ignored = max(ignored, _number(pod, IGNORED_FAILURES) + ignores)
            at = max(at, finished_at(pod))
    return counted, ignored, at


def finished_at(pod: ReadOnlyTree) -> float:
    """When a pod has ended, as well as can be told."""
    statuses: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [
        time_of(((container_status.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for container_status in statuses
    ]
    if ends and None not in ends:
        return max(each for each in ends if each is not None)
    ready = condition_of(pod, "Ready") or {}
    since = time_of(ready.get("lastTransitionTime")) if ready.get("status") == "False" else None
    if since is None and is_terminating(pod):
        since = time_of(pod["metadata"]["deletionTimestamp"])
        since = (since or 0.0) - pod["metadata"].get("deletionGracePeriodSeconds", 0)
    return created(pod) if since is None else since


def pause_s(failures: int, last: float, now: float) -> float:
    """How long the next pod has to wait after so many failures."""
    if not failures:
        return 0.0
    return max(0.0, last + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10)) - now)
