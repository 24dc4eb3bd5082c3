"""`Resource` and `Spoke`: a Model that is served, and another version of it.

All class keywords are data and end in a `ResourceDefinition` (`definition_of`). An error
in a keyword raises a `DeclarationError` at import. Imports nothing of the server, so clients can import
the classes made here. See also: `classes_conversion`, which goes from one version to another.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Sequence
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import BUILT_IN_GROUPS, GroupVersionKind
from oarlock.schema.cel.gate import rules_of
from oarlock.schema.definition import Column, DefaultRoles, Rule, Scale
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
from oarlock.schema.types.shapes import Model, ObjectMeta, field


class VersionFacts(TypedDict, total=False):
    """Class keywords that belong to one version; a spoke doesn't inherit them from its hub.

    - `columns`: what ``kubectl get`` shows; name and age unless given.
    - `selectable`: JSON paths of at most 8 scalar fields that field selectors may name.
    - `status_subresource`: serve ``/status``, with its own update rules.
    - `scale`: serve ``/scale``.
    - `rules`: CEL rules on the whole object; write rules on a field in its ``Annotated``.
    - `deprecated`: True for the standard warning, ``"use …"`` for the standard warning with this hint, or the text.
    - `served`: False keeps the version readable in the store and hides it from clients.
    - `openapi`: keys of the schema of the whole object that no other keyword says, as the marker `OpenAPI`.
    """

    columns: Sequence[Column]
    selectable: Sequence[str]
    status_subresource: bool
    scale: Scale
    rules: Sequence[Rule]
    deprecated: bool | str
    served: bool
    openapi: dict[str, Any]


class CommonFacts(VersionFacts, total=False):
    """Class keywords for a resource in all its versions. `ResourceDefinition` describes the last twelve.

    `plural` and `singular` are derived from the kind unless given.
    """

    plural: str
    singular: str
    scope: Literal["Namespaced", "Cluster"]
    short_names: Sequence[str]
    categories: Sequence[str]
    generation: bool
    unconditional_update: bool
    create_on_update: bool
    delete_returns: Literal["status", "object"]
    ttl_s: int
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment", "none"]
    gc_default: Literal["background", "orphan"]
    finalizers_at: str
    cleanup_finalizer: str
    initializers: Sequence[str]
    rbac: DefaultRoles
    delete_collection: bool


class ResourceFacts(CommonFacts, total=False):
    """Class keywords of a `Resource`, besides `group` and `version`. `kind` is the class's name unless given."""

    kind: str


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_INITIALIZER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")

_NAMES = {
    "group": (_SUBDOMAIN, 'a domain you own, such as "wardle.example.com"'),
    "version": (_LABEL, 'such as "v1" or "v2beta1"'),
    "kind": (_KIND, 'CamelCase, such as "Flunder"'),
    "plural": (_LABEL, "lower-case letters, digits and -"),
    "singular": (_LABEL, "lower-case letters, digits and -"),
}


def check_facts(subject: str, named: dict[str, Any], facts: Any) -> None:
    """Refuse unknown keywords and invalid values. `named` are group, version and kind."""
    hints = get_type_hints(ResourceFacts)
    for keyword, value in facts.items():
        if keyword not in hints:
            raise KeywordError(
                subject, f"unknown keyword {keyword!r}", did_you_mean(keyword, {*hints, "group", "version"})
            )
        mismatch = _expected_type(value, hints[keyword])
        if mismatch:
            raise KeywordError(subject, f"{keyword}={value!r}", mismatch)
    for keyword, value in {**facts, **named}.items():
        if keyword in _NAMES and not (keyword == "group" and value in BUILT_IN_GROUPS):
            pattern, instead = _NAMES[keyword]
            if not (isinstance(value, str) and pattern.fullmatch(value)):
                raise KeywordError(subject, f"{keyword}={value!r}", instead)
    for keyword in ("short_names", "categories"):
        values = facts.get(keyword, ())
        for name in values:
            if not _LABEL.fullmatch(name):
                raise KeywordError(subject, f"{keyword}={list(values)!r}: {name!r}", "lower-case letters, digits and -")
            if values.count(name) > 1:
                raise KeywordError(subject, f"{keyword}={list(values)!r}: {name!r} is there twice")
    initializers = facts.get("initializers", ())
    for name in initializers:
        if not _INITIALIZER.fullmatch(name) or len(name) > 63:
            advice = 'your domain and what for, such as "prices.shop.example.com"'
            raise KeywordError(subject, f"initializers={list(initializers)!r}: {name!r}", advice)
        if initializers.count(name) > 1:
            raise KeywordError(subject, f"initializers={list(initializers)!r}: {name!r} is there twice")
    if facts.get("ttl_s", 1) <= 0:
        raise KeywordError(subject, f"ttl_s={facts['ttl_s']!r}", "seconds, more than 0")


def _expected_type(value: Any, hint: Any) -> str:
    """The description of a valid value if `value` is invalid; empty if it is valid."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is dict:
        return "" if isinstance(value, dict) else "a dict"
    if origin is Literal:
        return "" if value in args else "one of " + ", ".join(map(repr, args))
    if origin in (Union, types.UnionType):
        return (
            "" if any(not _expected_type(value, arg) for arg in args) else "a " + " or ".join(a.__name__ for a in args)
        )
    if origin is Sequence:
        fits = isinstance(value, list | tuple) and all(isinstance(item, args[0]) for item in value)
        return "" if fits else f"a list of {args[0].__name__}"
    return "" if type(value) is hint else f"{'an' if hint is int else 'a'} {hint.__name__}"


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
        """Set defaults of this version that the schema can't express, such as those that depend on other fields.

        Runs for every write, after the schema's defaults and before everything else, and again after mutating
        admission. It changes the object in place and may use nothing else. It may not wait, nor change name, namespace
        or uid.
        """


_ONLY_RESOURCES = (
    "write Spoke[Hub] with the Resource class itself; another version of a Foreign type is its .spoke(…), and two "
    "Resource classes that convert by them have two"
)

HubT = TypeVar("HubT", bound=Resource)


class Spoke(Model, Generic[HubT]):
    """Another version of the same kind. Its names and scope are the hub's. Keywords: `VersionFacts`.

    With `group` it is served in this group: the same objects are in both groups, stored once, at the hub's keys.
    Without it, its group is the hub's.

    `to_hub` and `from_hub` are pure. They should preserve all fields of the spoke
    (`oarlock.testing.assert_round_trips`). Metadata that they don't set is carried over; of metadata that they set,
    only labels and annotations are used.
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
        """This object in the hub version. May be called in a worker thread.

        Raise a `StatusError` or a field error to reject what the client sent.
        """
        raise AssertionError("checked when the class was made")

    @classmethod
    def from_hub(cls, hub: HubT) -> Self:
        """A hub object in this version. May be called in a worker thread."""
        raise AssertionError("checked when the class was made")

    def default(self) -> None:
        """As `Resource.default`, in this version."""


def declared(cls: Any) -> Declared:
    """The declaration of a `Resource` or `Spoke` class. Raises KeywordError for any other object."""
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
