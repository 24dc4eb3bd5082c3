"""Serves types of other libraries (a pydantic model, a dataclass) through three functions.

    Foo = Foreign(pydantic_shape(FooModel), group="hello.zeng.dev", version="v1", kind="Foo")

The type itself isn't changed: group, version and other keywords are arguments. It must have the fields of a
whole object, including ``metadata`` if code needs it. `Foreign.spoke` is another version.
Every object is read as the type before it is stored, so the type's own validation applies, and its normalized
values are stored. Must not know: the libraries of such types.
See also: `pydantic` and `dataclasses`, which make shapes; `trees`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, Unpack, cast

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.meta.json_trees import Tree, copy_json
from oarlock.meta.kinds import GroupKind
from oarlock.schema.definition import NestedType, Schema
from oarlock.schema.foreign.trees import place_of, value_at, written_back
from oarlock.schema.passes.defaulting import compile_default
from oarlock.schema.passes.pruning import prune
from oarlock.schema.structural.nodes import parse
from oarlock.schema.types import reflect
from oarlock.schema.types.declaring import FieldNameError, HintError, KeywordError, caller_place
from oarlock.schema.types.folding import same
from oarlock.schema.types.resources import CommonFacts, Declared, ResourceFacts, VersionFacts, check_facts
from oarlock.schema.types.views import ViewError
from oarlock.schema.validation.findings import MAX_ERRORS, render

T = TypeVar("T")
S = TypeVar("S")

_HEAD = {"apiVersion": "string", "kind": "string", "metadata": "object"}


class ShapeError(ValueError):
    """Raised by the `view` of a `Shape` for a tree that doesn't fit the type. `errors` are its field errors."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(error.message for error in self.errors[:10]))


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """A foreign type as three functions, and a fourth for documents.

    - `schema()`: the structural schema of an object, without apiVersion, kind and metadata.
    - `view(tree)`: the tree as a T, sharing nothing with it; raises ValueError when it doesn't fit: a `ShapeError`, or
      one with an `errors()` as pydantic's.
    - `wire(object)`: a T as a fresh tree.
    - `nested()`: the classes in it by their paths in the schema, which are types of their own in OpenAPI documents.
    """

    schema: Callable[[], Schema]
    view: Callable[[Tree], T]
    wire: Callable[[T], Tree]
    nested: Callable[[], Mapping[str, NestedType]] = dict


