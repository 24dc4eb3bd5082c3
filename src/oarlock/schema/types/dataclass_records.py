"""Reads objects of dataclasses from JSON and writes them: of one dataclass, or of a tagged union of several.

Each has a Model with the same fields, from which the schema is made. attrs is never imported: a class that it made
brings it along. See also: `foreign.dataclasses`, which reads the type hints.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from oarlock.meta.dataclass import dataclass
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required, WrongType
from oarlock.meta.json_trees import Tree
from oarlock.schema.types import reflect
from oarlock.schema.types.markers import AsJSON, Name
from oarlock.schema.types.shapes import Model
from oarlock.schema.types.value_forms import ValueForm
from oarlock.schema.validation.findings import Where, render

MISSING = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field: its attribute, its argument, and how its default is made, `MISSING` for what there is not."""

    name: str
    argument: str
    default: Any
    default_factory: Callable[[], Any] | Any


def is_attrs(cls: Any) -> bool:
    """Whether attrs made this class."""
    return isinstance(cls, type) and "__attrs_attrs__" in vars(cls)


def is_record(cls: Any) -> bool:
    """Whether it is a dataclass or an attrs class."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or is_attrs(cls))


def record_fields(cls: Any) -> Sequence[RecordField]:
    """The fields that are given when an object is made; the class makes the others itself."""
    if is_attrs(cls):
        return [_of_attrs(attribute) for attribute in cls.__attrs_attrs__ if attribute.init]
    return [
        RecordField(field.name, field.name, field.default, field.default_factory)
        for field in dataclasses.fields(cls)
        if field.init
    ]


def _of_attrs(attribute: Any) -> RecordField:
    attrs: Any = sys.modules["attr"]
    default: Any = attribute.default
    factory: Any = MISSING
    if default is attrs.NOTHING:
        default = MISSING
    elif isinstance(default, attrs.Factory):
        factory = _needs_the_object if default.takes_self else default.factory
        default = MISSING
    return RecordField(attribute.name, attribute.alias, default, factory)


def _needs_the_object() -> Any:
    raise AssertionError("such a default is made by the class itself")


@dataclass(slots=True)
class DataField:
    """A field of a dataclass. `optional`: it has a default. `empty`: an empty value is left out.

    `argument` is what it is called when an object is made.
    """

    name: str
    argument: str
    wire: str
    form: ValueForm
    optional: bool
    empty: bool


class Record:
    """Reads and writes objects of one dataclass; `model` has its fields, for the schema."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.fields: list[DataField] = []
        self.model: Any = None

    def read(self, value: Any, where: Where, errors: list[FieldError]) -> Any:
        if type(value) is not dict:
            errors.append(WrongType(render(where), "an object", value))
            return None
        before, arguments = len(errors), {}
        for field in self.fields:
            item = value.get(field.wire)
            if field.wire in value and not (item is None and field.optional and not field.form.null):
                arguments[field.argument] = field.form.read(item, (where, field.wire), errors)
            elif not field.optional:
                errors.append(Required(render((where, field.wire))))
        if len(errors) > before:
            return None
        try:
            return self.cls(**arguments)
        except (ValueError, AssertionError) as error:
            errors.append(Invalid(render(where) or "<nil>", "object", _why(error)))
        except TypeError as error:
            if not is_attrs(self.cls):
                raise
            errors.append(Invalid(render(where) or "<nil>", "object", str(error.args[0] if error.args else error)))

    def write(self, value: Any) -> Tree:
        if not isinstance(value, self.cls):
            raise TypeError(f"expected a {self.cls.__qualname__}, got {value!r:.200}")
        tree: Tree = {}
        for field in self.fields:
            item = field.form.write(getattr(value, field.name))
            if not field.optional or not (item is None or (field.empty and item in ([], {}))):
                tree[field.wire] = item
        return tree


def _why(error: Exception) -> str:
    """The messages of an error in ``__post_init__``; a pydantic dataclass may have several."""
    listed: Any = getattr(error, "errors", None)
    return "; ".join(problem["msg"] for problem in listed()) if callable(listed) else str(error)


class Tagged:
    """A union of dataclasses, told apart by a field that has another literal value in each."""

    def __init__(self, tag: str, choices: dict[Any, Record]) -> None:
        self.tag = tag
        self.choices = choices
        self.model: Any = None

    @classmethod
    def of(cls, records: list[Record], strict: bool) -> Tagged | None:
        for field in records[0].fields:
            choices: dict[Any, Record] = {}
            for record in records:
                same = next((known for known in record.fields if known.wire == field.wire), None)
                base = None if same is None else reflect.take_apart(same.form.hint).base
                for value in get_args(base) if get_origin(base) is Literal else (choices,):
                    if not isinstance(value, str | int) or value in choices:
                        break
                    choices[value] = record
            if set(map(id, choices.values())) == set(map(id, records)):
                tagged = cls(field.wire, choices)
                tagged.model = _merged(records, field.wire, choices) if strict else None
                return tagged
        return None

    def read(self, value: Any, where: Where, errors: list[FieldError]) -> Any:
        if type(value) is not dict:
            errors.append(WrongType(render(where), "an object", value))
            return None
        tag = value.get(self.tag)
        if self.tag not in value:
            errors.append(Required(render((where, self.tag))))
        elif not isinstance(tag, str | int) or tag not in self.choices:
            errors.append(NotSupported(render((where, self.tag)), tag, [str(choice) for choice in self.choices]))
        else:
            return self.choices[tag].read(value, where, errors)
        return None

    def write(self, value: Any) -> Tree:
        for record in self.choices.values():
            if type(value) is record.cls:
                return {**record.write(value), self.tag: getattr(value, self._attribute(record))}
        raise TypeError(f"expected one of several dataclasses, got {value!r:.200}")

    def _attribute(self, record: Record) -> str:
        return next(field.name for field in record.fields if field.wire == self.tag)


def _merged(records: list[Record], tag: str, choices: dict[Any, Record]) -> Any:
    """A Model with the fields of all choices. Which of them go together is checked when an object is read."""
    hints: dict[str, Any] = {}
    for record in records:
        for field in record.fields:
            earlier = hints.setdefault(field.wire, field.form.hint)
            if earlier != field.form.hint:
                hints[field.wire] = Annotated[Any, AsJSON]
    hints[tag] = Literal[tuple(choices)]
    annotations: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for i, (wire, hint) in enumerate(hints.items()):
        needed = wire == tag or all(any(f.wire == wire and not f.optional for f in r.fields) for r in records)
        annotations[f"f{i}"] = Annotated[hint if needed else Union[hint, None], Name(wire)]  # noqa: UP007
        if not needed:
            defaults[f"f{i}"] = None
    return model_of(records[0].cls, annotations, defaults, doc=None)


def model_of(cls: Any, annotations: dict[str, Any], defaults: dict[str, Any], doc: Any = ...) -> Any:
    text = cls.__doc__ or ""
    # a dataclass without a docstring gets its signature for one, which describes nothing
    own = None if text.startswith(cls.__name__ + "(") else text
    namespace = {
        "__module__": cls.__module__,
        "__doc__": own if doc is ... else doc,
        "__annotations__": annotations,
        **defaults,
    }
    make: Any = type(Model)
    return make(cls.__name__, (Model,), namespace)
