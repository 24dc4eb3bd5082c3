"""`ResourceDefinition`: everything that defines a resource, as pure data.

It has all of a CustomResourceDefinition, and options that a CRD doesn't have (whether a PUT without
resourceVersion overwrites, what DELETE returns, how names are validated…). It is printable, comparable
and holds no callables. Classes, CRD-shaped dicts and tests produce definitions;
`registry` and `endpoints` accept nothing else (wrapped as ``registry.served.Served``).
Must not know: classes, hooks, storage, HTTP. See also: `crd` for reading and printing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion, GroupVersionKind, version_priority

Schema = dict[str, Any]
"""A structural OpenAPI v3 schema, as a CRD's ``openAPIV3Schema``, with ``x-kubernetes-*`` and ``x-oarlock-*`` keys."""

RowCells = Callable[[Tree, float], list[Any]]
"""The cells of an object's row in a Table, at a time in seconds."""


@lru_cache(maxsize=1024)
def _group_version(group: str, version: str) -> GroupVersion:
    """A version of a resource of `group`; one that belongs to another group has it in its name, even the core one."""
    other, slash, name = version.rpartition("/")
    return GroupVersion(other, name) if slash else GroupVersion(group, version)


@lru_cache(maxsize=1024)
def _api_version(group: str, version: str) -> str:
    return str(_group_version(group, version))


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of ``kubectl get``.

    - `json_path` is a simple JSONPath from the object's root (``.spec.replicas``). Instead, `expression` computes the
      cell in CEL from the object, ``self``: ``size(self.data)``. A CRD can't express this.
    - A column called Name at ``.metadata.name`` replaces the first column, which every resource has.
    - `type` is integer, number, string, boolean or date. A date is shown as an age (``5m``), or with `relative=False`
      as a time, which a CRD can't express. An ``age`` is a date that is a string for clients, as in Kubernetes' own
      kinds.
    - A column with a `priority` above 0 is shown only with ``-o wide``.
    Source: CustomResourceDefinition additionalPrinterColumns.
    """

    name: str
    json_path: str = ""
    type: Literal["integer", "number", "string", "boolean", "date", "age"] = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    relative: bool = True
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule on a type. Source: CustomResourceDefinition x-kubernetes-validations."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """The JSON paths of the replica fields for the scale subresource.

    Source: CustomResourceDefinition subresources.scale.
    """

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True)
class DefaultRoles:
    """The verbs that a control plane's roles ``view``, ``edit`` and ``admin`` have on a resource.

    ``edit`` includes the verbs of ``view``, and ``admin`` those of ``edit``. A CRD can't express it: its author adds
    roles.
    """

    view: tuple[str, ...] = ("get", "list", "watch")
    edit: tuple[str, ...] = ("create", "delete", "deletecollection", "patch", "update")
    admin: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A query parameter. `type` is OpenAPI's (``boolean integer number string``); `many`: it may be repeated."""

    name: str
    type: str
    many: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource other than status and scale.

    `verbs` are Kubernetes' (``create get update patch``). `kind` is the kind of the request and response body; its
    group and version may differ from the resource's. `request_schema` and `response_schema` describe the bodies for
    OpenAPI; `request_nested` and `response_nested` are the classes in them, as those of a version. `produces` is the
    media type of a subresource that responds with a stream. `connects`: it takes over the connection. `proxies`: it
    passes on requests of every method, also with a path behind it.
    `fields`: it is a part of the object, shows all of it and changes only these (dotted paths), which
    nothing else changes unless `shared`; `counts` says that such a change is one of the generation. A body may be of
    `older` versions of its kind too.
    """

    name: str
    verbs: tuple[str, ...]
    kind: GroupVersionKind
    request_schema: Schema = field(default_factory=dict)
    response_schema: Schema = field(default_factory=dict)
    request_nested: Mapping[str, NestedType] = field(default_factory=dict, repr=False, compare=False)
    response_nested: Mapping[str, NestedType] = field(default_factory=dict, repr=False, compare=False)
    parameters: tuple[QueryParameter, ...] = ()
    produces: str = ""
    connects: bool = False
    proxies: bool = False
    fields: tuple[str, ...] = ()
    shared: bool = False
    counts: bool = True
    older: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the resource: plural, singular, kind, short names."""

    plural: str
    kind: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or self.kind + "List")


