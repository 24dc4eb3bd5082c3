"""`Model`: the base class for users' types, and ObjectMeta.

A class becomes a msgspec Struct with keyword-only fields, camelCase names on the wire, and defaults that
are always written (``None``, ``[]`` and ``{}`` are left out). Type checkers see a dataclass instead: a
visible metaclass would keep them from checking any class keyword.
Must not know: groups, versions, conversion (`resources`), how a schema is made (`reflect`).
"""

from __future__ import annotations

import copy
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_origin,
    overload,
)

import msgspec
from msgspec import NODEFAULT

from oarlock.meta.context import Clock
from oarlock.schema.types import reflect
from oarlock.schema.types.choices import choice_type
from oarlock.schema.types.declaring import (
    PYDANTIC_FIELD,
    DeclarationError,
    FieldNameError,
    HintError,
    KeywordError,
    caller_place,
    did_you_mean,
    is_pydantic_field,
)
from oarlock.schema.types.markers import Ge, MaxLength, MinLength, Name, OmitEmpty, Pattern
from oarlock.schema.types.reflect import Unresolved, fields_of, take_apart


def with_choices(hint: Any) -> Any:
    """The hint, with what stands for each union of Models; the same hint if it has none."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        inner = with_choices(hint.__origin__)
        return hint if inner is hint.__origin__ else Annotated[(inner, *hint.__metadata__)]
    if origin in (list, dict) and args:
        changed = [with_choices(arg) for arg in args]
        return hint if all(a is b for a, b in zip(args, changed, strict=True)) else origin[tuple(changed)]
    if origin not in (Union, types.UnionType):
        return hint
    rest = [arg for arg in args if arg is not type(None)]
    made = _of_models(rest) if len(rest) > 1 else with_choices(rest[0])
    if made is None or made is rest[0]:
        return hint
    return Union[made, None] if len(rest) < len(args) else made  # noqa: UP007  (made at run time)


def _of_models(choices: Sequence[Any]) -> Any:
    """What stands for a union of these; None if they aren't Models, or nothing tells them apart."""
    if not all(isinstance(cls, type) and issubclass(cls, msgspec.Struct) for cls in choices):
        return None
    try:
        fields = [{f.wire: take_apart(f.hint).base for f in fields_of(cls)} for cls in choices]
    except Unresolved:
        return None
    for wire in fields[0]:
        values = [_literals(of_class.get(wire)) for of_class in fields]
        every = [value for some in values for value in some]
        if all(values) and len({*every}) == len(every):
            return choice_type(wire, {v: cls for cls, some in zip(choices, values, strict=True) for v in some})
    return None


def _literals(hint: Any) -> Sequence[str]:
    if typing.get_origin(hint) is not Literal:
        return ()
    values = typing.get_args(hint)
    return values if all(isinstance(value, str) for value in values) else ()


if sys.version_info >= (3, 14):
    import annotationlib

T = TypeVar("T")

_FIELD_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*_?")
_VALUES = (str, bytes, int, float, list, dict, set, tuple)


class _Field:
    """The arguments of `field`, until the metaclass reads them."""

    __slots__ = ("default", "default_factory", "name")

    def __init__(self, default: Any, default_factory: Any, name: str | None) -> None:
        self.default = default
        self.default_factory = default_factory
        self.name = name


@overload
def field(*, default: T, name: str | None = None) -> T: ...
@overload
def field(*, default_factory: Callable[[], T], name: str | None = None) -> T: ...
@overload
def field(*, name: str | None = None) -> Any: ...
def field(*, default: Any = NODEFAULT, default_factory: Any = NODEFAULT, name: str | None = None) -> Any:
    """A field with a default factory, or with its own name on the wire."""
    return _Field(default, default_factory, name)


class _Scope(dict[str, Any]):
    """The namespace in which a string hint is evaluated; undefined names become placeholders."""

    def __init__(self, local: dict[str, Any], module: dict[str, Any]) -> None:
        super().__init__(local)
        self.module = module
        self.guessed = False

    def __missing__(self, key: str) -> Any:
        if key in self.module:
            return self.module[key]
        builtins = self.module.get("__builtins__", {})
        value = builtins.get(key, NODEFAULT) if isinstance(builtins, dict) else getattr(builtins, key, NODEFAULT)
        if value is not NODEFAULT:
            return value
        self.guessed = True
        return _Later()


