"""A number or a share of a total: ``3`` or ``"25%"``, as in ``maxUnavailable``.

Next: `names_more.percent`, which words the rule for the text.
Source: k8s.io/apimachinery ``util/intstr``.
"""

from __future__ import annotations

import re

__all__ = ["IntOrPercentError", "of_total", "parse"]

_is_percent = re.compile(r"[0-9]{1,9}%", re.ASCII).fullmatch


class IntOrPercentError(ValueError):
    """The value is neither a number nor a percentage."""


def parse(value: int | str) -> tuple[int, bool]:
    """The number, and whether it is a percentage. Raises IntOrPercentError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value, False
    if isinstance(value, str) and _is_percent(value):
        return int(value[:-1]), True
    raise IntOrPercentError("invalid type: string is not a percentage")


def of_total(value: int | str, total: int, *, round_up: bool) -> int:
    """The number that `value` means out of `total`. Raises IntOrPercentError."""
    number, is_percent = parse(value)
    if not is_percent:
        return number
    return -(-number * total // 100) if round_up else number * total // 100
