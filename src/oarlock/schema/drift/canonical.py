"""The part of a schema that decides which objects fit it, in one form: what is stored and compared.

Descriptions and what only clients read are left out.
Must not know: what a schema is compared with. See also: `compare`.
"""

from __future__ import annotations

from typing import Any

from oarlock.schema.definition import Schema

_PLAIN = frozenset({
    "type", "format", "nullable", "default", "enum", "required", "pattern", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-oarlock-omit-empty",
})  # fmt: skip
_WITHOUT_MEANING: dict[str, tuple[Any, ...]] = {
    "x-kubernetes-list-type": ("atomic",),
    "minLength": (0,),
    "minItems": (0,),
    "minProperties": (0,),
    "required": ([],),
    "pattern": ("",),
}
"""Values that say the same as none."""


def canonical(schema: Schema) -> Schema:
    """A new schema with all that decides which objects fit; it shares values with `schema`."""
    found: Schema = {}
    for key, value in schema.items():
        if key in _PLAIN:
            if key == "default" or not (value is None or value is False or _is_idle(key, value)):
                found[key] = value
        elif key == "properties":
            found[key] = {name: canonical(child) for name, child in (value or {}).items()}
        elif key in ("items", "not"):
            if value is not None:
                found[key] = canonical(value)
        elif key == "additionalProperties":
            if value is not None:
                found[key] = canonical(value) if isinstance(value, dict) else value
        elif key in ("allOf", "anyOf", "oneOf"):
            if value:
                found[key] = [canonical(branch) for branch in value]
        elif key == "x-kubernetes-validations" and value:
            found[key] = [_rule(rule) for rule in value]
    return found


def _is_idle(key: str, value: Any) -> bool:
    return value in _WITHOUT_MEANING.get(key, ())


def _rule(given: dict[str, Any]) -> dict[str, Any]:
    rule = {"rule": given.get("rule", "")}
    if given.get("optionalOldSelf"):
        rule["optionalOldSelf"] = True
    return rule
