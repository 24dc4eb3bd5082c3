"""Approval of definitions in Kubernetes' own groups, which an annotation tells.

Source: KEP-1111 (``api-approved.kubernetes.io``). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oarlock.apps.crds.conditions import APPROVAL, ConditionValue
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.go.gotext import quote
from oarlock.net.url import UrlError, parse_url

__all__ = ["ANNOTATION", "approval_condition", "approval_errors"]

ANNOTATION = "api-approved.kubernetes.io"

_PROTECTED = (".k8s.io", ".kubernetes.io")
_WHERE = "see https://github.com/kubernetes/enhancements/pull/1111"
_MISSING, _INVALID = "MissingAnnotation", "InvalidAnnotation"


def approval_condition(group: str, annotations: Mapping[str, str]) -> ConditionValue | None:
    """What the definition's condition about its approval says; None in a group that isn't Kubernetes'."""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith(_PROTECTED):
        return None
    text = annotations.get(ANNOTATION, "")
    if not text:
        why = f'protected groups must have approval annotation "{ANNOTATION}", {_WHERE}'
        return ConditionValue(APPROVAL, "False", _MISSING, why)
    if text.startswith("unapproved"):
        return ConditionValue(APPROVAL, "False", "UnapprovedAnnotation", f"not approved: {quote(text)}")
    if _is_url(text):
        return ConditionValue(APPROVAL, "True", "ApprovedAnnotation", f"approved in {text}")
    how = 'with either a URL or a reason starting with "unapproved"'
    why = f'protected groups must have approval annotation "{ANNOTATION}" {how}, {_WHERE}'
    return ConditionValue(APPROVAL, "False", _INVALID, why)


def approval_errors(new: dict[str, Any], old: dict[str, Any] | None) -> Iterator[FieldError]:
    """The errors of a definition that needs approval and tells none. What was so before is tolerated."""
    condition = _condition(new)
    if condition is None or condition.reason not in (_MISSING, _INVALID):
        return
    before = None if old is None else _condition(old)
    if before is not None and before.reason == condition.reason:
        return
    path = f"metadata.annotations[{ANNOTATION}]"
    if condition.reason == _MISSING:
        yield Required(path, condition.message)
    else:
        yield Invalid(path, new["metadata"]["annotations"][ANNOTATION], condition.message)


def _condition(tree: dict[str, Any]) -> ConditionValue | None:
    return approval_condition(tree["spec"]["group"], tree["metadata"].get("annotations") or {})


def _is_url(text: str) -> bool:
    try:
        url = parse_url(text)
    except UrlError:
        return False
    return bool(url.scheme and url.host)
