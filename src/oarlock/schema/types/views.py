"""Converts trees to typed objects (views), and typed objects to trees.

Pure. A view shares nothing with its tree. A tree that doesn't fit its class raises `ViewError`,
which is a 422 response. Must not know: hooks. See also: `folding`, which applies a hook's changes to the tree.
"""

from __future__ import annotations

import re
import typing
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import InvalidObject
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.schema.compiled import CompiledVersion, compile_version
from oarlock.schema.definition import Names, ResourceDefinition, Schema, VersionDefinition
from oarlock.schema.types import reflect
from oarlock.schema.types.choices import ChoiceType, read_choice
from oarlock.schema.types.declaring import HintError, member_place
from oarlock.schema.types.markers import ListMap, MicroTimeMark, NullIfAbsent
from oarlock.schema.types.resources import Declared, declared

_MADE: WeakKeyDictionary[type, Schema] = WeakKeyDictionary()
"""What a class declares stays the same: a process that makes many servers reads it once."""


def object_schema(cls: type) -> Schema:
    """The schema of a whole object of a declared class, as a CRD's ``openAPIV3Schema``; don't change it."""
    made = _MADE.get(cls)
    if made is None:
        made = _MADE[cls] = _read(cls)
    return made


def _read(cls: type) -> Schema:
    declaration = declared(cls)
    try:
        schema = reflect.schema_of(cls)
    except reflect.Unresolved as error:
        raise HintError(
            error.subject,
            f"its hint can't be resolved: {error.why}",
            "import or define it in this module, outside of TYPE_CHECKING",
            place=member_place(error.place or declaration.place, error.subject),
        ) from error
    own = {name: prop for name, prop in schema["properties"].items() if name != "metadata"}
    string: Schema = {"type": "string"}
    schema["properties"] = {"apiVersion": dict(string), "kind": dict(string), "metadata": {"type": "object"}, **own}
    rules = declaration.facts.get("rules", ())
    if rules:
        schema["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in rules]
    reflect.add_keys(schema, declaration.facts.get("openapi", {}), declaration.kind)
    return schema


@dataclass(frozen=True, slots=True)
class TidyNode:
    """The post-processing at one place. `keys` are the wire names of the map keys of a list; `null`: absent is null."""

    kind: Literal["as it is", "time", "micro time", "float", "list", "map", "model", "choice"]
    inner: Any = None
    keys: tuple[str, ...] = ()
    null: bool = False


@dataclass(slots=True)
class TidyPlan:
    """`tidy`: wire name → Node for what a fresh tree needs.

    `models`: (attribute, wire name, Node) of what holds Models. `free`: somewhere there is free JSON. `choices`: there
    is one of several Models somewhere.
    """

    cls: type
    tidy: dict[str, TidyNode] = field(default_factory=dict)
    models: list[tuple[str, str, TidyNode]] = field(default_factory=list)
    free: bool = False
    choices: bool = False


_ATTRIBUTE: Final = "__plan__"


def plan_of(cls: Any) -> TidyPlan:
    """The plan of a Struct, kept on the class itself."""
    plan = cls.__dict__.get(_ATTRIBUTE)
    if plan is None:
        plan = _make(cls, ())
        setattr(cls, _ATTRIBUTE, plan)
    return plan  # type: ignore[no-any-return]


def _make(cls: Any, inside: tuple[type, ...]) -> TidyPlan:
    plan = TidyPlan(cls)
    for f in reflect.fields_of(cls):
        tidy, models = _node(f.hint, plan, (*inside, cls))
        if NullIfAbsent in reflect.take_apart(f.hint).markers:
            tidy = replace(tidy or TidyNode("as it is"), null=True)
        if tidy is not None:
            plan.tidy[f.wire] = tidy
        if models is not None:
            plan.models.append((f.name, f.wire, models))
    return plan


def _node(hint: Any, plan: TidyPlan, inside: tuple[type, ...]) -> tuple[TidyNode | None, TidyNode | None]:
    """The TidyNode for times and floats, and the one for Models, at a hint; None if not needed."""
    apart = reflect.take_apart(hint)
    base = apart.base
    if base is datetime:
        return TidyNode("micro time" if MicroTimeMark() in apart.markers else "time"), None
    if base is float:
        return TidyNode("float"), None
    if base in (Any, dict):
        plan.free = True
        return None, None
    if isinstance(base, ChoiceType):
        return _choice_node(base, plan, inside), None
    if isinstance(base, type) and issubclass(base, msgspec.Struct):
        if base in inside:
            # a recursive type was let through as free JSON: nothing is known of its depth
            return None, None
        inner = _make(base, inside)
        plan.free |= inner.free
        plan.choices |= inner.choices
        return (TidyNode("model", inner.tidy) if inner.tidy else None), TidyNode("model", inner)
    origin, args = typing.get_origin(base), typing.get_args(base)
    if origin not in (list, dict):
        return None, None
    kind: Literal["list", "map"] = "list" if origin is list else "map"
    keys = next((m.keys for m in apart.markers if isinstance(m, ListMap)), ())
    tidy, models = _node(args[-1], plan, inside)
    return (TidyNode(kind, tidy) if tidy else None), (TidyNode(kind, models, keys) if models else None)


def _choice_node(base: ChoiceType, plan: TidyPlan, inside: tuple[type, ...]) -> TidyNode:
    """What tidies each choice, by its tag."""
    plan.choices = True
    nodes: dict[str, dict[str, TidyNode]] = {}
    for value, cls in base.by_value.items():
        inner = _make(cls, inside)
        plan.free |= inner.free
        nodes[value] = inner.tidy
    return TidyNode("choice", (base.tag, nodes))


def tidy(tree: Any, nodes: dict[str, TidyNode]) -> None:
    """Rewrite times and floats of a fresh tree as Kubernetes spells them, in place."""
    for name, node in nodes.items():
        value = tree.get(name)
        if value is not None:
            tree[name] = _tidied(value, node)
        elif node.null:
            tree[name] = None


def _tidied(value: Any, node: TidyNode) -> Any:
    kind = node.kind
    if value is None or kind == "as it is":
        return value
    if kind == "time":
        return rfc3339(value)
    if kind == "micro time":
        return micro_time(value)
    if kind == "float":
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
    if kind == "model":
        tidy(value, node.inner)
        return value
    if kind == "choice":
        tag, nodes = node.inner
        tidy(value, nodes[value[tag]])
        return value
    if kind == "list":
        return [_tidied(item, node.inner) for item in value]
    return {key: _tidied(item, node.inner) for key, item in value.items()}


def micro_time(text: str) -> str:
    """A time as Kubernetes' ``MicroTime`` is written: UTC, six digits of fraction, ``Z``. One without a zone is UTC."""
    if len(text) == 27 and text[26] == "Z":
        return text
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def rfc3339(text: str) -> str:
    """A time as Kubernetes' ``Time`` is written: UTC, whole seconds, ``Z``. A time without a zone is taken as UTC."""
    if len(text) == 20 and text[19] == "Z":
        return text
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


T = TypeVar("T")

_convert = msgspec.convert
_to_builtins = msgspec.to_builtins
_encode = msgspec.json.encode
_decode = msgspec.json.decode


class ViewError(InvalidObject):
    """A tree doesn't fit its class, e.g. because a required field is missing.

    Raised before schema validation, so `errors` are the schema's violations; if there
    are none, the error of the class.
    """


def view(tree: Tree, cls: type[T]) -> T:
    """The tree as an object of a declared class. Fields that the class doesn't have are left out.

    The tree should be pruned and defaulted. The object also has the class's defaults; they aren't added to the tree.
    Raises `ViewError`.
    """
    plan: TidyPlan = cls.__dict__.get("__plan__") or plan_of(cls)
    try:
        # free JSON would be shared with the tree, so such a class is read from a copy
        read = _decode(_encode(tree)) if plan.free else tree
        return _convert(read, cls, dec_hook=read_choice) if plan.choices else _convert(read, cls)
    except msgspec.ValidationError as error:
        raise _view_error(tree, cls, error) from error


def wire(model: Any) -> Tree:
    """An object of a declared class as a tree, with apiVersion and kind first."""
    cls = type(model)
    declaration: Declared = cls.__declared__
    return {"apiVersion": declaration.gvk.api_version, "kind": declaration.kind, **builtins_of(model)}


def builtins_of(model: Any) -> Tree:
    """The fields of a Model as a tree, with times and floats in Kubernetes' spelling."""
    tree: Tree = _to_builtins(model)
    plan: TidyPlan = type(model).__dict__.get("__plan__") or plan_of(type(model))
    if plan.tidy:
        tidy(tree, plan.tidy)
    return tree


_AT = re.compile(r" - at `\$(.*)`$")


def _view_error(tree: Tree, cls: Any, error: msgspec.ValidationError) -> ViewError:
    declaration = cls.__dict__.get("__declared__")
    kind = GroupKind("", cls.__name__)
    errors: list[FieldError] = []
    if isinstance(declaration, Declared):
        kind = GroupKind(declaration.group, declaration.kind)
        errors = _checker(cls, declaration).validate(tree)
    metadata = tree.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return ViewError(kind, name if isinstance(name, str) else "", errors or [_field_error(tree, str(error))])


def _checker(cls: Any, declaration: Declared) -> CompiledVersion:
    """The compiled schema of this class, cached on the class."""
    checker = cls.__dict__.get("__checker__")
    if not isinstance(checker, CompiledVersion):
        version = VersionDefinition(declaration.version, object_schema(cls))
        names = Names(declaration.kind.lower(), declaration.kind)
        alone = ResourceDefinition(
            declaration.group, names, "Namespaced", (version,), declaration.version, declaration.version
        )
        checker = compile_version(alone, declaration.version)
        cls.__checker__ = checker
    return checker


def _field_error(tree: Tree, text: str) -> FieldError:
    match = _AT.search(text)
    path = (match[1] if match else "").replace("[...]", "").lstrip(".")
    return Invalid(path, _value_at(tree, path), _AT.sub("", text).replace("`", ""))


def _value_at(tree: Any, path: str) -> Any:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list) and step.isdigit() and int(step) < len(tree):
            tree = tree[int(step)]
        else:
            return None
    return tree


def same_fields(model: Any, cls: type[T]) -> T:
    """An object of `cls` with those fields of `model` that have the same names on the wire. Raises `ViewError`.

    For versions of a kind that have different fields, but the same names for them.
    """
    return view(builtins_of(model), cls)
