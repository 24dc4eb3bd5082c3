"""What tells a cluster of webhooks: definitions with a conversion webhook, and the two webhook configurations.

A webhook is configured for what its code does, and for nothing else: a resource without `validate` and without plugins
that refuse has none that validates. See also: ``apps.webhooks.server``, which answers.
Source: admissionregistration.k8s.io/v1, apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from oarlock.apps.webhooks.pages import CONVERT, MUTATE, VALIDATE
from oarlock.apps.webhooks.server import is_converted
from oarlock.cli.declaring_commands import exported
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.plugin import Admission
from oarlock.registry.kept_fields import FieldKeeper, keeping_fields
from oarlock.registry.served import Served
from oarlock.schema.definition import VersionDefinition
from oarlock.server.description import ReferringObject, UserCode

REGISTRATION = "admissionregistration.k8s.io/v1"
TIMEOUT_S = 10
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True, slots=True)
class PlacedWebhooks:
    """Where webhooks are, and how the objects that say so are called.

    `client_config` makes the ``clientConfig`` for a path. Objects of `namespace`, in which the webhooks run, are left
    out; empty for none.
    """

    name: str
    client_config: Callable[[str], Tree]
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    failure_policy: str = "Fail"
    timeout_s: int = TIMEOUT_S

    def metadata(self, name: str) -> Tree:
        """The metadata of an object of a cluster as a whole."""
        metadata: Tree = {"name": name, "labels": dict(self.labels)}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return metadata


class ClusterWebhooks:
    """The objects for `resources`, whose plugins are `admission`."""

    def __init__(
        self,
        resources: Sequence[Served],
        admission: Iterable[Admission[Any] | AdmissionPlugin],
        place: PlacedWebhooks,
    ) -> None:
        self._resources = resources
        self._admission = tuple(admission)
        self._place = place

    def objects(self) -> list[Tree]:
        """The definitions, then the configurations that aren't empty."""
        return [*map(self._definition, self._resources), *self._configurations()]

    def _definition(self, served: Served) -> Tree:
        tree = exported(served.definition)
        place = self._place
        metadata = tree["metadata"]
        if place.labels:
            metadata["labels"] = {**(metadata.get("labels") or {}), **place.labels}
        if is_converted(served):
            if place.annotations:
                metadata["annotations"] = {**(metadata.get("annotations") or {}), **place.annotations}
            webhook = {"clientConfig": place.client_config(CONVERT), "conversionReviewVersions": ["v1"]}
            tree["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return tree

    def _configurations(self) -> Iterator[Tree]:
        for kind, webhooks in (
            ("MutatingWebhookConfiguration", [*self._webhooks(MUTATE)]),
            ("ValidatingWebhookConfiguration", [*self._webhooks(VALIDATE)]),
        ):
            if webhooks:
                metadata = self._place.metadata(self._place.name)
                yield {"apiVersion": REGISTRATION, "kind": kind, "metadata": metadata, "webhooks": webhooks}

    def _webhooks(self, path: str) -> Iterator[Tree]:
        for served in self._resources:
            rules = [*self._rules(served, path)]
            if rules:
                yield self._webhook(served, path, rules)

    def _webhook(self, served: Served, path: str, rules: list[Tree]) -> Tree:
        definition, place = served.definition, self._place
        tree: Tree = {
            "name": f"{path[1:]}.{definition.names.plural}.{definition.group}",
            "clientConfig": place.client_config(path),
            "rules": rules,
            "failurePolicy": place.failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": place.timeout_s,
            "admissionReviewVersions": ["v1"],
            "matchConditions": [{"name": "something-changes", "expression": _changes(served)}],
        }
        if path == MUTATE:
            tree["reinvocationPolicy"] = "IfNeeded"
        if place.namespace and definition.namespaced:
            elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [place.namespace]}
            tree["namespaceSelector"] = {"matchExpressions": [elsewhere]}
        return tree

    def _rules(self, served: Served, path: str) -> Iterator[Tree]:
        """Rules by resource: which operations on it the webhook at `path` is asked about."""
        definition, hooks = served.definition, served.hooks
        names = [definition.names.plural]
        if any(version.status for version in definition.versions):
            names.append(f"{definition.names.plural}/status")
        versions = [version.name for version in definition.versions if version.served]
        has_hook = hooks.validate is not None
        if path == MUTATE:
            has_hook = bool(hooks.default) or hooks.prepare is not None
        for name in names:
            operations = {"CREATE", "UPDATE"} if has_hook else set[str]()
            operations |= {each for plugin in self._admission for each in _asked(plugin, served, name, path)}
            asked_of = versions
            if path == MUTATE and not operations and _keeps_fields(served):
                # what an object carries along is only told of versions that neither hooks nor the store have
                operations = {"UPDATE"}
                asked_of = [version for version in versions if version not in (definition.hub, definition.stored_as)]
            if "/" in name:
                operations &= {"UPDATE"}
            if operations and asked_of:
                yield {
                    "operations": sorted(operations),
                    "apiGroups": [definition.group],
                    "apiVersions": asked_of,
                    "resources": [name],
                    "scope": definition.scope,
                }


def referring_objects(resources: Sequence[Served], code: UserCode, name: str) -> list[ReferringObject]:
    """The objects by which a cluster finds webhooks, whose configurations are called `name`."""
    objects = ClusterWebhooks(resources, code.admission, PlacedWebhooks(name, lambda path: {})).objects()
    return [
        ReferringObject(f"{tree['apiVersion']}/{tree['kind']}", tree["metadata"]["name"])
        for tree in objects
        if tree["kind"] != "CustomResourceDefinition" or "conversion" in tree["spec"]
    ]


def _asked(plugin: Admission[Any] | AdmissionPlugin, served: Served, resource: str, path: str) -> Iterable[str]:
    """The operations on a resource or subresource that a plugin is asked about."""
    subresource = resource.partition("/")[2]
    if not isinstance(plugin, Admission):
        kinds = getattr(plugin, "only_kinds", None)
        if kinds is not None and served.definition.names.kind not in kinds:
            return ()
        return {*getattr(plugin, "only_operations", ("CREATE", "UPDATE", "DELETE"))} - {"CONNECT"}
    cls = type(plugin)
    hook = "mutate" if path == MUTATE else "validate"
    if getattr(cls, hook) is getattr(Admission, hook) or not _is_about(plugin, served):
        return ()
    if not cls.__subresource_names__ & {subresource, "*"}:
        return ()
    return cls.__operations__ - {"CONNECT"}


def _is_about(plugin: Admission[Any], served: Served) -> bool:
    kind, definition = type(plugin).__resource__, served.definition
    declaration = getattr(kind, "__declared__", None)
    if declaration is None:
        return True
    return (declaration.group, declaration.kind) == (definition.group, definition.names.kind)


def _keeps_fields(served: Served) -> bool:
    return isinstance(keeping_fields(served.definition, served.converter), FieldKeeper)


def _changes(served: Served) -> str:
    """In CEL: an update changes more than what the cluster itself keeps of an object. Most applies don't."""
    fields = dict.fromkeys(name for version in served.definition.versions for name in _top_level(version))
    paths = [*(f".?{name}" for name in fields), *(f".metadata.?{name}" for name in _METADATA)]
    return " || ".join(["request.operation != 'UPDATE'", *(f"object{path} != oldObject{path}" for path in paths)])


def _top_level(version: VersionDefinition) -> Iterator[str]:
    for name in version.schema.get("properties") or {}:
        if name not in ("apiVersion", "kind", "metadata"):
            yield name
