"""`Resource` and `Spoke`: a Model that is served, and another version of it.

All class keywords are data and end in a `ResourceDefinition` (`definition_of`). An error
in a keyword raises a `DeclarationError` at import. Imports nothing of the server, so clients can import
the classes made here. See also: `classes_conversion`, which goes from one version to another.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar, Unpack, cast

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema.cel.gate import rules_of
from oarlock.schema.definition import Rule
from oarlock.schema.structural.nodes import parse
from oarlock.schema.types import reflect
from oarlock.schema.types.declaring import (
    FieldNameError,
    KeywordError,
    MissingConversion,
    RuleError,
    caller_place,
    did_you_mean,
    type_argument,
)
from oarlock.schema.types.facts import ResourceFacts, VersionFacts, check_facts
from oarlock.schema.types.shapes import Model, ObjectMeta, field

__all__ = ["ITEMS", "REQUIRED_STATUS", "Declared", "HubT", "Resource", "Spoke", "declared", "version_name"]


ITEMS = (
    "is 'items' on the wire, and kubectl and other clients take every object with such a field for a list of objects",
    "give it another name, or put it into spec",
)
"""Why no top-level field may be called so, and what to write."""

REQUIRED_STATUS = (
    "is required, and status_subresource=True drops the status of what is created, so that nothing could be created",
    "write status: YourStatus | None = None",
)
"""Why a status with a subresource of its own needs a default, and what to write."""


def _check_rules(cls: Any, rules: Sequence[Rule]) -> None:
    """Refuse the first invalid rule of a class or its fields. Rules with unresolved hints are checked later."""
    try:
        schema = reflect.schema_of(cls)
    except reflect.Unresolved:
        return
    if rules:
        schema["x-kubernetes-validations"] = [reflect.rule_tree(rule) for rule in rules]
    for error in rules_of(schema, parse(schema))[1]:
        raise RuleError(f"class {cls.__name__}", f"{error.path}: {error.detail or error.body}")


@dataclass(frozen=True, slots=True)
class Declared:
    """The class keywords of one class. For a Resource, `hub` is the class itself."""

    group: str
    version: str
    kind: str
    hub: type
    facts: ResourceFacts
    place: str

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


def version_name(declaration: Declared, group: str) -> str:
    """What a definition of `group` calls a declared version: of another group with that in it (`VersionDefinition`)."""
    return declaration.version if declaration.group == group else f"{declaration.group}/{declaration.version}"


class Resource(Model):
    """A kind that is served, in the version that hooks see (the hub).

        class Flunder(Resource, group="wardle.example.com", version="v1", short_names=["fl"]):
            spec: FlunderSpec

    The docstring of the class is its description in OpenAPI. Keywords: `ResourceFacts`.
    """

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    def __init_subclass__(cls, *, group: str, version: str, **facts: Unpack[ResourceFacts]) -> None:
        kind = facts.get("kind", cls.__name__)
        check_facts(f"class {cls.__name__}", {"group": group, "version": version, "kind": kind}, facts)
        _check_fields(cls, facts)
        _check_rules(cls, facts.get("rules", ()))
        _keep(cls, Declared(group, version, kind, cls, facts, caller_place()))

    def default(self) -> None:
        """Set defaults in this version that the schema can't express, e.g. ones that depend on other fields.

        Runs on the object of every write, after the schema's defaults and before everything else, and again after a
        patch. Must be pure: it may only use the object, and may not wait.
        """


_ONLY_RESOURCES = (
    "write Spoke[Hub] with the Resource class itself; types made elsewhere have one version, and two Resource classes "
    "that convert by them have two"
)

HubT = TypeVar("HubT", bound=Resource)


class Spoke(Model, Generic[HubT]):
    """Another version of the same kind. Names and scope are the hub's. Keywords: `VersionFacts`.

    With `group`, it is served in this group, the hub in its own: the same objects are in both, stored once, at the
    hub's keys. Without, its group is the hub's.

    `to_hub` and `from_hub` are pure and should preserve all fields of the spoke (`oarlock.testing.assert_round_trips`).
    Metadata that they don't set is carried over; of metadata that they set, only labels and annotations are used.
    """

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    def __class_getitem__(cls, hub: Any) -> Any:
        # ``Spoke[…]`` of an object would be a TypeError of the library's while it makes the class
        fits = hub if isinstance(hub, type | TypeVar | str) else _checked_hub(cls, hub)
        return super().__class_getitem__(fits)  # type: ignore[misc]  # that of Generic

    def __init_subclass__(cls, *, version: str, group: str | None = None, **facts: Unpack[VersionFacts]) -> None:
        _check_spoke_keywords(cls, facts)
        hub = _hub_of(cls)
        of = declared(hub)
        group = of.group if group is None else group
        check_facts(f"class {cls.__name__}", {"group": group, "version": version}, facts)
        _check_fields(cls, facts)
        _check_conversion(cls, hub, version)
        _check_rules(cls, facts.get("rules", ()))
        _keep(cls, Declared(group, version, of.kind, hub, cast(ResourceFacts, facts), caller_place()))

    def to_hub(self) -> HubT:
        """This object in the hub version."""
        raise AssertionError("checked when the class was made")

    @classmethod
    def from_hub(cls, hub: HubT) -> Self:
        """A hub object in this version."""
        raise AssertionError("checked when the class was made")

    def default(self) -> None:
        """As `Resource.default`, in this version."""


def declared(cls: Any) -> Declared:
    """The declaration of a `Resource` or `Spoke` class; KeywordError for any other."""
    declaration = vars(cls).get("__declared__") if isinstance(cls, type) else None
    if not isinstance(declaration, Declared):
        name = getattr(cls, "__name__", repr(cls))
        raise KeywordError(name, "isn't a declared resource", "a served class is class X(Resource, group=…, version=…)")
    return declaration


def _check_spoke_keywords(cls: type, keywords: Any) -> None:
    for key in keywords:
        if key not in VersionFacts.__annotations__:
            own = {*VersionFacts.__annotations__, "version", "group"}
            hint = "a spoke has its hub's" if key in ResourceFacts.__annotations__ else did_you_mean(key, own)
            raise KeywordError(f"class {cls.__name__}", f"unknown keyword {key!r}", hint)


def _check_conversion(cls: Any, hub: type, version: str) -> None:
    signatures = {
        "to_hub": f"def to_hub(self) -> {hub.__name__}",
        "from_hub": f"@classmethod def from_hub(cls, hub: {hub.__name__}) -> Self",
    }
    for method, signature in signatures.items():
        attribute = inspect.getattr_static(cls, method)
        if attribute is inspect.getattr_static(Spoke, method):
            what = f"version {version!r} has no {method}, so it can't be converted"
            raise MissingConversion(f"class {cls.__name__}", what, f"write {signature}")
        if isinstance(attribute, classmethod) != (method == "from_hub") or inspect.iscoroutinefunction(
            getattr(cls, method)
        ):
            what = "is a method of the object" if method == "to_hub" else "is a class method"
            raise MissingConversion(f"{cls.__name__}.{method}", f"{what}, and may not wait", f"write {signature}")


def _keep(cls: Any, what: Declared) -> None:
    cls.__declared__ = what


def _hub_of(cls: type) -> Any:
    hub = type_argument(cls, Spoke)
    if hub is None:
        raise KeywordError(f"class {cls.__name__}", "a spoke of what?", "write class X(Spoke[Hub], version=…)")
    return _checked_hub(cls, hub)


def _checked_hub(cls: type, hub: Any) -> Any:
    if not (isinstance(hub, type) and issubclass(hub, Resource)):
        what = f"{getattr(hub, '__name__', repr(hub))} is no hub"
        raise KeywordError(f"class {cls.__name__}", what, _ONLY_RESOURCES)
    return hub


def _check_fields(cls: Any, facts: VersionFacts) -> None:
    for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        if wire in ("apiVersion", "kind"):
            raise KeywordError(f"{cls.__name__}.{name}", f"{wire!r} is said by the class itself", "remove the field")
        if wire == "items":
            raise FieldNameError(f"{cls.__name__}.{name}", *ITEMS)
    try:
        fields = {f.name: f for f in reflect.fields_of(cls)}
    except reflect.Unresolved:
        return
    if facts.get("status_subresource") and "status" in fields and fields["status"].required:
        raise KeywordError(f"{cls.__name__}.status", *REQUIRED_STATUS)
    if reflect.take_apart(fields["metadata"].hint).base is not ObjectMeta:
        raise KeywordError(f"{cls.__name__}.metadata", "metadata is an ObjectMeta", "remove the field, it is inherited")
