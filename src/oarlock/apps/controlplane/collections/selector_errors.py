"""What is wrong with a label selector in an object. Source: k8s.io/apimachinery ``meta/v1/validation``."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.kinds.meta import LabelSelector, LabelSelectorRequirement
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required
from oarlock.meta.names import label_value, qualified_name

__all__ = ["selector_errors"]


def selector_errors(path: str, selector: LabelSelector) -> Iterator[FieldError]:
    """Every mistake in `selector`, which is at `path`."""
    for key, value in selector.match_labels.items():
        for complaint in qualified_name(key):
            yield Invalid(f"{path}.matchLabels", key, complaint)
        for complaint in label_value(value):
            yield Invalid(f"{path}.matchLabels", value, complaint)
    for at, requirement in enumerate(selector.match_expressions):
        yield from _requirement_errors(f"{path}.matchExpressions[{at}]", requirement)


def _requirement_errors(path: str, requirement: LabelSelectorRequirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        if not values:
            yield Required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield Forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield Invalid(f"{path}.operator", operator, "not a valid selector operator")
    for complaint in qualified_name(requirement.key):
        yield Invalid(f"{path}.key", requirement.key, complaint)
    for at, value in enumerate(values):
        for complaint in label_value(value):
            yield Invalid(f"{path}.values[{at}]", value, complaint)
