"""`narrowings`: what of a newer schema an object that fits the older one may not fit, field by field.

It errs on the side of telling: if it yields nothing, every object that fits the older schema, its defaults filled in,
fits the newer one in the same way. What can't be compared (another pattern, another rule) counts as narrower.
Schemas are compared in one form (`canonical`), without descriptions and what only clients read.
Pure. Must not know: where the schemas come from, stores, objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from oarlock.meta.go.gotext import quote, show
from oarlock.schema.definition import Schema
from oarlock.schema.structural import formats
from oarlock.schema.structural.nodes import parse
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.typing_errors import compile_fits
from oarlock.schema.validation.values import compile_check

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


SHOWN = 5
"""How many choices are named."""

_FLOAT32 = 3.4028235677973366e38
_SCALARS = (str, int, float, bool, type(None))


def choices_of(schema: Schema) -> list[Any] | None:
    """The values that a schema of an enumeration of scalars takes; None for another schema."""
    choices = schema.get("enum")
    if choices is None or not all(type(choice) in _SCALARS for choice in choices):
        return None
    return list(choices)


def lost_choices(choices: list[Any], old: Schema, new: Schema) -> Iterator[str]:
    """The choices of an enumeration that fit the old schema and not the new one: found by trying each."""
    lost = [choice for choice in choices if _takes(old, choice) and not _takes(new, choice)]
    if lost:
        more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        yield f"no longer takes {', '.join(show(value) for value in lost[:SHOWN])}{more}"


def _takes(schema: Schema, value: Any) -> bool:
    node = parse(schema)
    check, fits, findings = compile_check(node), compile_fits(node), ValidationFindings()
    if check is not None:
        check(value, None, findings)
    return not findings.errors and (fits is None or fits(value))


def narrower_texts(old: Schema, new: Schema) -> Iterator[str]:
    yield from _limits(old, new, ("minLength", "maxLength"))
    yield from _other(old, new, "pattern")
    name = new.get("format", "")
    if name and name != old.get("format") and (name == "byte" or formats.checker(name) is not None):
        yield _changed(old, new, "format")


def narrower_counts(old: Schema, new: Schema, low: str, high: str) -> Iterator[str]:
    """Bounds of the number of items, or of fields."""
    yield from _limits(old, new, (low, high))


def narrower_numbers(old: Schema, new: Schema) -> Iterator[str]:
    least, most = _of_type(old, tight=False)
    low = max((least, False), (old.get("minimum", -math.inf), bool(old.get("exclusiveMinimum"))))
    high = min((most, True), (old.get("maximum", math.inf), not old.get("exclusiveMaximum")))
    if "minimum" in new and low < (new["minimum"], bool(new.get("exclusiveMinimum"))):
        yield _changed(old, new, "minimum", exclusive=bool(new.get("exclusiveMinimum")))
    if "maximum" in new and high > (new["maximum"], not new.get("exclusiveMaximum")):
        yield _changed(old, new, "maximum", exclusive=bool(new.get("exclusiveMaximum")))
    least, most = _of_type(new, tight=True)
    if low[0] < least or high[0] > most:
        yield f"is {_kind(new)} (was {_kind(old)}), which takes fewer numbers"
    if "multipleOf" in new and new["multipleOf"] != old.get("multipleOf") and not _divides(new, old):
        yield _changed(old, new, "multipleOf")


def _of_type(schema: Schema, *, tight: bool) -> tuple[float, float]:
    """The least and the greatest number of the type. An int-or-string of a class has 32 bits, else 64."""
    if schema.get("x-kubernetes-int-or-string"):
        return (-(2**31), 2**31 - 1) if tight else (-(2**63), 2**63 - 1)
    if schema.get("type") == "integer":
        return (-(2**31), 2**31 - 1) if schema.get("format") == "int32" else (-(2**63), 2**63 - 1)
    if schema.get("format") in ("float", "float32"):
        return -_FLOAT32, _FLOAT32
    return -math.inf, math.inf


def _divides(new: Schema, old: Schema) -> bool:
    before, after = old.get("multipleOf"), new["multipleOf"]
    return type(before) is int and type(after) is int and after != 0 and before % after == 0


def _kind(schema: Schema) -> str:
    name = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "any type")
    return f"{name} ({schema['format']})" if schema.get("format") else name


def _limits(old: Schema, new: Schema, names: tuple[str, str]) -> Iterator[str]:
    low, high = names
    if new.get(low, 0) > old.get(low, 0):
        yield _changed(old, new, low)
    if new.get(high, math.inf) < old.get(high, math.inf):
        yield _changed(old, new, high)


def _other(old: Schema, new: Schema, key: str) -> Iterator[str]:
    if new.get(key) and new[key] != old.get(key):
        yield _changed(old, new, key)


def _changed(old: Schema, new: Schema, key: str, *, exclusive: bool = False) -> str:
    before = show(old[key]) if key in old else "none"
    return f"{key} is {show(new[key])}{', exclusive' if exclusive else ''} (was {before})"


_CONTENT = (
    "type",
    "format",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-oarlock-omit-empty",
)
_ABSENT = object()


def alike(old: Schema, new: Schema) -> bool:
    """Whether every value that fits both means the same under both. Both schemas are canonical."""
    if old == new:
        return True
    if any(old.get(key) != new.get(key) for key in _CONTENT) or not _same_default(old, new):
        return False
    for key in ("items", "additionalProperties"):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if not alike(before, after):
                return False
        elif before != after:
            return False
    return _same_fields(old, new)


def _same_default(old: Schema, new: Schema) -> bool:
    before, after = old.get("default", _ABSENT), new.get("default", _ABSENT)
    return type(before) is type(after) and before == after


def _same_fields(old: Schema, new: Schema) -> bool:
    """Whether the declared fields are the same, but for new ones that no stored value has."""
    before, after = old.get("properties", {}), new.get("properties", {})
    if not before.keys() <= after.keys():
        return False
    if any(not alike(child, after[name]) for name, child in before.items()):
        return False
    added = after.keys() - before.keys()
    if added and (old.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in old):
        return False
    return not any("default" in after[name] for name in added)


_ANY = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_TEXT: Schema = {"type": "string"}
_TYPE_META: dict[str, Schema] = {"apiVersion": _TEXT, "kind": _TEXT}
_FREE: Schema = {_PRESERVES: True}
"""The schema of anything."""

LONGEST_RULE = 200


class Narrowing(NamedTuple):
    """A place of a schema, as in field errors, and what is narrower there."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path or 'the object'} {self.why}"


