"""Whether labels, taints and node selectors match, as Kubernetes decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["node_selected", "requirement_holds", "term_matches", "tolerated", "untolerated_taint"]


def requirement_holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One expression of a node selector."""
    key, operator = requirement["key"], requirement["operator"]
    values: list[str] = requirement.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        number, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def term_matches(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """One term of a node selector. A term without any requirement matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    named = {"metadata.name": name}
    return all(requirement_holds(each, labels) for each in expressions) and all(
        requirement_holds(each, named) for each in fields
    )


def node_selected(spec: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Whether ``nodeSelector`` and the required node affinity of a pod's spec match a node."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(term_matches(term, labels, name) for term in required.get("nodeSelectorTerms") or ())


def tolerated(taint: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the tolerations is for the taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint.get("key"):
            continue
        if toleration.get("operator") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def untolerated_taint(
    taints: Iterable[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]], effects: tuple[str, ...]
) -> Mapping[str, Any] | None:
    """The first taint with one of the effects that no toleration is for."""
    for taint in taints:
        if taint.get("effect") in effects and not tolerated(taint, tolerations):
            return taint
    return None
