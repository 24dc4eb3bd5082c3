"""Jobs of batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import age_of, containers_of, selector_text, since
from oarlock.apps.kinds.common.columns import POD_COLUMNS, age, text
from oarlock.apps.kinds.common.rules import IMMUTABLE, NON_NEGATIVE
from oarlock.apps.kinds.common.templates import NO_MATCH, selects
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.checks import check_template
from oarlock.apps.kinds.pods.defaults import settle_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.times import human_duration, parse_rfc3339

__all__ = ["JOB", "check_job_spec"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        yield Required("spec.selector")
    elif not selects(selector, at(spec, "template.metadata.labels", {})):
        told = at(spec, "template.metadata.labels")
        yield Invalid("spec.template.metadata.labels", told, NO_MATCH)
    if old is None:
        return
    before = old.get("spec") or {}
    fixed = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    if spec.get("completions") != before.get("completions") and spec.get("completionMode") != "Indexed":
        yield Invalid("spec.completions", spec.get("completions"), IMMUTABLE)
    for name in fixed:
        if spec.get(name) != before.get(name):
            yield Invalid(f"spec.{name}", spec.get(name), IMMUTABLE)
    waiting = before.get("suspend") and not at(old, "status.startTime")
    if spec.get("template") != before.get("template") and not waiting:
        yield Invalid("spec.template", spec.get("template"), IMMUTABLE)


def check_job_spec(spec: Tree, path: str) -> Iterator[FieldError]:
    """The errors in the specification of a Job, of its own or in a CronJob's template."""
    names = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    for name in names:
        if spec.get(name) is not None and spec[name] < 0:
            yield Invalid(f"{path}.{name}", spec[name], NON_NEGATIVE)
    yield from check_template(spec.get("template"), f"{path}.template", ("OnFailure", "Never"))


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
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)


_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")


_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")


def _prepare(new: Tree) -> None:
    spec = new.get("spec")
    if spec is None or spec.get("manualSelector"):
        return
    metadata = below(below(spec, "template"), "metadata")
    labels = below(metadata, "labels")
    own = new["metadata"]
    for label in _UID_LABELS:
        labels.setdefault(label, own["uid"])
    for label in _NAME_LABELS:
        labels.setdefault(label, own.get("name", ""))
    if "selector" not in spec:
        spec["selector"] = {"matchLabels": {_UID_LABELS[0]: own["uid"]}}


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
    true = {one.get("type") for one in at(tree, "status.conditions", []) if one.get("status") == "True"}
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
    default=_fill_in,
    prepare=_prepare,
    row=_row,
)
