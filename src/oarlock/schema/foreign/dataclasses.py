"""`dataclass_shape`: the `Shape` of a dataclass or an attrs class, nested ones included.

Its type hints are compiled once, to a `ValueForm` each; the schema is that of a Model with the same fields. A hint
that can't be expressed in a structural schema is refused, unless the field is marked as JSON. See also: `value_forms`.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import Schema
from oarlock.schema.foreign.shape import Shape, ShapeError
from oarlock.schema.types import reflect
from oarlock.schema.types.dataclass_records import (
    MISSING,
    DataField,
    Record,
    RecordField,
    Tagged,
    is_record,
    model_of,
    record_fields,
)
from oarlock.schema.types.declaring import HintError, did_you_mean
from oarlock.schema.types.definitions import NestedTypes
from oarlock.schema.types.markers import AsJSON, IntOrStringMark, Name, Preserve, QuantityMark
from oarlock.schema.types.shapes import camel, is_snake_case
from oarlock.schema.types.value_forms import (
    ANYTHING,
    INT_OR_STRING,
    ValueForm,
    choice_form,
    dict_form,
    leaf_form,
    list_form,
    optional_form,
    set_form,
    struct_form,
    tuple_form,
)

T = TypeVar("T")


def dataclass_shape(cls: type[T], *, names: Literal["camel", "own"] = "camel", as_json: Sequence[str] = ()) -> Shape[T]:
    """The `Shape` of a dataclass.

    - Fields are camelCase on the wire, unless an ``Annotated`` has a `Name`. With ``names="own"`` they have their names
      in Python.
    - `as_json` are paths on the wire (``spec.parts[].extra``) of fields that are published as free JSON, whatever their
      type. The value that was sent is kept, and read as far as possible. `AsJSON` in an ``Annotated`` does the same.
    - A ``__post_init__`` may raise ValueError, or change the values.
    """

    @cache
    def record() -> Record:
        hints = _Hints(cls, names == "own", frozenset(as_json))
        result = hints.record(cls, "", strict=True)
        hints.check_paths()
        return result

    @cache
    def schema() -> Schema:
        return reflect.schema_of(record().model)

    def view(tree: Tree) -> T:
        errors: list[FieldError] = []
        value: T = record().read(tree, None, errors)
        if errors:
            raise ShapeError(errors)
        return value

    return Shape(schema, view, lambda model: record().write(model), lambda: NestedTypes(record().model))


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_EMPTY = (list, dict, set, frozenset, tuple)
_BARE: dict[Any, ValueForm] = {
    Any: ANYTHING,
    dict: dataclasses.replace(ANYTHING, hint=Annotated[dict, Preserve], null=False),
    list: list_form(ANYTHING),
}


class _Hints:
    """Compiles the hints of a dataclass and of nested ones."""

    def __init__(self, cls: type, own: bool, as_json: frozenset[str]) -> None:
        self.subject = cls.__name__
        self.own = own
        self.as_json = as_json
        self.paths: set[str] = set()
        self.records: dict[tuple[type, bool], Record] = {}
        self.open: set[type] = set()

    def check_paths(self) -> None:
        for path in sorted(self.as_json - self.paths):
            raise HintError(self.subject, f"as_json={path!r}: no field", did_you_mean(path, self.paths))

    def record(self, cls: Any, path: str, *, strict: bool) -> Record:
        """The reader and writer for `cls`. `strict`: it has a schema, so it may not be recursive."""
        if strict and cls in self.open:
            raise self._refused(path, f"{cls.__name__} contains itself")
        result = self.records.get((cls, strict))
        if result is None or (strict and self.as_json):
            result = self.records[cls, strict] = Record(cls)
            self.open |= {cls} if strict else set()
            self._fill(result, path, strict)
            self.open.discard(cls)
        return result

    def _fill(self, record: Record, path: str, strict: bool) -> None:
        cls = record.cls
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except NameError as error:
            raise HintError(self.subject, f"a hint of {cls.__name__} can't be resolved: {error}") from error
        annotations: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        self._check_init(cls, path)
        for field in record_fields(cls):
            wire = self._wire(field.argument, hints[field.name], strict)
            where = f"{path}.{wire}" if path else wire
            form = self.form(hints[field.name], where, strict=strict)
            try:
                default, optional = _default(field, form)
            except (TypeError, ValueError, AttributeError) as error:
                raise HintError(f"{self.subject}.{where}", f"its default doesn't fit its hint: {error}") from error
            by_factory = field.default_factory is not MISSING and default is None
            hint = Union[form.hint, None] if by_factory else form.hint  # noqa: UP007  (made at run time)
            annotations[field.argument] = Annotated[hint, Name(wire)]
            if optional:
                defaults[field.argument] = default if default in (None, [], {}) else _as_hinted(default, form.hint)
            record.fields.append(DataField(field.name, field.argument, wire, form, optional, default in ([], {})))
        if strict:
            record.model = model_of(cls, annotations, defaults)

    def _check_init(self, cls: Any, path: str) -> None:
        names = {field.argument for field in record_fields(cls)}
        for parameter in inspect.signature(cls).parameters.values():
            required = parameter.default is parameter.empty and parameter.kind not in _VARIABLE
            if required and parameter.name not in names:
                raise self._refused(path, f"{cls.__name__} can't be made without {parameter.name!r}, which is no field")

    def _wire(self, name: str, hint: Any, strict: bool) -> str:
        for marker in reflect.take_apart(hint).markers:
            if isinstance(marker, Name):
                return marker.name
        return name if self.own or not strict or not is_snake_case(name) else camel(name)

    def form(self, hint: Any, path: str, *, strict: bool) -> ValueForm:
        """The reader and writer for a hint. HintError if it can't be expressed in a schema."""
        self.paths.add(path)
        markers = reflect.take_apart(hint).markers
        if strict and (path in self.as_json or AsJSON in markers):
            others = [marker for marker in markers if marker != AsJSON]
            inner = self.form(hint, path, strict=False)
            return dataclasses.replace(inner, hint=_annotated(Any, [*others, AsJSON]), null=True)
        if get_origin(hint) is Annotated:
            inner = self._marked(hint, path, strict)
            return dataclasses.replace(inner, hint=_annotated(inner.hint, hint.__metadata__))
        base = getattr(hint, "__supertype__", getattr(hint, "__value__", hint))  # NewType, and the type statement
        if base is not hint:
            return self.form(base, path, strict=strict)
        result = _BARE.get(hint) or leaf_form(hint) or self._structured(hint, path, strict)
        if result is not None:
            return result
        if not strict:
            return ANYTHING
        raise self._refused(path, f"{_shown(hint)} has no schema")

    def _marked(self, hint: Any, path: str, strict: bool) -> ValueForm:
        for marker in hint.__metadata__:
            if isinstance(marker, IntOrStringMark | QuantityMark):
                return dataclasses.replace(INT_OR_STRING, hint=hint.__origin__)
            if marker == Preserve and hint.__origin__ is Any:
                return dataclasses.replace(ANYTHING, hint=Any)
        return self.form(hint.__origin__, path, strict=strict)

    def _structured(self, hint: Any, path: str, strict: bool) -> ValueForm | None:
        origin, args = get_origin(hint), get_args(hint)
        if is_record(hint):
            record = self.record(hint, path, strict=strict)
            return ValueForm(record.model, record.read, record.write)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return struct_form(hint)
        if origin is Literal:
            return choice_form(hint, args)
        if origin in (Union, types.UnionType):
            return self._union(args, path, strict)
        if origin is dict:
            if args[1] is Any:
                return _BARE[dict]
            return dict_form(self.form(args[1], f"{path}[]", strict=strict))
        if origin in (list, set, frozenset) or (origin is tuple and args[1:] == (...,)):
            return self._many(origin, self.form(args[0], f"{path}[]", strict=strict), path)
        if origin is tuple and args:
            return tuple_form([self.form(arg, f"{path}[]", strict=strict) for arg in args])
        return None

    def _many(self, origin: Any, inner: ValueForm, path: str) -> ValueForm:
        if origin in (list, tuple):
            return list_form(inner, make=origin)
        if isinstance(reflect.take_apart(inner.hint).base, type) and issubclass(
            reflect.take_apart(inner.hint).base, msgspec.Struct
        ):
            raise self._refused(path, "only a set of scalars can be told apart from a list", "write list")
        return set_form(inner, origin)

    def _union(self, args: tuple[Any, ...], path: str, strict: bool) -> ValueForm | None:
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) < len(args):
            whole = rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007  (made at run time)
            return optional_form(self.form(whole, path, strict=strict))
        if set(rest) == {int, str}:
            return INT_OR_STRING
        if all(is_record(arg) for arg in rest):
            tagged = Tagged.of([self.record(arg, path, strict=strict) for arg in rest], strict)
            if tagged is not None:
                return ValueForm(tagged.model, tagged.read, tagged.write)
        if not strict:
            return None
        advice = "give each choice a field of one name that is a Literal of its own"
        raise self._refused(path, "a union has no structural schema", advice)

    def _refused(self, path: str, what: str, instead: str = "") -> HintError:
        advice = f"{instead}, or " if instead else ""
        advice += f"say that it is JSON: Annotated[…, AsJSON], or dataclass_shape(…, as_json=[{path!r}])"
        return HintError(f"{self.subject}.{path}" if path else self.subject, what, advice)


def _default(field: RecordField, form: ValueForm) -> tuple[Any, bool]:
    """The default as JSON (None if a factory makes it), and whether there is one."""
    if field.default is not MISSING:
        return (None if field.default is None else form.write(field.default)), True
    factory: Callable[[], Any] = field.default_factory
    if factory is MISSING:
        return None, False
    if factory in _EMPTY or is_record(factory) or _is_struct(factory):
        return form.write(factory()), True
    return None, True


def _is_struct(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _as_hinted(default: Any, hint: Any) -> Any:
    try:
        return msgspec.convert(default, hint)
    except msgspec.ValidationError:
        return default  # reported with the hint's own words when the model is made


def _annotated(hint: Any, markers: Sequence[Any]) -> Any:
    return Annotated[(hint, *markers)] if markers else hint


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
