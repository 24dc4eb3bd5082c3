"""Validates a schema in a definition, beyond the rules for structural schemas.

Checks for unsupported keywords, lists that can't be sets or maps, and defaults that violate their own
schema. See also: `structural_rules`. Source: apiextensions.k8s.io/v1 validation of openAPIV3Schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required, TypeInvalid
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.schema.cel.gate import rules_of
from oarlock.schema.passes.pruning import prune
from oarlock.schema.structural.defaults_check import broken_rules
from oarlock.schema.structural.merge_keys import MERGE_KEY, STRATEGIES, STRATEGY
from oarlock.schema.structural.nodes import MAX_DEPTH, MISSING, Node, SchemaError, parse
from oarlock.schema.structural.patterns import structural_errors
from oarlock.schema.validation.findings import ValidationFindings
from oarlock.schema.validation.objectmeta import compile_embedded, object_errors

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META = frozenset({"apiVersion", "kind", "metadata"})
_NOT_SUPPORTED = " is not supported"

_WITH_STATUS = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items"),
    *("properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
)


def status_errors_of_root(schema: Tree, path: str) -> Iterator[FieldError]:
    """The errors of a schema whose status has a subresource of its own: nothing but the status may speak of it."""
    if schema.get("type") not in (None, "", "object"):
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield Invalid(f"{path}.type", schema["type"], text)
    elif any(value not in (None, "", False, [], {}) for key, value in schema.items() if key not in _WITH_STATUS):
        names = " ".join(_in_go(key) for key in _WITH_STATUS)
        text = f"only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield Invalid(path, schema, text)


def _in_go(keyword: str) -> str:
    """A keyword as Kubernetes calls it in errors."""
    words = keyword.removeprefix("x-kubernetes-").split("-")
    return ("X" if keyword.startswith("x-") else "") + "".join(word[:1].upper() + word[1:] for word in words)


def schema_errors(schema: Tree, path: str, *, complete: bool = False) -> list[FieldError]:
    """All errors in the schema of one version, each once. `complete` is that of `structural_errors`."""
    errors = list(_keywords(schema, path, "above", 0))
    if schema.get("nullable") is True:
        errors.append(Forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    try:
        node = parse(_with_known_types(schema) if any(map(_is_of_type, errors)) else schema, path)
    except SchemaError as error:
        if not any(mistake.path == error.path for mistake in errors):
            errors.append(Invalid(error.path, "", error.why))
        return errors
    if any(mistake.path.endswith("preserve-unknown-fields") for mistake in errors):
        return errors  # what such a schema means can't be said
    unsupported = any(mistake.detail.endswith(_NOT_SUPPORTED) for mistake in errors)  # of such a schema no more is said
    structural = [] if unsupported else structural_errors(node, path, complete=complete)
    errors += structural
    errors += _list_rules(node, path)
    if not structural and not unsupported:
        errors += _root_default(node, path)
        errors += _default_rules(node, path, _DefaultPlace("root"))
        rules, mistakes = rules_of(schema, node, path)
        errors += mistakes
        if rules is not None and not mistakes:
            errors += _rules_of_defaults(schema, path)
    return list(dict.fromkeys(errors))


def _is_of_type(error: FieldError) -> bool:
    return isinstance(error, NotSupported) and error.path.endswith(".type")


def _with_known_types(value: Any) -> Any:
    """A schema in which unknown types, which have been reported, hide no other mistakes."""
    if type(value) is list:
        return [_with_known_types(child) for child in value]
    if type(value) is not dict:
        return value
    copy = {key: _with_known_types(child) for key, child in value.items()}
    if type(copy.get("type")) is str and copy["type"] not in ("", *_TYPES):
        copy["type"] = "object"
    return copy


def _rules_of_defaults(schema: Any, path: str) -> Iterator[FieldError]:
    """The rules that defaults break."""
    if type(schema) is not dict:
        return
    if schema.get("default") is not None:
        rules = rules_of(schema, parse(schema))[0]
        for error in rules.validate(schema["default"]) if rules is not None else ():
            value = schema["default"] if error.value is None else error.value
            yield Invalid(f"{path}.default", value, error.detail)
    for inner, where, _ in _below(schema, path, ""):
        yield from _rules_of_defaults(inner, where)


def _keywords(schema: Any, path: str, meta: str, depth: int) -> Iterator[FieldError]:
    """Errors for unsupported keywords.

    `meta` is "inside" in the metadata of an embedded object, "above" at the object.
    """
    if type(schema) is not dict or depth > MAX_DEPTH:
        return  # reported by `parse`
    kind = schema.get("type")
    if type(kind) is str and kind and kind not in _TYPES:
        yield NotSupported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield Forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if type(schema.get("items")) is list:
        yield Forbidden(f"{path}.items", "items must be a schema object and not an array")
    for key in _UNSUPPORTED:
        if schema.get(key):
            yield Forbidden(f"{path}.{key}", f"{key}{_NOT_SUPPORTED}")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield Forbidden(f"{path}.uniqueItems", text)
    strategy = schema.get(STRATEGY)
    if strategy is not None and not (type(strategy) is str and STRATEGIES.issuperset(strategy.split(","))):
        yield NotSupported(f"{path}.{STRATEGY}", strategy, sorted(STRATEGIES))
    if type(schema.get(MERGE_KEY, "")) is not str:
        yield Invalid(f"{path}.{MERGE_KEY}", schema[MERGE_KEY], "must be a string")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield Invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    additional, properties = schema.get("additionalProperties"), schema.get("properties")
    if additional is not None and additional is not True and properties:
        text = "additionalProperties and properties are mutual exclusive"
        yield Forbidden(f"{path}.additionalProperties", text)
    if meta == "inside" and schema.get("x-kubernetes-embedded-resource"):
        yield Forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("x-kubernetes-embedded-resource") and not meta:
        meta = "above"
    for inner, where, next_meta in _below(schema, path, meta):
        yield from _keywords(inner, where, next_meta, depth + 1)


def _below(schema: Tree, path: str, meta: str) -> Iterator[tuple[Any, str, str]]:
    """The direct child schemas of a schema."""
    deeper = "inside" if meta == "inside" else ""
    properties = schema.get("properties")
    if type(properties) is dict:
        for key, inner in properties.items():
            yield inner, f"{path}.properties[{key}]", "inside" if meta and (key in _META or deeper) else ""
    for key in ("items", "additionalProperties", "not"):
        if type(schema.get(key)) is dict:
            yield schema[key], f"{path}.{key}", deeper
    for key in ("allOf", "anyOf", "oneOf"):
        if type(schema.get(key)) is list:
            for i, inner in enumerate(schema[key]):
                yield inner, f"{path}.{key}[{i}]", deeper


def _list_rules(node: Node, path: str) -> Iterator[FieldError]:
    """Errors for lists and maps that don't fit their ``x-kubernetes-list-type`` or ``-map-type``."""
    if node.map_type:
        if node.map_type not in ("atomic", "granular"):
            yield NotSupported(f"{path}.x-kubernetes-map-type", node.map_type, ("atomic", "granular"))
        if node.type != "object":
            yield Invalid(f"{path}.type", node.type, "must be object if x-kubernetes-map-type is specified")
    where = f"{path}.x-kubernetes-list-type"
    if node.list_type:
        if node.type != "array":
            text = "must be array if x-kubernetes-list-type is specified"
            yield Invalid(f"{path}.type", node.type, text) if node.type else Required(f"{path}.type", text)
        if node.list_type not in ("atomic", "map", "set"):
            yield NotSupported(where, node.list_type, ("atomic", "set", "map"))
    if node.list_keys and node.list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield Invalid(where, node.list_type, text) if node.list_type else Required(where, text)
    if node.list_type == "map":
        yield from _map_rules(node, path)
    elif node.list_type == "set" and node.items is not None:
        yield from _set_rules(node.items, f"{path}.items")
    for key, child in node.properties.items():
        yield from _list_rules(child, f"{path}.properties[{key}]")
    if node.items is not None:
        yield from _list_rules(node.items, f"{path}.items")
    if isinstance(node.additional, Node):
        yield from _list_rules(node.additional, f"{path}.additionalProperties")


