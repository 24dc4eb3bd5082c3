"""What is wrong with match conditions, of webhooks and of policies.

Source: Kubernetes' validation of ``admissionregistration.k8s.io/v1`` MatchCondition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oarlock.apps.kinds.admissionregistration import MatchCondition
from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, Required, TooMany

__all__ = ["condition_errors"]

MOST_CONDITIONS = 64


def condition_errors(
    path: str, conditions: Sequence[MatchCondition], compiled: Callable[[str, str], Iterable[FieldError]]
) -> Iterator[FieldError]:
    """Every mistake in `conditions`, which are at `path`; `compiled` tells those of an expression at a place."""
    if len(conditions) > MOST_CONDITIONS:
        yield TooMany(path, len(conditions), MOST_CONDITIONS)
    for at, condition in enumerate(conditions):
        place = f"{path}[{at}]"
        if condition.expression.strip():
            yield from compiled(f"{place}.expression", condition.expression)
        else:
            yield Required(f"{place}.expression")
        if not condition.name:
            yield Required(f"{place}.name")
            continue
        for complaint in names.qualified_name(condition.name):
            yield Invalid(f"{place}.name", condition.name, complaint)
