"""What expressions see of a request: ``request``, and the namespace of its object.

Source: k8s.io/api ``admission/v1`` AdmissionRequest, less its objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.meta.labels import EVERYTHING, Selector, SelectorError, from_label_selector
from oarlock.policy.admission.request_parts import options_tree, user_tree
from oarlock.registry.write.write_request import AdmissionRequest

_NOTHING = Selector((), nothing=True)


@dataclass(frozen=True, slots=True)
class RequestedResource:
    """What a request is about, as far as rules look at it.

    `version` is what the definition of the resource calls it, and `versions` are the others that it is served in: those
    of another group have that group in them. `home` is the group of the others, if it isn't `group`.
    """

    group: str
    version: str
    resource: str
    subresource: str
    operation: str
    namespaced: bool
    name: str = ""
    versions: tuple[str, ...] = ()
    home: str | None = None

    def place(self, version: str) -> tuple[str, str]:
        """The group and version that a version of the definition is."""
        group, slash, name = version.rpartition("/")
        return (group, name) if slash else (self.group if self.home is None else self.home, name)


@dataclass(frozen=True, slots=True)
class _Rule:
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[str, ...]
    operations: frozenset[str]
    scope: str
    names: frozenset[str]

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> _Rule:
        return cls(
            frozenset(tree.get("apiGroups") or ()),
            frozenset(tree.get("apiVersions") or ()),
            tuple(tree.get("resources") or ()),
            frozenset(tree.get("operations") or ()),
            str(tree.get("scope") or "*"),
            frozenset(tree.get("resourceNames") or ()),
        )

    def takes(self, requested: RequestedResource, version: str, *, any_name: bool = False) -> bool:
        group, version = requested.place(version)
        if not _in(group, self.groups) or not _in(version, self.versions):
            return False
        if not _in(requested.operation, self.operations) or not any(
            _is_resource(resource, requested) for resource in self.resources
        ):
            return False
        if self.scope != "*" and (self.scope == "Namespaced") is not requested.namespaced:
            return False
        return any_name or not self.names or requested.name in self.names


def _in(value: str, values: frozenset[str]) -> bool:
    return "*" in values or value in values


def _is_resource(wanted: str, requested: RequestedResource) -> bool:
    resource, slash, subresource = wanted.partition("/")
    if resource not in ("*", requested.resource):
        return False
    return subresource in ("*", requested.subresource) if slash else not requested.subresource


class Matching:
    """The rules and selectors of one policy or binding. An empty one takes every request."""

    __slots__ = ("_equivalent", "_excluded", "_namespaces", "_objects", "_rules")

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._rules = [_Rule.of(rule) for rule in tree.get("resourceRules") or ()]
        self._excluded = [_Rule.of(rule) for rule in tree.get("excludeResourceRules") or ()]
        self._equivalent = tree.get("matchPolicy", "Equivalent") != "Exact"
        self._namespaces = _selector(tree.get("namespaceSelector"))
        self._objects = _selector(tree.get("objectSelector"))

    def version(self, requested: RequestedResource, *, any_name: bool = False) -> str | None:
        """The version in which the objects are looked at; None if the rules don't take the request.

        With `any_name` rules for certain names take all, and nothing is excluded: the name may not be known yet.
        """
        if not any_name and self._version_of(self._excluded, requested, any_name=False) is not None:
            return None
        return self._version_of(self._rules, requested, any_name=any_name) if self._rules else requested.version

    def _version_of(self, rules: Sequence[_Rule], requested: RequestedResource, *, any_name: bool) -> str | None:
        for version in (requested.version, *requested.versions) if self._equivalent else (requested.version,):
            if any(rule.takes(requested, version, any_name=any_name) for rule in rules):
                return version
        return None

    @property
    def by_namespace(self) -> bool:
        """Whether the labels of the namespace count."""
        return self._namespaces is not EVERYTHING

    def takes_namespace(self, labels: Mapping[str, str]) -> bool:
        return self._namespaces.matches(labels)

    def takes_objects(self, *objects: Mapping[str, Any] | None) -> bool:
        """Whether one of the objects has the labels."""
        if self._objects is EVERYTHING:
            return True
        return any(tree is not None and self._objects.matches(labels_of(tree)) for tree in objects)


def labels_of(tree: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of an object."""
    metadata = tree.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return labels if isinstance(labels, Mapping) else {}


def _selector(tree: Mapping[str, Any] | None) -> Selector:
    if not tree:
        return EVERYTHING
    try:
        return from_label_selector(tree)
    except SelectorError:
        return _NOTHING  # validation lets none in


_NAMESPACE_METADATA = (
    *("name", "generateName", "labels", "annotations", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "generation", "resourceVersion", "finalizers"),
)


def requested_resource(request: AdmissionRequest, name: str = "") -> RequestedResource:
    """What a request is about, for rules."""
    target, definition = request.ctx.target, request.served.definition
    namespaced = bool(target.namespace) and (target.resource != "namespaces" or bool(target.group))
    version = definition.version_in(target.group, target.version)
    return RequestedResource(
        target.group,
        version,
        target.resource,
        target.subresource,
        request.operation,
        namespaced,
        name,
        tuple(
            [
                other.name
                for other in definition.versions
                if (other.served or "/" in other.name) and other.name != version
            ]
        ),
        definition.group,
    )


def request_tree(request: AdmissionRequest, requested: RequestedResource, version: str) -> Tree:
    """The value of ``request``; `version` is the one that the rules take."""
    ctx, target = request.ctx, request.ctx.target
    definition = request.served.definition
    taken = definition.gvk(version)
    kind = request.body_kind or GroupVersionKind(target.group, target.version, definition.names.kind)
    matched = kind if request.body_kind is not None else taken
    resource = {"group": target.group, "version": target.version, "resource": target.resource}
    tree: Tree = {
        "kind": _kind(matched),
        "resource": {**resource, "group": taken.group, "version": taken.version},
        "requestKind": _kind(kind),
        "requestResource": resource,
        "operation": request.operation,
        "userInfo": user_tree(ctx.user),
        "dryRun": ctx.dry_run,
    }
    optional = {
        "subResource": target.subresource,
        "requestSubResource": target.subresource,
        "name": requested.name,
        "namespace": target.namespace,
    }
    tree.update({key: value for key, value in optional.items() if value})
    options = options_tree(ctx, request.operation)
    if options is not None:
        tree["options"] = options
    return tree


def _kind(kind: GroupVersionKind) -> Tree:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def namespace_tree(tree: Mapping[str, Any]) -> Tree:
    """The value of ``namespaceObject``."""
    metadata = tree.get("metadata") or {}
    shown = {name: metadata[name] for name in _NAMESPACE_METADATA if metadata.get(name) is not None}
    if metadata.get("uid"):
        shown["UID"] = metadata["uid"]
    made: Tree = {"metadata": shown}
    made.update({part: tree[part] for part in ("spec", "status") if tree.get(part)})
    return made
