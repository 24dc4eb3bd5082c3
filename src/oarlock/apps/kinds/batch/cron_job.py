"""CronJobs of batch."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.batch.job import check_job_spec
from oarlock.apps.kinds.common.columns import (
    NONE,
    POD_COLUMNS,
    age,
    age_of,
    containers_of,
    flag,
    number,
    selector_text,
    since,
    text,
)
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_not_negative, check_whether_supported
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.defaults import settle_template, warn_of_template
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree

_FIELDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final[tuple[dict[str, int], ...]] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS, 1)},
    {name: number for number, name in enumerate(_DAYS)},
)
_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_PART: Final = r"(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(f"[-+]?{_PART}({_PART})*")
_ZONE_PART: Final = re.compile(r"[A-Za-z\d_+\-]{1,14}|\.{1,2}", re.ASCII)
_LONGEST: Final = 512


class _Unreadable(Exception):
    """The text can't be read; it says why."""


def check_schedule(text: str, path: str) -> Iterator[FieldError]:
    """The errors in a schedule. It can't name a time zone; that is a field of its own."""
    try:
        _parse(text)
    except _Unreadable as problem:
        yield Invalid(path, text, str(problem))
    if "TZ" in text:
        yield Invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _parse(text: str) -> None:
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        name = zone.partition("=")[2]
        if not _is_zone(name):
            raise _Unreadable(f"provided bad location {name}: unknown time zone {name}")
        text = text.strip()
    if text.startswith("@"):
        _parse_descriptor(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (least, most), names in zip(fields, _FIELDS, _NAMES, strict=True):
        for part in field.split(","):
            if part:
                _parse_range(part, least, most, names)


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith("@every "):
        raise _Unreadable(f"unrecognized descriptor: {text}")
    duration = text[len("@every ") :]
    if not _DURATION.fullmatch(duration) and duration not in ("0", "+0", "-0"):
        why = "missing unit in duration" if re.fullmatch(r"[-+]?\d+(\.\d*)?", duration) else "invalid duration"
        raise _Unreadable(f"failed to parse duration {text}: time: {why} {quote(duration)}")


def _parse_range(text: str, least: int, most: int, names: dict[str, int]) -> None:
    """One number, range, or ``*``, each with a step or without."""
    span, *steps = text.split("/")
    low, *highs = span.split("-")
    if low in ("*", "?"):
        start, end = least, most
    else:
        start = _number(low, names)
        if len(highs) > 1:
            raise _Unreadable(f"too many hyphens: {text}")
        end = _number(highs[0], names) if highs else start
    if len(steps) > 1:
        raise _Unreadable(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not highs:
        end = most
    if start < least:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise _Unreadable(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise _Unreadable(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[-+]?\d+", text, re.ASCII):
        raise _Unreadable(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 18:
        raise _Unreadable(f"failed to parse int from {text}: strconv.Atoi: parsing {quote(text)}: value out of range")
    number = int(text)
    if number < 0:
        raise _Unreadable(f"negative number ({number}) not allowed: {text}")
    return number


def check_time_zone(name: str, path: str) -> Iterator[FieldError]:
    """The errors in the name of a time zone."""
    if not name:
        yield Invalid(path, name, "timeZone must be nil or non-empty string")
        return
    parts = name.split("/")
    for part in parts if len(name) <= _LONGEST else ("",):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield Invalid(path, name, f"unknown time zone {name}")
            return
    if name.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield Invalid(path, name, why)
    if name != "Local" and not _is_zone(name):
        yield Invalid(path, name, f"unknown time zone {name}")


def _is_zone(name: str) -> bool:
    if name in ("", "UTC", "Local"):
        return True
    if len(name) > _LONGEST or not all(_ZONE_PART.fullmatch(part) for part in name.split("/")):
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


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