def narrowings(old: Schema, new: Schema) -> Iterator[Narrowing]:
    """Every change from `old` to `new`, both canonical and of whole objects, that an object may not survive."""
    if old != new:
        yield from _compare(_whole(old), _whole(new), "")


def _whole(schema: Schema) -> Schema:
    """The schema of a whole object. Its metadata is the same for every kind, but for constraints on the names."""
    properties = {**_TYPE_META, **schema.get("properties", {})}
    names = properties.get("metadata", {}).get("properties", {})
    metadata = {"type": "object", _PRESERVES: True, "properties": {"generateName": _TEXT, "name": _TEXT, **names}}
    required = [name for name in schema.get("required", ()) if name not in (*_TYPE_META, "metadata")]
    return {**schema, "properties": {**properties, "metadata": metadata}, "required": required}


def _compare(old: Schema, new: Schema, path: str) -> Iterator[Narrowing]:
    if old == new:
        return
    before, after = _kinds(old), _kinds(new)
    if not _accepts(after, before - {"null"}):
        yield Narrowing(path, f"is {_named(after)} (was {_named(before)})")
        return
    if "null" in before - after:
        yield Narrowing(path, "may no longer be null")
    if new.get(_EMBEDDED) and (not old.get(_EMBEDDED) or not _same_envelope(old, new)):
        yield Narrowing(path, "is a whole object, with apiVersion and kind")
    choices = choices_of(old)
    texts = _of_values(old, new, before) if choices is None else lost_choices(choices, old, new)
    yield from (Narrowing(path, text) for text in texts)
    if "array" in before:
        yield from _of_lists(old, new, path)
    if "object" in before:
        yield from _of_objects(old, new, path)
    yield from (Narrowing(path, text) for text in (*_branches(old, new), *_rules(old, new)))


def _kinds(schema: Schema) -> frozenset[str]:
    """The JSON types a schema takes."""
    if schema.get("x-kubernetes-int-or-string"):
        found = frozenset({"integer", "string"})
    elif schema.get("type"):
        found = frozenset({schema["type"]})
    else:
        return _ANY
    return found | {"null"} if schema.get("nullable") else found


def _accepts(kinds: frozenset[str], values: frozenset[str]) -> bool:
    return values <= (kinds | {"integer"} if "number" in kinds else kinds)


def _named(kinds: frozenset[str]) -> str:
    return "of any type" if kinds == _ANY else " or ".join(sorted(kinds - {"null"}))


def _same_envelope(old: Schema, new: Schema) -> bool:
    before, after = (schema.get("properties", {}) for schema in (old, new))
    return all(before.get(name) == after.get(name) for name in (*_TYPE_META, "metadata"))


def _of_values(old: Schema, new: Schema, kinds: frozenset[str]) -> Iterator[str]:
    """What is narrower for a value as a whole."""
    if "enum" in new and ("enum" not in old or not _is_subset(old["enum"], new["enum"]) or not alike(old, new)):
        yield f"takes only {', '.join(show(value) for value in new['enum'][:5])}{' …' if len(new['enum']) > 5 else ''}"
    if kinds & {"integer", "number"}:
        yield from narrower_numbers(old, new)
    if "string" in kinds:
        yield from narrower_texts(old, new)


