"""`pydantic_shape`: the `Shape` of a pydantic 2 model. pydantic itself reads and writes the objects.

Its JSON schema is converted to a structural schema, with the private keys of `trees`. What a structural schema can't
express is refused, with the path and the alternative: marking the field as JSON. pydantic is never imported; only
methods of the model are used. See also: `trees` for operations on trees.
Source: JSON schema 2020-12 as pydantic writes it.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import NestedType, Schema
from oarlock.schema.foreign.shape import Shape
from oarlock.schema.foreign.trees import CHOICE, KEPT, OWN_NAME, compile_renaming, in_order
from oarlock.schema.structural.patterns import CompiledPattern, PatternError
from oarlock.schema.types.declaring import FieldNameError, HintError, did_you_mean
from oarlock.schema.types.markers import AS_JSON
from oarlock.schema.types.reflect import DECIMAL, DECIMAL_KEY, DURATION, TIME
from oarlock.schema.types.shapes import camel, is_snake_case


def pydantic_shape(cls: Any, *, names: Literal["camel", "own"] = "camel", as_json: Sequence[str] = ()) -> Shape[Any]:
    """The `Shape` of a pydantic 2 model.

    - Fields are camelCase on the wire; an alias is used unchanged. With ``names="own"`` every name is used unchanged.
    - `as_json` are paths on the wire (``spec.parts[].extra``) of fields that are published as free JSON, whatever their
      type. pydantic still reads and checks them, and the value that was sent is kept. `AsJSON` in an ``Annotated`` does
      the same.
    - None is left out on the wire, unless the field is required and may be None.
    """

    @cache
    def made() -> tuple[Schema, Mapping[str, NestedType]]:
        structure = Structure(cls, names, as_json)
        return structure.schema(), structure.nested

    def schema() -> Schema:
        return made()[0]

    @cache
    def renaming() -> tuple[Any, Any]:
        return compile_renaming(schema(), to_wire=False), compile_renaming(schema(), to_wire=True)

    def view(tree: Tree) -> Any:
        own = renaming()[0]
        return cls.model_validate_json(msgspec.json.encode(tree if own is None else own(tree)))

    def wire(model: Any) -> Tree:
        tree = model.model_dump(mode="json", by_alias=True)
        to_wire = renaming()[1]
        result: Tree = _as_published(tree if to_wire is None else to_wire(tree), schema())
        return result

    return Shape(schema, view, wire, lambda: made()[1])


def _as_published(tree: Any, schema: Schema) -> Any:
    """The dumped object without computed fields, which aren't in the schema, and without None in optional fields."""
    if AS_JSON in schema:
        return tree
    if type(tree) is list:
        items: Schema = schema.get("items") or {}
        published = [_as_published(item, items) for item in tree]
        return sorted(published, key=in_order) if schema.get("x-kubernetes-list-type") == "set" else published
    if type(tree) is not dict:
        return tree
    properties: Schema = schema.get("properties", {})
    values: Any = schema.get("additionalProperties")
    if isinstance(values, dict):
        return {key: _as_published(value, values) for key, value in tree.items()}
    required = schema.get("required", ())
    open_ = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or not properties
    return {
        key: _as_published(value, properties[key]) if key in properties else value
        for key, value in tree.items()
        if (key in properties or open_) and (value is not None or key in required or key not in properties)
    }


