"""Types that are somebody else's (a pydantic model, a dataclass), served through three functions.

    Foo = Foreign(pydantic_shape(FooModel), group="hello.zeng.dev", version="v1", kind="Foo")

The type is never touched: group, version and the rest are said beside it. It must have the fields of a
whole object, ``metadata`` included when code wants to see it. One version, no conversion.
Must not know: the libraries such types come from. Next: `definitions`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, Union, Unpack, cast, get_args, get_origin, get_type_hints

import msgspec

from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import Invalid
from oarlock.meta.kinds import GroupKind
from oarlock.schema import reflect, views
from oarlock.schema.declaring import HintError, caller_place
from oarlock.schema.definition import Schema
from oarlock.schema.facts import CommonFacts, ResourceFacts, check_facts
from oarlock.schema.resources import Declared
from oarlock.schema.shapes import Model
from oarlock.schema.views import Tree, ViewError

__all__ = ["Foreign", "Shape", "dataclass_shape", "pydantic_shape"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """A type as three functions.

    - `schema()`: the structural schema of an object, without apiVersion, kind and metadata.
    - `view(tree)`: the tree as a T, sharing nothing with it; raises ValueError when it doesn't fit.
    - `wire(object)`: a T as a fresh tree.
    """

    schema: Callable[[], Schema]
    view: Callable[[Tree], T]
    wire: Callable[[T], Tree]


class Foreign(Generic[T]):
    """A `Shape` with what the class keywords of a `Resource` would say; takes the same keywords."""

    def __init__(self, shape: Shape[T], *, group: str, version: str, kind: str, **facts: Unpack[CommonFacts]) -> None:
        given = cast(ResourceFacts, {**facts, "kind": kind})
        check_facts(f"Foreign {kind}", {"group": group, "version": version}, given)
        self.shape = shape
        self.said = Declared(group, version, kind, type(self), given, caller_place())

    def schema(self) -> Schema:
        """The schema of a whole object."""
        schema = self.shape.schema()
        own = {k: v for k, v in schema.get("properties", {}).items() if k not in ("apiVersion", "kind", "metadata")}
        head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        required = [name for name in schema.get("required", ()) if name in own]
        whole = {k: v for k, v in schema.items() if k not in ("properties", "required")}
        made: Schema = {**whole, "type": "object", "properties": {**head, **own}}
        if required:
            made["required"] = required
        if self.said.facts.get("rules"):
            made["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in self.said.facts["rules"]]
        return made

    def view(self, tree: Tree) -> T:
        try:
            return self.shape.view(tree)
        except ValueError as error:
            if isinstance(error, InvalidObject):
                raise
            name = (tree.get("metadata") or {}).get("name", "")
            raise ViewError(
                GroupKind(self.said.group, self.said.kind), name, [Invalid("", None, str(error))]
            ) from error

    def wire(self, model: T) -> Tree:
        return {"apiVersion": self.said.gvk.api_version, "kind": self.said.kind, **self.shape.wire(model)}


def dataclass_shape(cls: type[T]) -> Shape[T]:
    """The `Shape` of a dataclass, nested ones included. Its snake_case names are camelCase on the wire."""
    shadow = _shadow(cls, {})

    def view(tree: Tree) -> T:
        return msgspec.convert(views.view(tree, shadow), cls, from_attributes=True)

    def wire(model: T) -> Tree:
        return views.builtins_of(msgspec.convert(model, shadow, from_attributes=True))

    return Shape(lambda: reflect.schema_of(shadow), view, wire)


def _shadow(cls: Any, made: dict[Any, Any]) -> Any:
    """A Model with the fields, defaults and docstring of a dataclass."""
    if cls in made:
        raise HintError(cls.__name__, f"{cls.__name__} contains itself")
    made[cls] = None
    hints = get_type_hints(cls, include_extras=True)
    doc = cls.__doc__ or ""
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        # a dataclass without a docstring gets its signature for one, which describes nothing
        "__doc__": None if doc.startswith(cls.__name__ + "(") else doc,
        "__annotations__": {f.name: _swapped(hints[f.name], made) for f in dataclasses.fields(cls)},
    }
    for f in dataclasses.fields(cls):
        if f.default is not dataclasses.MISSING:
            namespace[f.name] = _as_shadow(f.default, made)
        elif f.default_factory is not dataclasses.MISSING:
            namespace[f.name] = _as_shadow(f.default_factory(), made)
    make: Any = type(Model)
    made[cls] = make(cls.__name__, (Model,), namespace)
    return made[cls]


def _as_shadow(value: Any, made: dict[Any, Any]) -> Any:
    if type(value) in made:
        return msgspec.convert(value, made[type(value)], from_attributes=True)
    return value


def _swapped(hint: Any, made: dict[Any, Any]) -> Any:
    """The hint with shadows in the place of dataclasses."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return made.get(hint) or _shadow(hint, made)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_swapped(args[0], made), *args[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(_swapped(arg, made) for arg in args)]  # noqa: UP007  (made at run time)
    if origin in (list, dict):
        return origin[tuple(_swapped(arg, made) for arg in args)]
    return hint


