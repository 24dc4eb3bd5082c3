"""Questions of authorization as trees: the spec of a SubjectAccessReview from a user and a target, and back.

See also: `webhook`, which sends them. Source: k8s.io/api ``authorization/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.meta import fields, labels
from oarlock.meta.context import Target, User
from oarlock.meta.json_trees import Tree

__all__ = ["spec_of", "target_of", "user_of"]

_OPERATORS = {
    **dict.fromkeys(("=", "==", "in"), "In"),
    **dict.fromkeys(("!=", "notin"), "NotIn"),
    "exists": "Exists",
    "!": "DoesNotExist",
}


def spec_of(user: User, target: Target) -> Tree:
    """The spec that asks whether `user` may do what `target` says. A selector that can't be parsed is left out."""
    spec: Tree = {}
    if target.resource:
        about = {
            "namespace": target.namespace,
            "verb": target.verb,
            "group": target.group,
            "version": target.version,
            "resource": target.resource,
            "subresource": target.subresource,
            "name": target.name,
            "fieldSelector": _field_requirements(target.field_selector),
            "labelSelector": _label_requirements(target.label_selector),
        }
        spec["resourceAttributes"] = {key: value for key, value in about.items() if value}
    else:
        spec["nonResourceAttributes"] = {"path": target.path, "verb": target.verb}
    if user.name:
        spec["user"] = user.name
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if user.uid:
        spec["uid"] = user.uid
    return spec


def target_of(spec: Mapping[str, Any]) -> Target:
    """What the spec of a review asks about: its resource, or else its path."""
    about = spec.get("resourceAttributes")
    if about is None:
        path = spec.get("nonResourceAttributes") or {}
        return Target(path.get("verb", ""), path=path.get("path", ""))
    texts = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Target(
        **{text: about.get(text, "") for text in texts},
        field_selector=_field_text(about.get("fieldSelector")),
        label_selector=_label_text(about.get("labelSelector")),
    )


def user_of(spec: Mapping[str, Any]) -> User:
    """Whom the spec of a review asks about."""
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _field_requirements(text: str) -> Tree:
    try:
        parsed = fields.parse(text)
    except fields.FieldSelectorError:
        return {}
    terms = [
        {"key": requirement.field, "operator": _OPERATORS[requirement.operator], "values": [requirement.value]}
        for requirement in parsed.requirements
    ]
    return {"requirements": terms} if terms else {}


def _label_requirements(text: str) -> Tree:
    try:
        parsed = labels.parse(text)
    except labels.SelectorError:
        return {}
    terms: list[Tree] = []
    for requirement in parsed.requirements:
        operator = _OPERATORS.get(requirement.operator)
        if operator is not None:
            terms.append(
                {
                    "key": requirement.key,
                    "operator": operator,
                    **({"values": [*requirement.values]} if requirement.values else {}),
                }
            )
    return {"requirements": terms} if terms else {}


def _field_text(tree: Mapping[str, Any] | None) -> str:
    """A field selector as it would be sent; what can't be sent so is left out."""
    texts = []
    for requirement in (tree or {}).get("requirements") or ():
        values: list[str] = requirement.get("values") or []
        sign = {"In": "=", "NotIn": "!="}.get(requirement.get("operator", ""))
        if sign is not None and len(values) == 1:
            texts.append(f"{requirement.get('key', '')}{sign}{fields.escape(values[0])}")
    return (tree or {}).get("rawSelector") or ",".join(texts)


def _label_text(tree: Mapping[str, Any] | None) -> str:
    """A label selector as it would be sent; what can't be sent so is left out."""
    texts = []
    for requirement in (tree or {}).get("requirements") or ():
        key, values = requirement.get("key", ""), ",".join(requirement.get("values") or ())
        match requirement.get("operator"):
            case "In":
                texts.append(f"{key} in ({values})")
            case "NotIn":
                texts.append(f"{key} notin ({values})")
            case "Exists":
                texts.append(key)
            case "DoesNotExist":
                texts.append(f"!{key}")
    return (tree or {}).get("rawSelector") or ",".join(texts)