@dataclass(frozen=True, slots=True)
class NestedType:
    """A class inside of a declared one, which OpenAPI documents show as a type of its own.

    `name` is unique only among the classes of a module. `origin` says which class it is, for whoever tells apart two of
    one name. `description` is its own, whatever a field says of it.
    """

    name: str
    origin: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class VersionDefinition:
    """One version of a resource.

    - A version that is served in another group has that group in its name: ``apps/v1``, or ``/v1`` for the core group.
    - `selectable`: JSON paths of at most 8 scalar fields for field selectors (KEP-4358).
    - `deprecated` with an empty `deprecation_warning` sends the standard warning.
    - `status`: serves ``/status``. A write to it changes the status, and the metadata fields in `status_metadata`. A
      new object has no status unless `status_at_creation`.
    - `nested`: the classes in the schema, by the paths of what they describe: ``.spec``, ``.spec.items[]``.
    """

    name: str
    schema: Schema
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    status: bool = False
    status_metadata: tuple[str, ...] = ()
    status_at_creation: bool = False
    scale: Scale | None = None
    subresources: tuple[Subresource, ...] = ()
    nested: Mapping[str, NestedType] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A resource in all its versions. `hub` is the version that hooks see, `stored_as` the storage version.

    Options that a CRD doesn't have:

    - `typed`: behaves like a built-in kind: list items have no kind and apiVersion,
      a wrong JSON type in a body is 400, and null means absent. False: behaves like a custom resource.
    - `repeats_metadata_errors`: an update is answered with the errors of its metadata as often as Kubernetes' own kinds
      are, which check it in their strategies too.
    - `generation`: metadata.generation is kept (1 at creation, +1 when anything but metadata and status changes).
    - `unconditional_update`: a PUT without resourceVersion overwrites instead of 422.
    - `create_on_update`: a PUT to a name that doesn't exist creates the object.
    - `delete_returns`: the response of a DELETE once the object is gone.
    - `ttl_s`: objects expire this many seconds after their last write.
    - `name_rule`: how object names are validated. With ``none`` objects have no names, nor other metadata that
      the server sets, as those that only ask something: nobody keeps them.
    - `gc_default`: the finalizer set by a DELETE without propagationPolicy.
    - `cleanup_finalizer`: a finalizer that a DELETE adds: a controller removes it when it has cleaned up.
    - `initializers`: names that a new object waits for, unseen, until each of them has had its turn
      (metadata.initializers).
    - `rbac`: what the roles of a control plane may do with it; nothing unless given.
    - `finalizers_at`: the path of a list that keeps a deleted object as its metadata.finalizers do.
    - `delete_collection`: all objects can be deleted at once.
    - `released`: the schemas are those of this release of Kubernetes, such as ``1.37``. They are known to be right,
      are compiled when first used, and each takes what the ones before took; repetitions in lists are no errors.
    """

    group: str
    names: Names
    scope: Literal["Namespaced", "Cluster"]
    versions: tuple[VersionDefinition, ...]
    hub: str
    stored_as: str
    typed: bool = True
    generation: bool = True
    unconditional_update: bool = False
    create_on_update: bool = False
    delete_returns: Literal["status", "object"] = "status"
    repeats_metadata_errors: bool = False
    ttl_s: int | None = None
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment", "none"] = "dns-subdomain"
    gc_default: Literal["background", "orphan"] = "background"
    finalizers_at: str = ""
    cleanup_finalizer: str = ""
    initializers: tuple[str, ...] = ()
    rbac: DefaultRoles | None = None
    delete_collection: bool = True
    released: str = ""
    namespaced: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespaced", self.scope == "Namespaced")

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.names.plural)

    @property
    def hub_kind(self) -> GroupKind:
        """What errors in an object call it: the kind in the hub's group, whichever group it came through."""
        return GroupKind(self.store_group, self.names.kind)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.names.kind)

    def gvk(self, version: str) -> GroupVersionKind:
        place = _group_version(self.group, version)
        return GroupVersionKind(place.group, place.version, self.names.kind)

    def api_version(self, version: str) -> str:
        return _api_version(self.group, version)

    def version_in(self, group: str, version: str) -> str:
        """What this definition calls a version of `group`, which is its own group or another with the same objects."""
        return version if group == self.group else f"{group}/{version}"

    @property
    def store_group(self) -> str:
        """The group in the keys of its objects: the hub's."""
        return self.gvk(self.hub).group

    def version(self, name: str) -> VersionDefinition:
        """The version called `name`. KeyError when there is none."""
        for version in self.versions:
            if version.name == name:
                return version
        raise KeyError(name)

    def served_versions(self) -> tuple[VersionDefinition, ...]:
        """The served versions, preferred first."""
        return tuple(sorted((v for v in self.versions if v.served), key=lambda v: version_priority(v.name)))
