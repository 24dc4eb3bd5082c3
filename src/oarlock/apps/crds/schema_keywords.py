"""The keywords of a definition's schemas: those that nobody knows are taken out, as unknown fields are.

A schema is free JSON to the declaration of the kind, which has no recursive types. Source: apiextensions.k8s.io/v1
JSONSchemaProps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oarlock.schema.structural.formats import checker

__all__ = ["prune_keywords", "unknown_formats"]

_FIELDS = frozenset(
    (
        *("id", "$schema", "$ref", "description", "type", "format", "title", "default", "maximum", "exclusiveMaximum"),
        *("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
        *("multipleOf", "enum", "maxProperties", "minProperties", "required", "externalDocs", "example", "nullable"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "dependencies"),
    )
)
_LEFT_OUT = frozenset(
    (
        *("id", "$schema", "description", "type", "format", "title", "pattern", "exclusiveMaximum", "exclusiveMinimum"),
        *("uniqueItems", "enum", "required", "allOf", "oneOf", "anyOf", "properties", "patternProperties", "nullable"),
        *("dependencies", "definitions", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    )
)
"""What isn't stored when it is empty or false."""
_ONE = frozenset(("not", "items", "additionalProperties", "additionalItems"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf"))
_BY_NAME = frozenset(("properties", "patternProperties", "definitions"))
_RULES = "x-kubernetes-validations"
_RULE_FIELDS = frozenset(("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"))

MAX_DEPTH = 100
"""No deeper: such a schema is refused as a whole."""


def prune_keywords(schema: Any, path: str, depth: int = 0) -> Iterator[str]:
    """Take unknown keywords out of `schema`, and empty ones; yields the path of each unknown one."""
    if type(schema) is not dict or depth > MAX_DEPTH:
        return
    for key in list(schema):
        value = schema[key]
        if value is None or (key in _LEFT_OUT and (value is False or value in ("", [], {}))):
            del schema[key]
            continue
        if key in _FIELDS:
            continue
        if key in _ONE:
            yield from prune_keywords(value, f"{path}.{key}", depth + 1)
        elif key in _LISTS:
            for at, child in enumerate(value if type(value) is list else ()):
                yield from prune_keywords(child, f"{path}.{key}[{at}]", depth + 1)
        elif key in _BY_NAME:
            for name, child in value.items() if type(value) is dict else ():
                yield from prune_keywords(child, f"{path}.{key}.{name}", depth + 1)
        elif key == _RULES:
            yield from _prune_rules(value, f"{path}.{key}")
        else:
            del schema[key]
            yield f"{path}.{key}"


def _prune_rules(rules: Any, path: str) -> Iterator[str]:
    for at, rule in enumerate(rules if type(rules) is list else ()):
        for key in list(rule) if type(rule) is dict else ():
            if key not in _RULE_FIELDS:
                del rule[key]
                yield f"{path}[{at}].{key}"
            elif rule[key] in (None, "") and key != "rule":
                del rule[key]


def unknown_formats(schema: Any, depth: int = 0) -> Iterator[str]:
    """The formats of texts in a schema that nothing checks."""
    if type(schema) is not dict or depth > MAX_DEPTH:
        return
    name = schema.get("format")
    if name and schema.get("type") == "string" and type(name) is str and checker(name) is None and name != "password":
        yield name
    for key, value in schema.items():
        if key in _BY_NAME:
            for child in value.values() if type(value) is dict else ():
                yield from unknown_formats(child, depth + 1)
        elif key in _ONE:
            yield from unknown_formats(value, depth + 1)
