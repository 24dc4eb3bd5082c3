"""Jobs of batch, and what they make of the failures and successes of their pods.

Source: Kubernetes' validation of batch/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import Any, Final

from oarlock.apps.kinds.common.columns import POD_COLUMNS, age, age_of, containers_of, selector_text, since, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.templates import NO_MATCH, selects
from oarlock.apps.kinds.common.trees import at, below, go_pod, go_value
from oarlock.apps.kinds.common.values import (
    IMMUTABLE,
    NON_NEGATIVE,
    check_domain_path,
    check_label_selector,
    check_not_negative,
    check_qualified_name,
    unchanged,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.apps.kinds.pods.defaults import settle_template, warn_of_template
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import (
    Duplicate,
    FieldError,
    Invalid,
    NotSupported,
    Required,
    TooLong,
    TooMany,
)
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import human_duration, parse_rfc3339

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_INDEX_CHARS: Final = 64 * 1024


def check_failure_policy(spec: Tree, path: str) -> Iterator[FieldError]:
    """The errors in a Job's podFailurePolicy."""
    rules = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > _MOST_RULES:
        yield TooMany(f"{path}.rules", len(rules), _MOST_RULES)
    pod = at(spec, "template.spec", {})
    containers = {
        container.get("name") for kind in ("containers", "initContainers") for container in pod.get(kind) or ()
    }
    for i, rule in enumerate(rules):
        where, action = f"{path}.rules[{i}]", rule.get("action") or ""
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if not action:
            yield Required(f"{where}.action", f"valid values: {_listed(_ACTIONS)}")
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                yield Invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        elif action not in _ACTIONS:
            yield NotSupported(f"{where}.action", action, _ACTIONS)
        if codes is not None:
            yield from _check_codes(codes, containers, f"{where}.onExitCodes")
        yield from _check_conditions(conditions, f"{where}.onPodConditions")
        if codes is not None and conditions:
            yield OmittedInvalid(where, None, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield OmittedInvalid(where, None, "specifying one of OnExitCodes and OnPodConditions is required")


class OmittedInvalid(Invalid):
    """A value that isn't allowed, and isn't shown."""

    __slots__ = ()

    @property
    def body(self) -> str:
        return f"Invalid value: {self.detail}"


def _listed(values: Sequence[str]) -> str:
    return f"[{' '.join(map(quote, values))}]"


def _check_codes(codes: Tree, containers: set[str | None], path: str) -> Iterator[FieldError]:
    operator, container, values = codes.get("operator") or "", codes.get("containerName"), codes.get("values") or []
    if not operator:
        yield Required(f"{path}.operator", f"valid values: {_listed(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield NotSupported(f"{path}.operator", operator, _OPERATORS)
    if container is not None and container not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        yield Invalid(f"{path}.containerName", container, why)
    if not values:
        yield Invalid(f"{path}.values", values or None, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield TooMany(f"{path}.values", len(values), _MOST_CODES)
    known: set[int] = set()
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield Invalid(f"{path}.values[{i}]", value, "must not be 0 for the In operator")
        if value in known:
            yield Duplicate(f"{path}.values[{i}]", value)
        known.add(value)
    if any(later < earlier for earlier, later in pairwise(values)):
        yield Invalid(f"{path}.values", values, "must be ordered")


def _check_conditions(conditions: Sequence[Tree], path: str) -> Iterator[FieldError]:
    if len(conditions) > _MOST_RULES:
        yield TooMany(path, len(conditions), _MOST_RULES)
    for i, condition in enumerate(conditions):
        status = condition.get("status") or ""
        yield from check_qualified_name(condition.get("type") or "", f"{path}[{i}].type")
        if not status:
            yield Required(f"{path}[{i}].status", f"valid values: {_listed(_STATUSES)}")
        elif status not in _STATUSES:
            yield NotSupported(f"{path}[{i}].status", status, _STATUSES)


def check_success_policy(spec: Tree, path: str) -> Iterator[FieldError]:
    """The errors in the successPolicy of a Job with indexes."""
    rules, completions = spec["successPolicy"].get("rules") or (), spec.get("completions") or 0
    if not rules:
        yield Required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield TooMany(f"{path}.rules", len(rules), _MOST_RULES)
    for i, rule in enumerate(rules):
        where, indexes, count = f"{path}.rules[{i}]", rule.get("succeededIndexes"), rule.get("succeededCount")
        if indexes is None and count is None:
            yield Required(where, "at least one of succeededCount or succeededIndexes must be specified")
        total = 0
        if indexes is not None:
            if len(indexes) > _MOST_INDEX_CHARS:
                yield TooLong(f"{where}.succeededIndexes", _MOST_INDEX_CHARS)
            try:
                total = _count_indexes(indexes, completions)
            except ValueError as problem:
                why = f"error parsing succeededIndexes: {problem}"
                yield Invalid(f"{where}.succeededIndexes", indexes, why)
        if count is not None:
            yield from _check_count(count, completions, None if indexes is None else total, f"{where}.succeededCount")


def _check_count(count: int, completions: int, indexes: int | None, path: str) -> Iterator[FieldError]:
    if count < 0:
        yield Invalid(path, count, NON_NEGATIVE)
    if count > completions:
        why = f"must be less than or equal to {completions} (the number of specified completions)"
        yield Invalid(path, count, why)
    if indexes is not None and count > indexes:
        what = "(the number of indexes in the specified succeededIndexes field)"
        yield Invalid(path, count, f"must be less than or equal to {indexes} {what}")


def _count_indexes(text: str, completions: int) -> int:
    """How many indexes a list such as ``1,3-5`` has. Raises ValueError."""
    total, last = 0, -1
    if not text:
        return 0
    for interval in text.split(","):
        limits = interval.split("-")
        if len(limits) > 2:
            rule = "that an index interval can have at most two parts separated by '-'"
            raise ValueError(f"the fragment {quote(interval)} violates the requirement {rule}")
        first = _index(limits[0], completions)
        if last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        last = first
        if len(limits) > 1:
            last = _index(limits[1], completions)
            if first >= last:
                raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
        total += last - first + 1
    return total


def check_indexes(text: str, completions: int) -> Iterator[str]:
    """What is wrong with a list of indexes."""
    try:
        _count_indexes(text, completions)
    except ValueError as problem:
        yield str(problem)


def _index(text: str, completions: int) -> int:
    if not re.fullmatch(r"[-+]?\d{1,18}", text, re.ASCII):
        raise ValueError(f"cannot convert string to integer for index: {quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {quote(text)}")
    return int(text)


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


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec, name = new.get("spec") or {}, at(new, "metadata.name", "")
    before = None if old is None else old.get("spec") or {}
    yield from _check_generated(new, spec)
    for _ in range(1 if old is None else 2):  # the strategy checks the specification, and so does the update
        yield from check_job_spec(spec, "spec")
        yield from _check_selector(spec)
    warn_of_template(spec.get("template"), "spec.template", (before or {}).get("template"), ctx)
    if before is None:
        completions = spec.get("completions")
        if spec.get("completionMode") == "Indexed" and completions and completions > 0:
            last = f"{name}-{completions - 1}"
            if names.dns1123_label(last):
                why = f"will not able to create pod with invalid DNS label: {last}"
                yield Invalid("metadata.name", name, why)
        return
    yield from _check_completions(spec, before)
    yield from unchanged(spec, before, "spec", "selector")
    waiting = bool(before.get("suspend")) and not at(old, "status.startTime")
    if _without_placement(spec, waiting) != _without_placement(before, waiting):
        pod = at(spec, "template.spec", {})
        shown = go_value("PodSpec", go_pod(pod))
        if waiting and pod != at(before, "template.spec"):
            yield Invalid("spec.template.spec", shown, IMMUTABLE)
        else:
            yield Invalid(
                "spec.template", {**go_value("", at(spec, "template.metadata", {})), "Spec": shown}, IMMUTABLE
            )
    yield from unchanged(spec, before, "spec", "completionMode")
    yield from unchanged(spec, before, "spec", "podFailurePolicy", kind="PodFailurePolicy")
    yield from unchanged(spec, before, "spec", "backoffLimitPerIndex", "managedBy")
    yield from unchanged(spec, before, "spec", "successPolicy", kind="SuccessPolicy")


def _check_generated(job: Tree, spec: Tree) -> Iterator[FieldError]:
    """A selector that nobody chose selects the pods of this very job."""
    selector, uid = spec.get("selector"), at(job, "metadata.uid", "")
    if spec.get("manualSelector") or selector is None:
        return
    name = at(job, "metadata.name", "")
    labels = at(spec, "template.metadata.labels", {})
    wanted = {**dict.fromkeys(_UID_LABELS, uid), **dict.fromkeys(_NAME_LABELS, name)}
    for key in (_UID_LABELS[1], _NAME_LABELS[1], _UID_LABELS[0], _NAME_LABELS[0]):
        if key not in labels:
            yield Required("spec.template.metadata.labels", f"must be '{wanted[key]}'")
        elif labels[key] != wanted[key]:
            yield Invalid("spec.template.metadata.labels", go_value("", labels), f"must be '{wanted[key]}'")
    if not selects(selector, wanted):
        yield Invalid("spec.selector", selector, "`selector` not auto-generated")


def _check_selector(spec: Tree) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        yield Required("spec.selector")
    else:
        yield from check_label_selector(selector, "spec.selector")
    if not selects(selector, at(spec, "template.metadata.labels", {})):
        yield Invalid("spec.template.metadata.labels", go_value("", at(spec, "template.metadata.labels")), NO_MATCH)


def _check_completions(spec: Tree, before: Tree) -> Iterator[FieldError]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        yield Invalid("spec.completions", completions, IMMUTABLE)
    elif completions is not None and completions != spec.get("parallelism"):
        yield Invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _without_placement(spec: Tree, waiting: bool) -> Tree:
    """A template without what may change as long as the job waits: where its pods run, and what they ask for."""
    template = spec.get("template") or {}
    if not waiting:
        return template
    metadata, pod = {**(template.get("metadata") or {})}, {**(template.get("spec") or {})}
    for name in ("annotations", "labels"):
        metadata.pop(name, None)
    for name in ("affinity", "nodeSelector", "tolerations", "schedulingGates"):
        pod.pop(name, None)
    for kind in ("containers", "initContainers"):
        pod[kind] = [{**container, "resources": None} for container in pod.get(kind) or ()]
    return {**template, "metadata": metadata, "spec": pod}


def check_job_spec(spec: Tree, path: str) -> Iterator[FieldError]:
    """The errors in the specification of a Job, of its own or in a CronJob's template."""
    counts = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    yield from check_not_negative(spec, path, *counts, "backoffLimitPerIndex", "maxFailedIndexes")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield Required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    manager = spec.get("managedBy")
    if manager is not None:
        yield from check_domain_path(manager, f"{path}.managedBy")
        if len(manager) > 63:
            yield TooLong(f"{path}.managedBy", 63)
    yield from _check_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        yield from check_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") != "Indexed":
            shown = go_value("SuccessPolicy", spec["successPolicy"])
            yield Invalid(f"{path}.successPolicy", shown, "requires indexed completion mode")
        else:
            yield from check_success_policy(spec, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    supported = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in supported:
        yield NotSupported(f"{path}.podReplacementPolicy", replacement, supported)
    yield from check_template(spec.get("template"), f"{path}.template", ("Always", "OnFailure", "Never"))
    policy, where = at(spec, "template.spec.restartPolicy", ""), f"{path}.template.spec.restartPolicy"
    if policy in ("Always", ""):
        yield Required(where, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield NotSupported(where, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield Invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_mode(spec: Tree, path: str) -> Iterator[FieldError]:
    mode, completions, parallelism = (spec.get(name) for name in ("completionMode", "completions", "parallelism"))
    per_index, failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        yield NotSupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode in (None, "NonIndexed"):
        for name, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                yield Invalid(f"{path}.{name}", value, "requires indexed completion mode")
    if mode != "Indexed":
        return
    if completions is None:
        yield Required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism is not None and parallelism > _MOST:
        why = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        yield Invalid(f"{path}.parallelism", parallelism, why)
    if completions is not None and failed is not None and failed > completions:
        yield Invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MOST:
        yield Invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST}")
    if completions is not None and completions > _MOST and per_index is not None:
        most, when = 10_000, f"when completions are above {_MOST} and used with backoff limit per index"
        if failed is None:
            yield Required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MOST}")
        for name, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if value is not None and value > most:
                yield Invalid(f"{path}.{name}", value, f"must be less than or equal to {most} {when}")


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        return
    settle_template(spec.get("template"))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimitPerIndex" in spec:
        spec.setdefault("backoffLimit", 2**31 - 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    for rule in at(spec, "podFailurePolicy.rules", ()):
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("status", "True")
    if not at(tree, "metadata.labels") and at(spec, "template.metadata.labels"):
        tree["metadata"]["labels"] = {**at(spec, "template.metadata.labels")}
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)


_MOST: Final = 100_000
_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")


def _prepare(new: Tree) -> None:
    spec = new.get("spec")
    if spec is None or spec.get("manualSelector"):
        return
    metadata = below(below(spec, "template"), "metadata")
    labels = below(metadata, "labels")
    own = new["metadata"]
    shared = (own.get("labels") or {}) == labels
    for label in _UID_LABELS:
        labels.setdefault(label, own["uid"])
    for label in _NAME_LABELS:
        labels.setdefault(label, own.get("name", ""))
    if shared:
        own["labels"] = {**labels}
    below(below(spec, "selector"), "matchLabels").setdefault(_UID_LABELS[0], own["uid"])


def _row(tree: Tree, now: float) -> list[Any]:
    succeeded, completions = at(tree, "status.succeeded", 0), at(tree, "spec.completions")
    parallelism = at(tree, "spec.parallelism", 0)
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    begun, ended = at(tree, "status.startTime", ""), at(tree, "status.completionTime", "")
    duration = ""
    if begun:
        duration = human_duration(parse_rfc3339(ended) - parse_rfc3339(begun)) if ended else since(begun, now)
    pods = containers_of(at(tree, "spec.template"))
    return [_job_status(tree), done, duration, age_of(tree, now), *pods, selector_text(at(tree, "spec.selector"))]


def _job_status(tree: Tree) -> str:
    true = {
        condition.get("type") for condition in at(tree, "status.conditions", []) if condition.get("status") == "True"
    }
    for condition, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    if at(tree, "metadata.deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in true else "Running"


JOB: Final = KindDeclaration(
    "batch",
    "v1",
    "Job",
    "jobs",
    categories=("all",),
    status=True,
    generation=True,
    gc_default="orphan",
    selectable=(".status.successful",),
    columns=(text("Status"), text("Completions"), text("Duration"), age(), *POD_COLUMNS),
    validate=_validate,
    validate_status=check_job_status,
    default=_fill_in,
    prepare=_prepare,
    complete=empty_status,
    row=_row,
)