class _Later:
    """The placeholder for an undefined name: supports all operations of a hint."""

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __getitem__ = __or__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self) -> None: ...


class _Meta(msgspec.StructMeta):
    """The metaclass that makes a Struct of a user's class; hidden from type checkers."""

    def __new__(mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], **keywords: Any) -> Any:
        hook = ns.pop("__init_subclass__", None)
        if hook is not None:
            # Struct would call it before the fields are set, and without the keywords
            ns["__declare__"] = classmethod(hook)
        hints = _with_choices(_evaluated(ns, name), ns)
        _check_values(name, hints, ns)
        names = _wire_names(name, hints, ns)
        _check_taken(name, names, bases)
        ns["__defaults__"] = defaults = _own_defaults(name, hints, ns)
        try:
            cls = super().__new__(mcls, name, bases, ns, kw_only=True, omit_defaults=True, rename=names)
        except (ValueError, TypeError) as error:
            raise DeclarationError(f"class {name}", str(error)) from error
        struct: Any = cls
        struct.__place__ = caller_place()
        struct.__defaults__ = {k: v for k, v in _inherited(bases).items() if k not in hints} | defaults
        reflect.check_fields(cls)
        declare = getattr(super(cls, cls), "__declare__", None)
        if declare is not None:
            _bound(name, declare, keywords)
            declare(**keywords)
        elif keywords:
            raise KeywordError(
                f"class {name}", f"a Model takes no keyword {next(iter(keywords))!r}", "only a Resource does"
            )
        return cls

    def __init__(cls, *args: Any, **keywords: Any) -> None:
        super().__init__(*args)


def _bound(name: str, declare: Any, keywords: dict[str, Any]) -> None:
    """Raise a declaration error for a missing or unknown keyword."""
    parameters = inspect.signature(declare).parameters
    others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for keyword, parameter in parameters.items():
        if (
            parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and keyword not in keywords
        ):
            raise KeywordError(
                f"class {name}", f"the keyword {keyword!r} is missing", f"write class {name}(…, {keyword}=…)"
            )
    for keyword in keywords:
        if keyword not in parameters and not others:
            raise KeywordError(f"class {name}", f"unknown keyword {keyword!r}", did_you_mean(keyword, parameters))


