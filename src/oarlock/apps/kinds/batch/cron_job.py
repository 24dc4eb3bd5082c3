"""CronJobs of batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.batch.job import check_job_spec
from oarlock.apps.kinds.batch.schedule import check_schedule, check_time_zone
from oarlock.apps.kinds.common.cells import NONE, age_of, containers_of, selector_text, since
from oarlock.apps.kinds.common.columns import POD_COLUMNS, age, flag, number, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_not_negative, check_whether_supported
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.defaults import settle_template
from oarlock.apps.kinds.pods.warnings import warn_of_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

__all__ = ["CRON_JOB"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec, name = new.get("spec") or {}, at(new, "metadata.name", "")
    if not spec.get("schedule"):
        yield Required("spec.schedule")
    else:
        yield from check_schedule(spec["schedule"], "spec.schedule")
    yield from check_not_negative(spec, "spec", "startingDeadlineSeconds")
    if spec.get("timeZone") is not None and (old is None or at(old, "spec.timeZone") != spec["timeZone"]):
        yield from check_time_zone(spec["timeZone"], "spec.timeZone")
    policy, policies = spec.get("concurrencyPolicy") or "", ("Allow", "Forbid", "Replace")
    yield from check_whether_supported(policy, policies, "spec.concurrencyPolicy")
    yield from check_not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    job, path = at(spec, "jobTemplate.spec", {}), "spec.jobTemplate.spec"
    yield from check_job_spec(job, path)
    if job.get("manualSelector"):
        yield NotSupported(f"{path}.manualSelector", True, ("nil", "false"))
    warn_of_template(job.get("template"), f"{path}.template", at(old, f"{path}.template"), ctx)
    if len(name) > 52 and old is None:
        yield Invalid("metadata.name", name, "must be no more than 52 characters")


def _fill_in(tree: Tree) -> None:
    template = at(tree, "spec.jobTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        settle_template(at(template, "spec.template"))


def _row(tree: Tree, now: float) -> list[Any]:
    last = at(tree, "status.lastScheduleTime", "")
    template = at(tree, "spec.jobTemplate.spec", {})
    return [
        at(tree, "spec.schedule", ""),
        at(tree, "spec.timeZone", NONE),
        at(tree, "spec.suspend", False),
        len(at(tree, "status.active", [])),
        since(last, now) if last else NONE,
        age_of(tree, now),
        *containers_of(template.get("template")),
        selector_text(template.get("selector")),
    ]


CRON_JOB: Final = KindDeclaration(
    "batch",
    "v1",
    "CronJob",
    "cronjobs",
    short_names=("cj",),
    categories=("all",),
    status=True,
    generation=True,
    columns=(
        text("Schedule"),
        text("Timezone"),
        flag("Suspend"),
        number("Active"),
        text("Last Schedule"),
        age(),
        *POD_COLUMNS,
    ),
    validate=_validate,
    default=_fill_in,
    complete=empty_status,
    row=_row,
)