_KEPT_KEYS = (
    "description",
    "type",
    "format",
    "enum",
    "required",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_UNKNOWN = "x-oarlock-unknown"
_SCALARS = ("string", "integer", "number", "boolean")


class Structure:
    """Converts the JSON schema of one model to a structural schema.

    A model has three JSON schemas: with wire names, with Python names, and of its output.
    """

    def __init__(self, cls: Any, names: str, as_json: Sequence[str]) -> None:
        self.subject: str = cls.__name__
        self.camel = names == "camel"
        self.as_json = frozenset(as_json)
        self.fields: set[str] = set()
        self.nested: dict[str, NestedType] = {}
        """The models in it by their paths, once the schema is made. Metadata isn't looked into."""
        ask, generator = cls.model_json_schema, _generator_of(cls)
        try:
            self.whole = ask(by_alias=True, schema_generator=generator)
            self.plain = ask(by_alias=False, schema_generator=generator)
            self.written = ask(by_alias=True, mode="serialization", schema_generator=generator)
        except RuntimeError as error:  # names something that isn't defined yet
            raise HintError(self.subject, str(error).partition("\n")[0]) from error

    def schema(self) -> Schema:
        """The structural schema, with the private keys of `trees`."""
        schema = self._structural(self.whole, "", ())
        for path in sorted(self.as_json - self.fields):
            raise HintError(self.subject, f"as_json={path!r}: no field", did_you_mean(path, self.fields - {""}))
        return schema

    def _structural(self, node: Any, path: str, inside: tuple[str, ...]) -> Schema:
        self.fields.add(path)
        if path in self.as_json or AS_JSON in node:
            return {**_reference_siblings(node), "x-kubernetes-preserve-unknown-fields": True, AS_JSON: True}
        if _UNKNOWN in node:
            raise self._refused(path, f"{node[_UNKNOWN]} has no schema")
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name in inside:
                raise self._refused(path, f"{name} contains itself")
            schema = self._structural(self.whole["$defs"][name], path, (*inside, name))
            self._note_model(name, path, schema)
            return {**schema, **_reference_siblings(node)}
        if len(node.get("allOf", ())) == 1:
            return {**self._structural(node["allOf"][0], path, inside), **_reference_siblings(node)}
        if "anyOf" in node or "oneOf" in node:
            return {**self._choice(node, path, inside), **_reference_siblings(node)}
        result = _scalar(node)
        if node.get("type") == "object" or "properties" in node:
            self._object(result, node, path, inside)
        elif node.get("type") == "array":
            self._array(result, node, path, inside)
        if "type" not in result:
            result["x-kubernetes-preserve-unknown-fields"] = True
        return {**result, **_reference_siblings(node)}

    def _note_model(self, name: str, path: str, schema: Schema) -> None:
        """Note a model in it. Models of one name and one schema are one type, wherever they are from."""
        if "properties" in schema and path and path.partition(".")[0] != "metadata":
            content = hashlib.sha256(msgspec.json.encode(schema)).hexdigest()
            plain = re.sub(r"[^A-Za-z0-9]", "", name)
            self.nested[f".{path}"] = NestedType(plain, f"pydantic {name}: {content}", schema.get("description", ""))

    def _forget_models(self, path: str) -> None:
        """Forget the models at and below a path, of which the schema has a mixture."""
        top = f".{path}"
        below = (f"{top}.", f"{top}[")
        self.nested = {at: model for at, model in self.nested.items() if at != top and not at.startswith(below)}

    def _object(self, result: Schema, node: Any, path: str, inside: tuple[str, ...]) -> None:
        if "properties" in node:
            self._properties(result, node, path, inside)
        values = node.get("additionalProperties", False)
        if not values and "patternProperties" in node:
            values = next(iter(node["patternProperties"].values()))
        if isinstance(values, dict) and values and "properties" not in node:
            result["additionalProperties"] = self._structural(values, f"{path}[]", inside)
        elif values or not ("properties" in node or "additionalProperties" in result):
            result["x-kubernetes-preserve-unknown-fields"] = True

    def _properties(self, result: Schema, node: Any, path: str, inside: tuple[str, ...]) -> None:
        """The fields of a model, by wire name."""
        plain, written = self._counterpart(self.plain, inside), self._counterpart(self.written, inside)
        own = dict(zip(node["properties"], plain.get("properties", ()), strict=False))
        writes = written.get("properties", {})
        properties: Schema = {}
        names: dict[str, str] = {}
        for alias, field in node["properties"].items():
            wire = camel(alias) if self.camel and own.get(alias) == alias and is_snake_case(alias) else alias
            where = f"{path}.{wire}" if path else wire
            if wire in properties:
                raise FieldNameError(f"{self.subject}.{where}", "two fields have this name", "give one an alias")
            schema = self._structural(field, where, inside)
            if alias not in writes:
                self._check_alias(where, alias, set(node["properties"]), writes)
                schema[KEPT] = True
            if wire != alias:
                schema[OWN_NAME] = alias
            properties[wire], names[alias] = schema, wire
        result["properties"] = properties
        if "required" in node:
            result["required"] = [names[alias] for alias in node["required"] if alias in names]

    def _counterpart(self, document: Any, inside: tuple[str, ...]) -> Any:
        """The same model in another of the three schemas."""
        return document.get("$defs", {}).get(inside[-1], {}) if inside else document

    def _check_alias(self, where: str, alias: str, read: set[str], writes: Any) -> None:
        other = [name for name, field in writes.items() if name not in read and not field.get("readOnly")]
        if other:
            what = f"it is read as {alias!r}, and something is written as {other[0]!r}"
            raise FieldNameError(f"{self.subject}.{where}", what, "give the field one alias for both")

    def _array(self, result: Schema, node: Any, path: str, inside: tuple[str, ...]) -> None:
        each = node.get("prefixItems")
        if each:
            schemas = [self._structural(item, f"{path}[]", inside) for item in each]
            same = all(item == schemas[0] for item in schemas)
            if not same:
                self._forget_models(f"{path}[]")
            result["items"] = schemas[0] if same else {"x-kubernetes-preserve-unknown-fields": True, AS_JSON: True}
            return
        items = node.get("items") or {}
        result["items"] = self._structural(items, f"{path}[]", inside)
        if node.get("uniqueItems"):
            if result["items"].get("type") not in _SCALARS:
                raise self._refused(path, "only a set of scalars can be told apart from a list", "write list")
            result["x-kubernetes-list-type"] = "set"

    def _choice(self, node: Any, path: str, inside: tuple[str, ...]) -> Schema:
        choices = node.get("anyOf") or node["oneOf"]
        rest = [choice for choice in choices if choice.get("type") != "null"]
        nullable: Schema = {"nullable": True} if len(rest) < len(choices) else {}
        if len(rest) == 1:
            return {**self._structural(rest[0], path, inside), **nullable}
        schemas = [self._structural(choice, path, inside) for choice in rest]
        self._forget_models(path)
        tag = node.get("discriminator", {}).get("propertyName")
        common = _one_type(schemas) if tag is None else self._tagged(schemas, tag, path)
        if common is None:
            raise self._refused(path, "a union has no structural schema", "give it a discriminator")
        return {**common, **nullable}

    def _tagged(self, choices: list[Schema], tag: str, path: str) -> Schema:
        """An object with the fields of every choice. The model itself checks which of them go together."""
        properties: Schema = {}
        for choice in choices:
            for wire, field in choice.get("properties", {}).items():
                earlier = properties.get(wire)
                if earlier is not None and earlier.get(OWN_NAME) != field.get(OWN_NAME):
                    raise self._refused(f"{path}.{wire}", "two choices call it otherwise")
                properties[wire] = field if earlier is None else _either(earlier, field)
        everywhere = [set(choice.get("properties", {})) for choice in choices]
        for wire, field in properties.items():
            if not all(wire in names for names in everywhere):
                properties[wire] = {key: value for key, value in field.items() if key != "default"}
        named = next((wire for wire, field in properties.items() if field.get(OWN_NAME, wire) == tag), tag)
        required = set.intersection(*(set(choice.get("required", ())) for choice in choices)) | {named}
        properties[named].pop("default", None)
        return {"type": "object", "properties": properties, "required": sorted(required), CHOICE: True}

    def _refused(self, path: str, what: str, instead: str = "") -> HintError:
        advice = f"{instead}, or " if instead else ""
        if path:
            advice += f"say that it is JSON: Annotated[…, AsJSON], or pydantic_shape(…, as_json=[{path!r}])"
        return HintError(f"{self.subject}.{path}" if path else self.subject, what, advice)


def _generator_of(cls: Any) -> Any:
    """The model's own JSON schema generator, adapted to structural schemas."""
    base = inspect.signature(cls.model_json_schema).parameters["schema_generator"].default
    ways = {
        "decimal_schema": lambda self, schema: {"type": "string", "format": "decimal"},
        "handle_invalid_for_json_schema": lambda self, schema, error_info: {_UNKNOWN: error_info},
        "emit_warning": lambda self, kind, detail: None,
    }
    return type("StructuralSchema", (base,), ways)


_TEXTS = {"decimal": DECIMAL, "duration": DURATION, "time": TIME}


def _scalar(node: Any) -> Schema:
    """The constraints of a node on its own value."""
    result: Schema = {key: node[key] for key in _KEPT_KEYS if key in node and key != "required"}
    if "const" in node:
        result["enum"] = [node["const"]]
    if node.get("writeOnly"):
        result[KEPT] = True  # a secret is written as stars
    for bound, key in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in node:
            result.update({key: node[bound], bound: True})
    text = _TEXTS.get(result.get("format", ""))
    if text is not None:
        del result["format"]
        if text == DECIMAL:
            result[DECIMAL_KEY] = True
        result["pattern"] = text
    if "pattern" in result:
        try:
            CompiledPattern(result["pattern"])
        except PatternError:
            del result["pattern"]  # no RE2 expression; the model checks its own
    return result


def _one_type(choices: list[Schema]) -> Schema | None:
    """One schema for choices that are scalars of one type, or an integer and a string; None for others."""
    types = {choice.get("type", "") for choice in choices}
    if types == {"integer", "string"}:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if types == {"integer", "number"}:
        return {"type": "number"}
    if len(types) != 1 or not types.issubset(_SCALARS):
        return None
    values = [choice.get("enum") for choice in choices]
    return {"type": types.pop(), **({"enum": _together(values)} if all(values) else {})}


def _together(values: list[Any]) -> list[Any]:
    return [*dict.fromkeys(value for some in values for value in some)]


def _either(left: Schema, other: Schema) -> Schema:
    """A field that two choices have: their common constraints, the values of both, or any value."""
    if left == other:
        return left
    merged = _one_type([left, other]) if "enum" in left and "enum" in other else None
    if merged is None:
        merged = {"x-kubernetes-preserve-unknown-fields": True, AS_JSON: True}
    return {**merged, **{key: left[key] for key in (OWN_NAME, "description") if key in left}}


def _reference_siblings(node: Any) -> Schema:
    """The keywords that may stand beside a reference. An empty default is left out."""
    own: Schema = {key: node[key] for key in ("description", "default") if key in node}
    if own.get("default", 0) in (None, [], {}):
        del own["default"]
    elif node.get("uniqueItems") and "default" in own:
        own["default"] = sorted(own["default"], key=in_order)
    return own
