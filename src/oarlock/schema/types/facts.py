"""The class keywords of `Resource` and `Spoke`: their types for type checkers, and their validation at import.

All of it is data that ends in a `ResourceDefinition`. Must not know: classes. See also: `resources`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints

from oarlock.meta.built_in import BUILT_IN_GROUPS
from oarlock.schema.definition import Column, DefaultRoles, Rule, Scale
from oarlock.schema.types.declaring import KeywordError, did_you_mean

__all__ = ["CommonFacts", "ResourceFacts", "VersionFacts", "check_facts"]


class VersionFacts(TypedDict, total=False):
    """Class keywords that belong to one version; a spoke doesn't inherit them from its hub.

    - `columns`: what ``kubectl get`` shows; name and age unless given.
    - `selectable`: JSON paths of at most 8 scalar fields that field selectors may name.
    - `status_subresource`: serve ``/status``, with its own update rules.
    - `scale`: serve ``/scale``.
    - `rules`: CEL rules on the whole object; write rules on a field in its ``Annotated``.
    - `deprecated`: True for the standard warning, ``"use …"`` for the standard warning with this hint, or the text.
    - `served`: False keeps the version readable in the store and hides it from clients.
    """

    columns: Sequence[Column]
    selectable: Sequence[str]
    status_subresource: bool
    scale: Scale
    rules: Sequence[Rule]
    deprecated: bool | str
    served: bool


class CommonFacts(VersionFacts, total=False):
    """Class keywords for a resource in all its versions. `ResourceDefinition` describes the last twelve.

    `plural` and `singular` are derived from the kind unless given.
    """

    plural: str
    singular: str
    scope: Literal["Namespaced", "Cluster"]
    short_names: Sequence[str]
    categories: Sequence[str]
    generation: bool
    unconditional_update: bool
    create_on_update: bool
    delete_returns: Literal["status", "object"]
    ttl_s: int
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment", "none"]
    gc_default: Literal["background", "orphan"]
    finalizers_at: str
    cleanup_finalizer: str
    initializers: Sequence[str]
    rbac: DefaultRoles
    delete_collection: bool


class ResourceFacts(CommonFacts, total=False):
    """Class keywords of a `Resource`, besides `group` and `version`. `kind` is the class's name unless given."""

    kind: str


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_INITIALIZER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")

_NAMES = {
    "group": (_SUBDOMAIN, 'a domain you own, such as "wardle.example.com"'),
    "version": (_LABEL, 'such as "v1" or "v2beta1"'),
    "kind": (_KIND, 'CamelCase, such as "Flunder"'),
    "plural": (_LABEL, "lower-case letters, digits and -"),
    "singular": (_LABEL, "lower-case letters, digits and -"),
}


def check_facts(subject: str, named: dict[str, Any], facts: Any) -> None:
    """Refuse unknown keywords and invalid values. `named` are group, version and kind."""
    hints = get_type_hints(ResourceFacts)
    for keyword, value in facts.items():
        if keyword not in hints:
            raise KeywordError(
                subject, f"unknown keyword {keyword!r}", did_you_mean(keyword, {*hints, "group", "version"})
            )
        mismatch = _expected_type(value, hints[keyword])
        if mismatch:
            raise KeywordError(subject, f"{keyword}={value!r}", mismatch)
    for keyword, value in {**facts, **named}.items():
        if keyword in _NAMES and not (keyword == "group" and value in BUILT_IN_GROUPS):
            pattern, instead = _NAMES[keyword]
            if not (isinstance(value, str) and pattern.fullmatch(value)):
                raise KeywordError(subject, f"{keyword}={value!r}", instead)
    for keyword in ("short_names", "categories"):
        values = facts.get(keyword, ())
        for name in values:
            if not _LABEL.fullmatch(name):
                raise KeywordError(subject, f"{keyword}={list(values)!r}: {name!r}", "lower-case letters, digits and -")
            if values.count(name) > 1:
                raise KeywordError(subject, f"{keyword}={list(values)!r}: {name!r} is there twice")
    initializers = facts.get("initializers", ())
    for name in initializers:
        if not _INITIALIZER.fullmatch(name) or len(name) > 63:
            advice = 'your domain and what for, such as "prices.shop.example.com"'
            raise KeywordError(subject, f"initializers={list(initializers)!r}: {name!r}", advice)
        if initializers.count(name) > 1:
            raise KeywordError(subject, f"initializers={list(initializers)!r}: {name!r} is there twice")
    if facts.get("ttl_s", 1) <= 0:
        raise KeywordError(subject, f"ttl_s={facts['ttl_s']!r}", "seconds, more than 0")


def _expected_type(value: Any, hint: Any) -> str:
    """The description of a valid value if `value` is invalid; empty if it is valid."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "" if value in args else "one of " + ", ".join(map(repr, args))
    if origin in (Union, types.UnionType):
        return (
            "" if any(not _expected_type(value, arg) for arg in args) else "a " + " or ".join(a.__name__ for a in args)
        )
    if origin is Sequence:
        fits = isinstance(value, list | tuple) and all(isinstance(item, args[0]) for item in value)
        return "" if fits else f"a list of {args[0].__name__}"
    return "" if type(value) is hint else f"{'an' if hint is int else 'a'} {hint.__name__}"