class Foreign(Generic[T]):
    """A `Shape` with the class keywords of a `Resource`."""

    def __init__(
        self,
        shape: Shape[T],
        *,
        group: str,
        version: str,
        kind: str,
        default: Callable[[T], None] | None = None,
        **facts: Unpack[CommonFacts],
    ) -> None:
        """`default` sets what the type's own defaults can't say, as `Resource.default` does."""
        own_facts = cast(ResourceFacts, {**facts, "kind": kind})
        check_facts(f"Foreign {kind}", {"group": group, "version": version}, own_facts)
        self.shape = shape
        self.declaration = Declared(group, version, kind, type(self), own_facts, caller_place())
        self.default = default
        self.hub: Foreign[Any] | None = None
        self.to_hub: Callable[[T], Any] | None = None
        self.from_hub: Callable[[Any], T] | None = None
        self._own: Schema | None = None
        self._whole: Schema | None = None

    def spoke(
        self,
        shape: Shape[S],
        *,
        version: str,
        to_hub: Callable[[S], T],
        from_hub: Callable[[T], S],
        default: Callable[[S], None] | None = None,
        **facts: Unpack[VersionFacts],
    ) -> Foreign[S]:
        """Another version of this kind, as a `Spoke` is one of a `Resource`. Its names and scope are this one's.

        `to_hub` and `from_hub` are pure, and should preserve all that the other version can say. Objects are stored in
        this version.
        """
        subject = f"Foreign {self.declaration.kind} {version}"
        if self.hub is not None:
            raise KeywordError(subject, "a spoke of a spoke", "write it for the version that hooks see")
        for key in facts:
            if key not in VersionFacts.__annotations__:
                hint = "a spoke has its hub's" if key in CommonFacts.__annotations__ else ""
                raise KeywordError(subject, f"unknown keyword {key!r}", hint)
        own = self.declaration
        made = Foreign(
            shape, group=own.group, version=version, kind=own.kind, default=default, **cast(CommonFacts, facts)
        )
        made.hub, made.to_hub, made.from_hub = self, to_hub, from_hub
        return made

    def schema(self) -> Schema:
        """The schema of a whole object."""
        if self._whole is None:
            self._whole = self._made_whole()
        return self._whole

    def _of_shape(self) -> Schema:
        if self._own is None:
            try:
                self._own = self.shape.schema()
            except (HintError, FieldNameError) as error:
                error.place = self.declaration.place
                raise
        return self._own

    def _made_whole(self) -> Schema:
        schema = self._of_shape()
        properties = schema.get("properties", {})
        for name, kind in _HEAD.items():
            if properties.get(name, {}).get("type", kind) != kind:
                subject = f"{self.declaration.kind} {self.declaration.version}, field {name}"
                article = "an" if kind == "object" else "a"
                why = f"every object has {name!r} on the wire, and it is {article} {kind}"
                raise FieldNameError(subject, why, "give the field another name there", self.declaration.place)
        own = {k: v for k, v in properties.items() if k not in _HEAD}
        head = {name: {"type": kind} for name, kind in _HEAD.items()}
        required = [name for name in schema.get("required", ()) if name in own]
        whole = {k: v for k, v in schema.items() if k not in ("properties", "required")}
        result: Schema = {**whole, "type": "object", "properties": {**head, **own}}
        if required:
            result["required"] = required
        if self.declaration.facts.get("rules"):
            result["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in self.declaration.facts["rules"]]
        reflect.add_keys(result, self.declaration.facts.get("openapi", {}), self.declaration.kind)
        return result

    def view(self, tree: Tree) -> T:
        """The tree as a T; apiVersion, kind and metadata only where the type has fields for them. Raises ViewError."""
        properties = self._of_shape().get("properties", {})
        visible = {key: value for key, value in tree.items() if key in properties or key not in _HEAD}
        try:
            return self.shape.view(visible)
        except ValueError as error:
            metadata = tree.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            kind = GroupKind(self.declaration.group, self.declaration.kind)
            errors = list(islice(_mistakes(error, visible, self._of_shape()), MAX_ERRORS))
            raise ViewError(kind, name if isinstance(name, str) else "", errors) from error

    def wire(self, model: T) -> Tree:
        """An object as a tree, with apiVersion and kind first."""
        return {"apiVersion": self.declaration.gvk.api_version, "kind": self.declaration.kind, **self.shape.wire(model)}

    def settled(self, tree: Tree, fill: Callable[[T], object] | None = None) -> Tree:
        """`tree` with the type's normalized values: computed defaults, canonical texts, and what `fill` sets.

        Metadata stays as it is. The whole tree stays if reading back what the type writes gives another object.
        The same tree when nothing changes. Raises ViewError.
        """
        schema = self._fields()
        model = self.view(tree)
        if fill is not None:
            fill(model)
        normal = self.shape.wire(model)
        result: Tree = written_back(tree, _without_head(normal), schema)
        if result is tree or not same(self._again(result), _without_head(normal)):
            return tree
        return result

    def check(self, new: Tree, old: Tree | None) -> None:
        """Raise ViewError if the type's validation refuses `new`.

        Errors that `old` has too, at a place whose value is unchanged, are ignored (ratcheting).
        """
        try:
            self.view(new)
        except ViewError as error:
            errors = error.errors if old is None else self._new_mistakes(error.errors, new, old)
            if errors:
                kind = GroupKind(self.declaration.group, self.declaration.kind)
                raise ViewError(kind, new["metadata"].get("name", ""), errors) from None

    def _new_mistakes(self, errors: Sequence[FieldError], new: Tree, old: Tree) -> Sequence[FieldError]:
        try:
            self.view(old)
        except ViewError as error:
            before, was = set(error.errors), self._as_it_comes_in(old)
            return [error for error in errors if error not in before or not _same_at(new, was, error.path)]
        return errors

    def _as_it_comes_in(self, old: Tree) -> Tree:
        """The stored object, pruned and defaulted like the new one it is compared with."""
        node, tree = parse(self.schema()), copy_json(old)
        prune(tree, node, root=True)
        default = compile_default(node)
        if default is not None:
            default(tree)
        with_defaults: Tree = tree
        return with_defaults

    def _again(self, tree: Tree) -> Tree | None:
        try:
            return _without_head(self.shape.wire(self.view(tree)))
        except ViewError:
            return None

    def _fields(self) -> Schema:
        """The schema without the fields that the server sets."""
        schema = self.schema()
        return {**schema, "properties": _without_head(schema["properties"])}


def _without_head(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in _HEAD}


_ROOT = "<nil>"
"""How field errors call the whole object."""


def _same_at(new: Tree, old: Tree, path: str) -> bool:
    if path == _ROOT:
        return same(_without_head(new), _without_head(old))
    return same(value_at(new, path), value_at(old, path))


def _mistakes(error: ValueError, tree: Tree, schema: Schema) -> Iterable[FieldError]:
    """The error raised by a `view`, as field errors of its tree."""
    listed: Any = getattr(error, "errors", None)
    if isinstance(error, ShapeError):
        yield from error.errors
    elif callable(listed):
        for problem in listed(include_url=False, include_context=False, include_input=False):
            yield _mistake(problem, tree, schema)
    else:
        yield Invalid(_ROOT, "object", str(error))


def _mistake(mistake: Any, tree: Tree, schema: Schema) -> FieldError:
    """One entry of pydantic's ``errors()``."""
    path = render(place_of(mistake["loc"], schema, tree)) or _ROOT
    if mistake["type"] == "missing":
        return Required(path)
    value = tree if path == _ROOT else value_at(tree, path)
    actual = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else value
    text: str = mistake["msg"]
    for head in ("Value error, ", "Assertion failed, "):
        text = text.removeprefix(head)
    return Invalid(path, actual, text)