def _set_rules(items: Node, path: str) -> Iterator[FieldError]:
    if items.nullable:
        yield Forbidden(f"{path}.nullable", "cannot be nullable when x-kubernetes-list-type is set")
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.type == "array" and items.list_type not in ("", "atomic"):
        yield Invalid(f"{path}.x-kubernetes-list-type", items.list_type, text)
    if items.type == "object" and items.map_type != "atomic":
        yield Invalid(f"{path}.x-kubernetes-map-type", items.map_type or None, text)


def _map_rules(node: Node, path: str) -> Iterator[FieldError]:
    where, items = f"{path}.x-kubernetes-list-map-keys", node.items
    if not node.list_keys:
        yield Required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield Required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    inner = f"{path}.items"
    if items.type != "object":
        yield Invalid(f"{inner}.type", items.type, "must be object if parent array's x-kubernetes-list-type is map")
    if items.nullable:
        yield Forbidden(f"{inner}.nullable", "cannot be nullable when x-kubernetes-list-type is map")
    if len(set(node.list_keys)) < len(node.list_keys):
        yield Invalid(where, list(node.list_keys), "must not contain duplicate entries")
    if items.type != "object":
        return
    because = "this property is in x-kubernetes-list-map-keys, so it"
    for name in node.list_keys:
        key = items.properties.get(name)
        if key is None:
            yield Invalid(where, list(node.list_keys), "entries must all be names of item properties")
            continue
        place = f"{inner}.properties[{name}]"
        if key.type in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield Invalid(f"{place}.type", key.type, text)
        if name not in items.constraints.required and key.default is MISSING:
            yield Required(f"{place}.default", f"{because} must have a default or be a required property")
        if key.nullable:
            yield Forbidden(f"{place}.nullable", f"{because} cannot be nullable")


