"""`Resource` and `Spoke`: a Model that is served, and another version of it.

Everything a class keyword can say is data and ends in a `ResourceDefinition` (`definition_of`). A mistake
in a keyword raises a `DeclarationError` at import. Imports nothing of the server, so clients can import
the classes made here. Next: `classes_conversion`, which goes from one version to another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, get_args, get_origin

from oarlock.meta.kinds import GroupVersionKind
from oarlock.schema import reflect
from oarlock.schema.declaring import KeywordError, MissingConversion, caller_place, did_you_mean
from oarlock.schema.definition import Column, Rule, Scale
from oarlock.schema.shapes import Model, ObjectMeta, field

__all__ = ["Declared", "HubT", "Resource", "ResourceFacts", "Spoke", "VersionFacts", "check_facts", "declared"]


class VersionFacts(TypedDict, total=False):
    """Class keywords that belong to one version; a spoke doesn't inherit them from its hub.

    - `columns`: what ``kubectl get`` shows; none for the default table (Name, Created At).
    - `selectable`: JSON paths of at most 8 scalar fields that field selectors may name.
    - `status_subresource`: serve ``/status``, with its own update rules.
    - `scale`: serve ``/scale``.
    - `rules`: CEL rules on the whole object; rules on a field go into its ``Annotated``.
    - `deprecated`: True for the standard warning, ``"use …"`` for the standard warning with a way out, or the warning.
    - `served`: False keeps the version readable in the store and hides it from clients.
    """

    columns: Sequence[Column]
    selectable: Sequence[str]
    status_subresource: bool
    scale: Scale
    rules: Sequence[Rule]
    deprecated: bool | str
    served: bool


class ResourceFacts(VersionFacts, total=False):
    """Class keywords of a `Resource`: those of its version, and those of the resource in all versions.

    The meaning of the last seven is `ResourceDefinition`'s. `kind` is the class's name unless given, `plural` the
    usual plural of it.
    """

    kind: str
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
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment"]
    gc_default: Literal["background", "orphan"]


@dataclass(frozen=True, slots=True)
class Declared:
    """What the class keywords of one class said. `hub` is the class itself for a Resource."""

    group: str
    version: str
    kind: str
    hub: type
    facts: ResourceFacts
    place: str

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


class Resource(Model):
    """A kind that is served, in the version that hooks see (the hub).

        class Flunder(Resource, group="wardle.example.com", version="v1", short_names=["fl"]):
            spec: FlunderSpec

    The docstring of the class is its description in OpenAPI. Keywords: `ResourceFacts`.
    """

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    def __init_subclass__(cls, *, group: str, version: str, **facts: Unpack[ResourceFacts]) -> None:
        check_facts(f"class {cls.__name__}", group, version, facts)
        _check_fields(cls)
        kind = facts.get("kind", cls.__name__)
        _keep(cls, Declared(group, version, kind, cls, facts, caller_place()))

    def default(self) -> None:
        """Fill in what the schema's defaults can't say, in this version.

        Runs on every object that comes in, after the schema's defaults and before anything else looks at it, and
        again after a patch. Pure: it may look at nothing but the object and may not wait.
        """


HubT = TypeVar("HubT", bound=Resource)


class Spoke(Model, Generic[HubT]):
    """The same kind in another version; group, names and scope are the hub's. Keywords: `VersionFacts`.

    `to_hub` and `from_hub` are pure and should lose nothing of the spoke (`oarlock.testing.assert_round_trips`).
    Metadata they don't pass on is carried over; of what they do pass on only labels and annotations count.
    """

    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    def __init_subclass__(cls, *, version: str, **facts: Unpack[VersionFacts]) -> None:
        _check_spoke_keywords(cls, facts)
        hub = _hub_of(cls)
        of = declared(hub)
        check_facts(f"class {cls.__name__}", of.group, version, ResourceFacts(**facts))
        _check_fields(cls)
        for method in ("to_hub", "from_hub"):
            if getattr(cls, method) == getattr(Spoke, method) or method not in vars(cls):
                raise MissingConversion(
                    f"class {cls.__name__}",
                    f"version {version!r} has no {method}, so it can't be converted",
                    f"write {'def to_hub(self)' if method == 'to_hub' else '@classmethod def from_hub(cls, hub)'} with the hub {hub.__name__}",
                )
        _keep(cls, Declared(of.group, version, of.kind, hub, ResourceFacts(**facts), caller_place()))

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
    """What was declared of a `Resource` or `Spoke` class; KeywordError for any other."""
    found = vars(cls).get("__declared__") if isinstance(cls, type) else None
    if not isinstance(found, Declared):
        name = getattr(cls, "__name__", repr(cls))
        raise KeywordError(name, "isn't a declared resource", "a served class is class X(Resource, group=…, version=…)")
    return found


def _check_spoke_keywords(cls: type, given: Any) -> None:
    for key in given:
        if key not in VersionFacts.__annotations__:
            of_hub = key == "group" or key in ResourceFacts.__annotations__
            hint = "a spoke has its hub's" if of_hub else did_you_mean(key, {*VersionFacts.__annotations__, "version"})
            raise KeywordError(f"class {cls.__name__}", f"unknown keyword {key!r}", hint)


def _keep(cls: Any, what: Declared) -> None:
    cls.__declared__ = what


def _hub_of(cls: type) -> Any:
    for base in cls.__dict__.get("__orig_bases__", ()):
        if get_origin(base) is Spoke:
            (hub,) = get_args(base)
            if isinstance(hub, type) and issubclass(hub, Resource):
                return hub
            raise KeywordError(
                f"class {cls.__name__}", f"{hub!r} is no hub", "write Spoke[Hub] with the Resource class itself"
            )
    raise KeywordError(f"class {cls.__name__}", "a spoke of what?", "write class X(Spoke[Hub], version=…)")


_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")


def check_facts(subject: str, group: str, version: str, facts: ResourceFacts) -> None:
    """Refuse keywords that don't exist, and values no server would take."""
    for key in facts:
        if key not in ResourceFacts.__annotations__:
            known = {*ResourceFacts.__annotations__, "group", "version"}
            raise KeywordError(subject, f"unknown keyword {key!r}", did_you_mean(key, known))

    def need(ok: bool, keyword: str, value: Any, instead: str) -> None:
        if not ok:
            raise KeywordError(subject, f"{keyword}={value!r}", instead)

    need(
        isinstance(group, str) and bool(_SUBDOMAIN.fullmatch(group)),
        "group",
        group,
        'a domain you own, such as "wardle.example.com"',
    )
    need(isinstance(version, str) and bool(_LABEL.fullmatch(version)), "version", version, 'such as "v1" or "v2beta1"')
    kind = facts.get("kind") or subject.rpartition(" ")[2]
    need(bool(_KIND.fullmatch(kind)), "kind", kind, 'CamelCase, such as "Flunder"')
    for keyword in ("plural", "singular"):
        value = facts.get(keyword)
        need(
            value is None or (isinstance(value, str) and bool(_LABEL.fullmatch(value))),
            keyword,
            value,
            "lower-case letters, digits and -",
        )
    for keyword in ("short_names", "categories", "columns", "selectable", "rules"):
        value = facts.get(keyword, ())
        need(isinstance(value, list | tuple), keyword, value, "a list")
    for keyword, hint in ResourceFacts.__annotations__.items():
        choices = _choices(hint)
        if keyword in facts and choices:
            value = facts.get(keyword)
            need(value in choices, keyword, value, "one of " + ", ".join(map(repr, choices)))


def _choices(hint: Any) -> tuple[Any, ...]:
    # the hints of this module are text (ForwardRef) at run time
    text = getattr(hint, "__forward_arg__", "")
    return tuple(re.findall(r'"([^"]+)"', text)) if text.startswith("Literal[") else ()


def _check_fields(cls: Any) -> None:
    for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        if wire in ("apiVersion", "kind"):
            raise KeywordError(f"{cls.__name__}.{name}", f"{wire!r} is said by the class itself", "remove the field")
    try:
        fields = {f.name: f for f in reflect.fields_of(cls)}
    except reflect.Unresolved:
        return
    if reflect.take_apart(fields["metadata"].hint).base is not ObjectMeta:
        raise KeywordError(f"{cls.__name__}.metadata", "metadata is an ObjectMeta", "remove the field, it is inherited")