def _is_subset(some: list[Any], others: list[Any]) -> bool:
    return all(any(type(value) is type(other) and value == other for other in others) for value in some)


def _of_lists(old: Schema, new: Schema, path: str) -> Iterator[Narrowing]:
    before, after = old.get("items", _FREE), new.get("items", _FREE)
    yield from _compare(before, after, f"{path}[*]")
    yield from (Narrowing(path, text) for text in narrower_counts(old, new, "minItems", "maxItems"))
    kind = new.get("x-kubernetes-list-type")
    if kind in ("set", "map"):
        was = old.get("x-kubernetes-list-type", "atomic")
        keys = new.get("x-kubernetes-list-map-keys", [])
        if was != kind:
            yield Narrowing(path, f"is a list of type {kind} (was {was}): no item may be there twice")
        elif kind == "set" and not alike(before, after):
            yield Narrowing(path, "is a list of type set whose items read otherwise")
        elif kind == "map" and (old.get("x-kubernetes-list-map-keys") != keys or not _same_keys(before, after, keys)):
            yield Narrowing(path, f"is a list with other keys: {', '.join(keys)}")
    if new.get("uniqueItems") and not (old.get("uniqueItems") and alike(before, after)):
        yield Narrowing(path, "takes no item twice")


def _same_keys(old: Schema, new: Schema, keys: list[str]) -> bool:
    before, after = (schema.get("properties", {}) for schema in (old, new))
    return all(alike(before.get(key, {}), after.get(key, {})) for key in keys)


def _of_objects(old: Schema, new: Schema, path: str) -> Iterator[Narrowing]:
    before, after = old.get("properties", {}), new.get("properties", {})
    others_before, others_after = _others(old), _others(new)
    for name in sorted(before.keys() | after.keys()):
        place = f"{path}.{name}" if path else name
        was, now = before.get(name, others_before), after.get(name, others_after)
        if was is not None and now is None:
            yield Narrowing(place, "is no longer a field: what is stored in it is lost when the object is next written")
        elif was is not None and now is not None:
            yield from _compare(was, now, place)
    if others_before is not None:
        if others_after is None:
            yield Narrowing(path, "keeps no other fields: they are lost when the object is next written")
        else:
            yield from _compare(others_before, others_after, f"{path}[*]")
        if new.get("additionalProperties") is True and old.get("additionalProperties") is not True:
            yield Narrowing(path, "keeps of other fields only values without fields of their own")
    yield from _of_presence(old, new, path)
    if "minProperties" in new or "maxProperties" in new:
        if alike(old, new):
            yield from (Narrowing(path, text) for text in narrower_counts(old, new, "minProperties", "maxProperties"))
        else:
            yield Narrowing(path, "has bounds on the number of its fields, and other fields or defaults")


def _others(schema: Schema) -> Schema | None:
    """The schema of fields that aren't declared; None if there are none."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    if additional is True:
        return {}
    return _FREE if schema.get(_PRESERVES) or "object" not in (schema.get("type"),) else None


def _of_presence(old: Schema, new: Schema, path: str) -> Iterator[Narrowing]:
    """Fields that must be there now."""
    before, after = old.get("properties", {}), new.get("properties", {})
    for name in new.get("required", ()):
        child, was = after.get(name, {}), before.get(name, {})
        if child.get("default") is not None:
            continue
        place = f"{path}.{name}" if path else name
        if name not in old.get("required", ()) or "default" in was:
            yield Narrowing(place, "is required, and has no default")
        elif child.get("x-oarlock-omit-empty") and not was.get("x-oarlock-omit-empty"):
            yield Narrowing(place, "is required, and counts as absent when it is empty")


def _branches(old: Schema, new: Schema) -> Iterator[str]:
    """Constraints by other schemas. They are compared as a whole: only the same ones are known to take the same."""
    for key in ("allOf", "anyOf", "oneOf", "not"):
        if key in new and not (old.get(key) == new[key] and alike(old, new)):
            yield f"has another {key}"


def _rules(old: Schema, new: Schema) -> Iterator[str]:
    known = old.get("x-kubernetes-validations", ())
    for rule in new.get("x-kubernetes-validations", ()):
        if _compares_with_old(rule):
            continue
        if rule not in known:
            yield f"has a new rule: {quote(rule['rule'][:LONGEST_RULE])}"
        elif not alike(old, new):
            yield f"has other fields or defaults, and a rule about them: {quote(rule['rule'][:LONGEST_RULE])}"


def _compares_with_old(rule: dict[str, Any]) -> bool:
    """Whether it only restricts changes. A rule with texts that aren't plain may mention oldSelf in one of them."""
    text = rule["rule"]
    if "oldSelf" not in text or rule.get("optionalOldSelf") or "\\" in text or '"""' in text or "'''" in text:
        return False
    return re.search(r"\boldSelf\b", re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)) is not None
