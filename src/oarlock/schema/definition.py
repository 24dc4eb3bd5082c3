"""THE WAIST: `ResourceDefinition`, everything that can be said of a resource as pure data.

Whatever a CustomResourceDefinition says is here, and what it can't say besides (whether a PUT without
resourceVersion overwrites, what delete returns, how names are checked…). It is printable, comparable
and holds no callables. Above it are the ways to write one (a class, a CRD-shaped dict, a test);
below it `registry` and `endpoints`, which take nothing else (wrapped as ``registry.served.Served``).
Must not know: classes, hooks, storage, HTTP. Next: `crd` for reading and printing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from oarlock.meta.kinds import GroupKind, GroupResource, GroupVersion, GroupVersionKind, version_priority

__all__ = [
    "Column",
    "Names",
    "QueryParameter",
    "ResourceDefinition",
    "Rule",
    "Scale",
    "Schema",
    "Subresource",
    "VersionDefinition",
]

Schema = dict[str, Any]
"""A structural OpenAPI v3 schema, as a CRD's ``openAPIV3Schema``, with ``x-kubernetes-*`` and ``x-oarlock-*`` keys."""


@lru_cache(maxsize=1024)
def _api_version(group: str, version: str) -> str:
    return str(GroupVersion(group, version))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``. `json_path` is a simple JSONPath from the object's root (``.spec.replicas``).

    `type` is integer, number, string, boolean or date. A date is shown as an age (``5m``), with `relative=False` as
    the time it is, which a CRD can't say. A column with a `priority` above 0 is shown only with ``-o wide``.
    Source: CustomResourceDefinition additionalPrinterColumns.
    """

    name: str
    json_path: str
    type: Literal["integer", "number", "string", "boolean", "date"] = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    relative: bool = True


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
    """Where the replicas of a scalable kind are, as JSON paths. Source: CustomResourceDefinition subresources.scale."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter in the query. `type` is OpenAPI's (``boolean integer number string``); `many` takes every value."""

    name: str
    type: str
    many: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource beside status and scale. `verbs` are Kubernetes' (``create get update patch``);

    `kind` is the kind of its body and answer, whose group and version may be others than the resource's.
    `request_schema` and `response_schema` describe them for OpenAPI. `produces` is set for one that answers with
    a stream: its media type. `connects` marks one that takes over the connection.
    """

    name: str
    verbs: tuple[str, ...]
    kind: GroupVersionKind
    request_schema: Schema = field(default_factory=dict)
    response_schema: Schema = field(default_factory=dict)
    parameters: tuple[QueryParameter, ...] = ()
    produces: str = ""
    connects: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """What the resource is called."""

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
class VersionDefinition:
    """One version of a resource.

    `selectable` are JSON paths of at most 8 scalar fields that field selectors may name (KEP-4358).
    `deprecated` with an empty `deprecation_warning` gets the standard text.
    `status` serves ``/status`` and gives it its own update rules.
    """

    name: str
    schema: Schema
    served: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    status: bool = False
    scale: Scale | None = None
    subresources: tuple[Subresource, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A resource in all its versions. `hub` is the version hooks see, `stored_as` the one that is written.

    What a CRD can't say:

    - `typed`: the wire behaves as a compiled-in kind's does: list items carry no kind and apiVersion,
      a wrong JSON type in a body is 400 and null means absent. False is how custom resources behave.
    - `generation`: metadata.generation is kept (1 at creation, +1 when anything but metadata and status changes).
    - `unconditional_update`: a PUT without resourceVersion overwrites instead of 422.
    - `create_on_update`: a PUT to a name that isn't there creates it.
    - `delete_returns`: what DELETE answers once the object is gone.
    - `ttl_s`: objects vanish this many seconds after their last write.
    - `name_rule`: what a name must look like.
    - `gc_default`: the finalizer a DELETE without propagationPolicy leaves behind.
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
    ttl_s: int | None = None
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment"] = "dns-subdomain"
    gc_default: Literal["background", "orphan"] = "background"

    @property
    def namespaced(self) -> bool:
        return self.scope == "Namespaced"

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.names.plural)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.names.kind)

    def gvk(self, version: str) -> GroupVersionKind:
        return GroupVersionKind(self.group, version, self.names.kind)

    def api_version(self, version: str) -> str:
        return _api_version(self.group, version)

    def version(self, name: str) -> VersionDefinition:
        """The version called `name`; KeyError when there is none."""
        for version in self.versions:
            if version.name == name:
                return version
        raise KeyError(name)

    def served_versions(self) -> tuple[VersionDefinition, ...]:
        """The versions clients see, preferred first."""
        return tuple(sorted((v for v in self.versions if v.served), key=lambda v: version_priority(v.name)))