@dataclass(frozen=True, slots=True)
class _DefaultPlace:
    """The place of a default in the schema.

    `top_level` is "root" at the object itself and "meta" in its apiVersion, kind or metadata. `steps` lead to
    the default from the embedded object in whose apiVersion, kind or metadata it stands; None is an item of a list.
    """

    top_level: Literal["", "root", "meta"] = ""
    steps: tuple[str | None, ...] = ()

    def into(self, node: Node, key: str | None) -> _DefaultPlace:
        """The place of a property of `node`, or of its items (None)."""
        in_meta = self.top_level == "meta" or (self.top_level == "root" and key in _META)
        steps = (*self.steps, key) if self.steps or (node.embedded and key in _META) else ()
        return _DefaultPlace("meta" if in_meta else "", steps)


def _root_default(node: Node, path: str) -> Iterator[FieldError]:
    """A default of the object as a whole must say what it is."""
    if type(node.default) is dict:
        for key in ("apiVersion", "kind"):
            if not node.default.get(key):
                yield Required(f"{path}.default.{key}")


def _default_rules(node: Node, path: str, place: _DefaultPlace) -> Iterator[FieldError]:
    """A default must be valid under its own schema, and isn't allowed where the server sets the value."""
    where = f"{path}.default"
    if node.embedded:
        place = _DefaultPlace(place.top_level)
    if node.default is not MISSING:
        if place.top_level == "meta":
            yield Forbidden(where, "must not be set in top-level metadata")
        elif place.steps:
            yield from _default_in_metadata(node, where, place.steps)
        elif node.default is not None:
            yield from _default_errors(node, where)
    for key, child in node.properties.items():
        yield from _default_rules(child, f"{path}.properties[{key}]", place.into(node, key))
    if node.items is not None:
        yield from _default_rules(node.items, f"{path}.items", place.into(node, None))
    if isinstance(node.additional, Node):
        inner = f"{path}.additionalProperties"
        if not place.steps:
            yield from _default_rules(node.additional, inner, place.into(node, None))
        elif node.additional.default is not MISSING:
            text = "must not be set inside additionalProperties applying to object metadata"
            yield Forbidden(f"{inner}.default", text)


def _default_in_metadata(node: Node, where: str, steps: tuple[str | None, ...]) -> Iterator[FieldError]:
    """A default in the metadata of an embedded object must leave that metadata valid."""
    value = copy_json(node.default)
    for step in reversed(steps):
        value = [value] if step is None else {step: value}
    mistakes = list(object_errors({"apiVersion": "validation/v1", "kind": "Validation", **value}, None))
    if mistakes:
        messages = "; ".join(error.message for error in mistakes)
        yield Invalid(where, node.default, f"must result in valid metadata: {messages}")
    else:
        yield from broken_rules(node, where)


def _default_errors(node: Node, where: str) -> Iterator[FieldError]:
    unknown = prune(copy_json(node.default), node)
    if unknown:
        yield Invalid(where, node.default, f"must not have unknown fields: {', '.join(unknown)}")
    whole = {where: node.default}
    embedded = compile_embedded(Node(type="object", properties={where: node}))
    mistakes: list[FieldError] = []
    if embedded is not None:
        mistakes.extend(embedded.wrong_types(whole))
        if not mistakes:
            findings = ValidationFindings()
            embedded.validate(whole, findings)
            mistakes = findings.errors
    for error in mistakes or broken_rules(node, where):
        if type(error) in (Invalid, TypeInvalid):
            error.detail = error.detail.replace(f"{where}.", "").replace(where, "")
        yield error
