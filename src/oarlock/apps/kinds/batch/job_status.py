"""What the status of a Job may say, and how it may change. Source: Kubernetes' validation and strategy of batch/v1."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from oarlock.apps.kinds.batch.policies import OmittedInvalid, check_indexes
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_not_negative
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import parse_rfc3339

_TERMINAL: Final = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
_OPPOSITES: Final = (
    ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
    ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
    ("SuccessCriteriaMet", "Failed", "cannot set Failed=True and SuccessCriteriaMet=true conditions"),
    ("SuccessCriteriaMet", "FailureTarget", "cannot set FailureTarget=True and SuccessCriteriaMet=true conditions"),
)
_FIRST: Final = (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet"))


def check_job_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    """The errors in the status of a Job."""
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from check_not_negative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    for name in ("succeeded", "failed"):
        known: set[str] = set()
        for i, uid in enumerate(at(status, f"uncountedTerminatedPods.{name}", ())):
            if uid in known:
                yield Duplicate(f"status.uncountedTerminatedPods.{name}[{i}]", uid)
            known.add(uid)
    true = _true(status)
    for left, other, why in _OPPOSITES:
        if left in true and other in true:
            yield OmittedInvalid("status.conditions", None, why)
    yield from _check_completion(status, true)
    for last, first in _FIRST:
        if last in true and first not in true:
            why = f"cannot set {last}=True condition without the {first}=true condition"
            yield OmittedInvalid("status.conditions", None, why)
    yield from _check_end(status, true)
    yield from _check_indexes(new, status)
    if status.get("ready") is not None and status["ready"] > (status.get("active") or 0):
        yield Invalid("status.ready", status["ready"], "cannot set more ready pods than active")
    if _is_finished(true) and (status.get("terminating") or 0) > 0:
        yield Invalid("status.terminating", status["terminating"], "terminating>0 is invalid for finished job")
    yield from _check_changes(status, before, true)


def _true(status: Tree) -> set[str]:
    return {
        condition.get("type", "") for condition in status.get("conditions") or () if condition.get("status") == "True"
    }


def _is_finished(true: Set[str]) -> bool:
    return bool(true & {"Complete", "Failed"})


def _check_completion(status: Tree, true: Set[str]) -> Iterator[FieldError]:
    completed, started = status.get("completionTime"), status.get("startTime")
    if completed is not None and "Complete" not in true:
        why = "cannot set completionTime when there is no Complete=True condition"
        yield Invalid("status.completionTime", completed, why)
    if completed is None and "Complete" in true:
        yield Required("status.completionTime", "completionTime is required for Complete jobs")
    if completed is not None and started is not None and parse_rfc3339(completed) < parse_rfc3339(started):
        yield Invalid("status.completionTime", completed, "completionTime cannot be set before startTime")


def _check_end(status: Tree, true: Set[str]) -> Iterator[FieldError]:
    """What a Job that has ended has no more, and must have had."""
    if not _is_finished(true):
        return
    if (status.get("active") or 0) > 0:
        yield Invalid("status.active", status["active"], "active>0 is invalid for finished job")
    if status.get("startTime") is None:
        yield Required("status.startTime", "startTime is required for finished job")
    pods = status.get("uncountedTerminatedPods") or {}
    if pods.get("succeeded") or pods.get("failed"):
        why = "uncountedTerminatedPods needs to be empty for finished job"
        yield Invalid("status.uncountedTerminatedPods", pods, why)


def _check_indexes(job: Tree, status: Tree) -> Iterator[FieldError]:
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    completions = at(job, "spec.completions")
    if completions is not None:
        for name, indexes in (("completedIndexes", completed), ("failedIndexes", failed or "")):
            for problem in check_indexes(indexes, completions):
                yield Invalid(f"status.{name}", indexes, f"error parsing {name}: {problem}")
    if completed and at(job, "spec.completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield Invalid("status.completedIndexes", completed, why)
    if failed is not None and at(job, "spec.backoffLimitPerIndex") is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield Invalid("status.failedIndexes", failed, why)


def _check_changes(status: Tree, before: Tree, true: Set[str]) -> Iterator[FieldError]:
    """What was so, and stays so."""
    for kind in _TERMINAL:
        if kind in _true(before) and kind not in true:
            yield OmittedInvalid("status.conditions", None, f"cannot disable the terminal {kind}=True condition")
    if (status.get("failed") or 0) < (before.get("failed") or 0):
        yield Invalid("status.failed", status.get("failed", 0), "cannot decrease the failed counter")
    if (status.get("succeeded") or 0) < (before.get("succeeded") or 0):
        yield Invalid("status.succeeded", status.get("succeeded", 0), "cannot decrease the succeeded counter")
    completed = before.get("completionTime")
    if completed is not None and status.get("completionTime") not in (None, completed):
        yield Invalid("status.completionTime", status["completionTime"], "completionTime cannot be mutated")
