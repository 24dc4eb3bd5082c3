"""What a Job makes of the failures and successes of its pods. Source: Kubernetes' validation of batch/v1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import NON_NEGATIVE, check_qualified_name
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
