"""CronJobs of batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.batch.job import check_job_spec
from oarlock.apps.kinds.common.cells import NONE, age_of, containers_of, selector_text, since
from oarlock.apps.kinds.common.columns import POD_COLUMNS, age, flag, number, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.trees import Tree, at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.defaults import settle_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required

__all__ = ["CRON_JOB"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if not at(new, "spec.schedule"):
        yield Required("spec.schedule")
    policies = ("Allow", "Forbid", "Replace")
    if at(new, "spec.concurrencyPolicy") not in policies:
        yield NotSupported("spec.concurrencyPolicy", at(new, "spec.concurrencyPolicy", ""), policies)
    yield from check_job_spec(at(new, "spec.jobTemplate.spec", {}), "spec.jobTemplate.spec")
    if len(new["metadata"].get("name", "")) > 52:
        yield Invalid("metadata.name", new["metadata"]["name"], "must be no more than 52 characters")


def _fill_in(tree: Tree) -> None:
    settle_template(at(tree, "spec.jobTemplate.spec.template"))


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