def _inherited(bases: tuple[type, ...]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for base in reversed(bases):
        merged.update(getattr(base, "__defaults__", {}))
    return merged


def _evaluated(ns: dict[str, Any], name: str) -> dict[str, Any]:
    """The hints of the class body, evaluated where possible.

    Works for classes in functions too: names are looked up where the class statement is.
    A hint with an undefined name stays text, and is resolved on first use.
    """
    hints = _own_hints(ns)
    evaluated = dict(hints)
    if not any(isinstance(hint, str) for hint in hints.values()):
        return evaluated
    frame = sys._getframe(2)
    scope = _Scope({**frame.f_locals, **{k: v for k, v in ns.items() if k not in hints}}, frame.f_globals)
    for key, hint in hints.items():
        if not isinstance(hint, str):
            continue
        scope.guessed = False
        try:
            evaluated[key] = eval(hint, {"__builtins__": {}}, scope)
        except Exception as error:
            raise HintError(f"{name}.{key}", f"the hint {hint!r} can't be evaluated: {error}") from error
        if not scope.guessed:
            hints[key] = evaluated[key]
    return evaluated


def _with_choices(hints: dict[str, Any], ns: dict[str, Any]) -> dict[str, Any]:
    """The hints with what stands for unions of Models, in the namespace too."""
    own = ns.get("__annotations__", {})
    changed = dict(hints)
    for key, hint in hints.items():
        if isinstance(own.get(key), str):
            continue  # it is resolved later
        changed[key] = with_choices(hint)
        if changed[key] is not hint:
            own[key] = changed[key]
    return changed


def _own_hints(ns: dict[str, Any]) -> dict[str, Any]:
    """The annotations of the class body, kept in the namespace: they are there before the class is.

    Since Python 3.14 (PEP 649) they are a function there. If a name in them isn't defined yet, all are text, as
    ``from __future__ import annotations`` makes them.
    """
    if sys.version_info >= (3, 14) and "__annotations__" not in ns:
        annotate = annotationlib.get_annotate_from_class_namespace(ns)
        if annotate is not None:
            try:
                hints = annotationlib.call_annotate_function(annotate, annotationlib.Format.VALUE)
            except NameError:
                hints = annotationlib.call_annotate_function(annotate, annotationlib.Format.STRING)
            ns["__annotations__"] = dict(hints)
    own: dict[str, Any] = ns.get("__annotations__", {})
    return own


def _wire_names(cls: str, hints: dict[str, Any], ns: dict[str, Any]) -> dict[str, str]:
    """Python name → wire name, for the fields of this class body."""
    names: dict[str, str] = {}
    for key, hint in hints.items():
        if key.startswith("__") or get_origin(hint) is ClassVar or hint is ClassVar:
            continue
        marker = next((m.name for m in getattr(hint, "__metadata__", ()) if isinstance(m, Name)), None)
        if isinstance(ns.get(key), _Field):
            marker = ns[key].name or marker
        if marker is None and not _FIELD_NAME.fullmatch(key):
            snake = re.sub(r"(?<=[a-z0-9])([A-Z]+)", r"_\1", key).lower().strip("_")
            raise FieldNameError(
                f"{cls}.{key}",
                "no name on the wire can be made of this",
                f'write {snake}: Annotated[…, Name("{key}")]',
            )
        names[key] = marker or camel(key)
    return names


def _check_values(cls: str, hints: dict[str, Any], ns: dict[str, Any]) -> None:
    """A plain value in the class body is meant as a field: it needs a hint, and a default that is one."""
    for key, value in ns.items():
        kind = type(value)
        if key in hints and is_pydantic_field(value):
            raise HintError(f"{cls}.{key}", "pydantic.Field is no default here", PYDANTIC_FIELD)
        if key not in hints and not key.startswith("_") and isinstance(value, _VALUES):
            instead = f"write {key}: {kind.__name__} = {value!r:.40}, or {key}: ClassVar = … for what is no field"
            raise FieldNameError(f"{cls}.{key}", "a value without a hint is no field", instead)


def _check_taken(cls: str, names: dict[str, str], bases: tuple[type, ...]) -> None:
    """No two fields, inherited ones included, may share a wire name."""
    attributes: dict[str, str] = {}
    for base in bases:
        for key, wire in zip(
            getattr(base, "__struct_fields__", ()), getattr(base, "__struct_encode_fields__", ()), strict=True
        ):
            if key not in names:
                attributes[wire] = key
    for key, wire in names.items():
        if wire in attributes:
            what = f"is {wire!r} on the wire, as {attributes[wire]!r} is"
            raise FieldNameError(f"{cls}.{key}", what, "give one another Name")
        attributes[wire] = key


def is_snake_case(name: str) -> bool:
    """Whether a wire name can be derived from this Python name."""
    return _FIELD_NAME.fullmatch(name) is not None


def camel(name: str) -> str:
    """``pod_cidr`` → ``podCidr``, ``from_`` → ``from``."""
    head, *rest = name.removesuffix("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _own_defaults(cls: str, hints: dict[str, Any], ns: dict[str, Any]) -> dict[str, Any]:
    """Use factories where Struct would compare by identity; returns the defaults as written.

    Struct omits a field when its value *is* the default, so a parsed 100000 would be written and a literal
    one wouldn't. A value made by a factory is always written, except an empty list or dict.
    """
    defaults: dict[str, Any] = {}
    for key, hint in hints.items():
        if key not in ns or get_origin(hint) is ClassVar:
            continue
        value = ns[key]
        if isinstance(value, _Field):
            if value.default_factory is not NODEFAULT:
                value = _made(cls, key, value.default_factory)
            elif value.default is not NODEFAULT:
                value = value.default
            else:
                del ns[key]
                continue
        defaults[key] = value
        if value is None or (isinstance(value, list | dict) and not value):
            ns[key] = value
        elif OmitEmpty in getattr(hint, "__metadata__", ()):
            ns[key] = _zero(cls, key, value)
        else:
            ns[key] = msgspec.field(default_factory=_fresh(value))
    return defaults


def _made(cls: str, key: str, factory: Any) -> Any:
    if factory in (list, dict) or isinstance(factory, _Meta):
        return factory()
    what = getattr(factory, "__name__", factory)
    raise HintError(f"{cls}.{key}", f"the default is made by {what}, so the schema can't name it", "a default is data")


def _zero(cls: str, key: str, value: Any) -> Any:
    if value or not isinstance(value, str | int | float | bytes):
        raise HintError(f"{cls}.{key}", f"OmitEmpty with the default {value!r}", "its default is the zero value")
    return value


def _fresh(value: Any) -> Callable[[], Any]:
    if isinstance(value, str | int | float | bool | bytes | datetime):
        return itertools.repeat(value).__next__
    kind = type(value)
    if isinstance(kind, _Meta) and not any(f.required for f in msgspec.structs.fields(kind)) and value == kind():
        return kind
    return lambda: copy.deepcopy(value)


if TYPE_CHECKING:

    @dataclass_transform(kw_only_default=True, field_specifiers=(field,))
    class Model:
        """A JSON object with named, typed fields: a part of a `Resource`.

        Fields are keyword-only. Their defaults say what is published and written (see `field`):
        ``X | None = None`` is absent, ``X | None`` required and nullable, ``[]`` and ``{}`` absent when empty,
        and every other default is an API default.
        """

        def __init_subclass__(cls) -> None: ...

else:
    Model = _Meta(
        "Model",
        (msgspec.Struct,),
        {"__module__": __name__, "__qualname__": "Model", "__doc__": "A JSON object with named, typed fields."},
    )

ModelT = TypeVar("ModelT", bound=Model)


def replace(model: ModelT, /, **changes: Any) -> ModelT:
    """A copy of `model` with some fields changed. TypeError for an unknown field."""
    changed: ModelT = msgspec.structs.replace(model, **changes)  # type: ignore[type-var]
    return changed


class OwnerReference(Model):
    """An owner of an object. The object is deleted with its last owner. Source: meta/v1 OwnerReference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    """The metadata of an object. Fields without an attribute (managedFields) are kept. Source: meta/v1 ObjectMeta.

    `field_owners` is for virtual collections only: ``managedFields`` as a text. A collection that stores it with the
    object supports server-side apply with owners of fields. Clients never see it.
    """

    name: Annotated[str, OmitEmpty] = ""
    generate_name: Annotated[str, OmitEmpty] = ""
    namespace: Annotated[str, OmitEmpty] = ""
    uid: Annotated[str, OmitEmpty] = ""
    resource_version: Annotated[str, OmitEmpty] = ""
    generation: Annotated[int, OmitEmpty] = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: list[OwnerReference] = field(default_factory=list)
    finalizers: list[str] = field(default_factory=list)
    field_owners: Annotated[str, OmitEmpty] = ""


class Condition(Model):
    """One aspect of an object's state: `status` is ``True``, ``False`` or ``Unknown``, with a reason and a message."""

    type: Annotated[
        str,
        MaxLength(316),
        Pattern(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    ]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, MinLength(1), MaxLength(1024), Pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, MaxLength(32768)] = ""
    last_transition_time: datetime | None = None
    observed_generation: Annotated[int | None, Ge(0)] = None


def set_condition(conditions: list[Condition], condition: Condition, clock: Clock) -> bool:
    """Replace the condition of this type, or append `condition`. Returns whether anything has changed.

    Unless `condition` has a `last_transition_time`, it is that of the replaced condition if the status is the same, and
    otherwise the time of `clock`, in whole seconds. The list is changed in place. Its conditions aren't, because an
    informer's objects are shared.
    """
    before = find_condition(conditions, condition.type)
    since = None if before is None else before.last_transition_time
    if before is None or before.status != condition.status:
        since = condition.last_transition_time or datetime.fromtimestamp(int(clock.now()), UTC)
    after = replace(condition, last_transition_time=since)
    if before is None:
        conditions.append(after)
    elif after != before:
        conditions[:] = [after if condition is before else condition for condition in conditions]
    return after != before


def find_condition(conditions: Sequence[Condition], type: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_condition_true(conditions: Sequence[Condition], type: str) -> bool:
    """Whether there is a condition of this type with the status ``True``."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"


def remove_condition(conditions: list[Condition], type: str) -> bool:
    """Remove the condition of this type from the list. Returns whether there was one."""
    kept = [condition for condition in conditions if condition.type != type]
    removed = len(kept) < len(conditions)
    conditions[:] = kept
    return removed