def pydantic_shape(cls: Any) -> Shape[Any]:
    """The `Shape` of a pydantic 2 model. Aliases are the names on the wire.

    None is left out on the wire, also inside free JSON.
    """

    def schema() -> Schema:
        whole = cls.model_json_schema(by_alias=True, mode="validation")
        structural: Schema = _structural(whole, whole.get("$defs", {}), cls.__name__, ())
        return structural

    def wire(model: Any) -> Tree:
        tree: Tree = model.model_dump(mode="json", by_alias=True, exclude_none=True)
        return tree

    return Shape(schema, cls.model_validate, wire)


_KEPT = (
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


def _structural(schema: Any, defs: dict[str, Any], path: str, inside: tuple[str, ...]) -> Schema:
    """A JSON schema as pydantic writes it, in the words a structural schema has."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside:
            raise HintError(path, f"{name} contains itself")
        found = _structural(defs[name], defs, path, (*inside, name))
        return {**found, **_own(schema)}
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return {**_structural(schema["allOf"][0], defs, path, inside), **_own(schema)}
    if "anyOf" in schema:
        return {**_choice(schema["anyOf"], defs, path, inside), **_own(schema)}
    result: Schema = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    for bound, key in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in schema:
            result.update({key: schema[bound], bound: True})
    if "properties" in schema:
        result["properties"] = {
            name: _structural(inner, defs, f"{path}.{name}", inside) for name, inner in schema["properties"].items()
        }
    rest = schema.get("additionalProperties")
    if isinstance(rest, dict) and rest:
        result["additionalProperties"] = _structural(rest, defs, f"{path}[]", inside)
    if "items" in schema:
        result["items"] = _structural(schema["items"], defs, f"{path}[]", inside)
    if result.get("type") == "array" and not result.get("items"):
        result["items"] = {"x-kubernetes-preserve-unknown-fields": True}
    free = result.get("type") == "object" and "properties" not in result and "additionalProperties" not in result
    if free or "type" not in result:
        result["x-kubernetes-preserve-unknown-fields"] = True
    return {**result, **_own(schema)}


def _choice(choices: list[Any], defs: dict[str, Any], path: str, inside: tuple[str, ...]) -> Schema:
    rest = [choice for choice in choices if choice.get("type") != "null"]
    nullable: Schema = {"nullable": True} if len(rest) < len(choices) else {}
    if len(rest) == 1:
        return {**_structural(rest[0], defs, path, inside), **nullable}
    if [choice.get("type") for choice in rest] == ["integer", "string"]:
        return {"anyOf": rest, "x-kubernetes-int-or-string": True, **nullable}
    raise HintError(path, "a union has no structural schema", "use a model with a field for each choice")


def _own(schema: Any) -> Schema:
    """What stands beside a ``$ref``. A default that says nothing is left out."""
    own = {key: schema[key] for key in ("description", "default") if key in schema}
    if own.get("default", 0) in (None, [], {}):
        del own["default"]
    return own
