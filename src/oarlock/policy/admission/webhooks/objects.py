"""`ReviewedObjects`: the objects of one request as webhooks see them: in the version a rule names, or as a Scale.

See also: `plugins`, which asks about them; ``registry.scale``, the mapping of ``/scale``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.meta.errors import InternalError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource, GroupVersionKind
from oarlock.policy.admission.webhooks.review import ReviewedKind
from oarlock.policy.admission.webhooks.rules import WebhookMatch
from oarlock.registry.conversions import copy_tree, copy_unless_pure
from oarlock.registry.workers import Offload
from oarlock.registry.write.replicas import path_steps
from oarlock.registry.write.scale import Scaling
from oarlock.registry.write.write_request import AdmissionRequest
from oarlock.schema.types.folding import fold

SUFFIX = 5
MOST_OF_BASE = 58
"""A generated name is at most so many characters of the base, and `SUFFIX` more."""

_NAMESPACES = GroupResource("", "namespaces")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class ReviewedObjects:
    """What the webhooks of one request are shown, and what becomes of their changes."""

    __slots__ = ("_offload", "_request", "_scaling", "_version")

    def __init__(self, request: AdmissionRequest, offload: Offload) -> None:
        self._request = request
        self._offload = offload
        target, definition = request.ctx.target, request.served.definition
        self._version = definition.version_in(target.group, target.version)
        self._scaling: Scaling | None = None
        if target.subresource == "scale" and request.body_kind is None and request.operation != "CONNECT":
            scale = definition.version(self._version).scale
            self._scaling = None if scale is None else Scaling(definition, scale)

    def asked(self) -> ReviewedKind:
        """What the user asked for."""
        target = self._request.ctx.target
        return self._kind(target.group, target.version)

    def sent(self, match: WebhookMatch) -> ReviewedKind:
        """What the webhook is sent."""
        return self._kind(match.group, match.version_name)

    def _kind(self, group: str, version: str) -> ReviewedKind:
        request = self._request
        names, target = request.served.definition.names, request.ctx.target
        kind = GroupVersionKind(group, version, names.kind)
        if request.body_kind is not None:
            kind = request.body_kind
        elif self._scaling is not None:
            kind = _SCALE
        elif request.operation == "CONNECT":
            kind = GroupVersionKind(group, version, f"{names.kind}{target.subresource.capitalize()}Options")
        return ReviewedKind(kind, group, version, target.resource)

    async def new_shown(self, new: Tree | None, old: Tree | None, version: str, place: tuple[str, str]) -> Tree | None:
        """The new object as the webhook sees it: with the revision it takes the place of; `place` has its name."""
        if new is None or self._request.body_kind is not None:
            return new
        metadata = {**new["metadata"]}
        if not place[1] and self._request.operation == "CREATE":
            metadata.pop("name", None)
        if old is not None and "resourceVersion" not in metadata and "resourceVersion" in old["metadata"]:
            metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        same = len(metadata) == len(new["metadata"])
        return await self.shown(new if same else {**new, "metadata": metadata}, version)

    async def shown(self, tree: Tree | None, version: str) -> Tree | None:
        """An object as the webhook sees it."""
        if tree is None or self._request.body_kind is not None:
            return tree
        if version != self._version:
            served = self._request.served
            passed = await self._offload(copy_unless_pure, served.converter, tree)
            (tree,) = await served.convert([passed], self._version, version)
        return tree if self._scaling is None else self._scaling_of(version).show(tree)

    async def changed(self, tree: Tree, shown: Tree, patched: Tree, version: str) -> Tree:
        """The object with what a webhook has changed of what it was shown."""
        if self._scaling is not None:
            return self._scaled(tree, patched)
        if self._request.body_kind is not None:
            return patched
        if "resourceVersion" not in tree["metadata"]:
            metadata = {key: value for key, value in patched["metadata"].items() if key != "resourceVersion"}
            patched = {**patched, "metadata": metadata}
        if version == self._version:
            return patched
        served = self._request.served
        copies = [await self._offload(copy_tree, shown), await self._offload(copy_tree, patched)]
        before, after = await served.convert(copies, version, self._version)
        schema = served.definition.version(self._version).schema
        folded: Tree = await self._offload(fold, tree, before, after, schema)
        return folded

    def _scaling_of(self, version: str) -> Scaling:
        definition = self._request.served.definition
        scale = definition.version(version).scale
        if scale is None:
            raise InternalError(f"{version} of {definition.names.plural} has no scale")
        return Scaling(definition, scale)

    def _scaled(self, tree: Tree, patched: Tree) -> Tree:
        """The object with the number of replicas that a changed Scale has."""
        spec: Any = patched.get("spec") or {}
        replicas = spec.get("replicas", 0) if isinstance(spec, Mapping) else None
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise InternalError("a webhook has made a Scale without a number of replicas")
        scale = self._request.served.definition.version(self._version).scale
        if scale is None:
            return tree
        changed = copy_tree(tree)
        *way, last = path_steps(scale.spec_replicas_path)
        place: Any = changed
        for step in way:
            place = place.setdefault(step, {})
        place[last] = replicas
        return changed


def reviewed_place(request: AdmissionRequest, new: Tree | None, *, final: bool) -> tuple[str, str]:
    """The namespace and name that a review says. A namespace is in itself; of a collection no names are said.

    A generated name is said of the `final` object only.
    """
    target = request.ctx.target
    name = target.name
    if not name and request.operation == "CREATE" and new is not None:
        metadata = new.get("metadata") or {}
        if final or not _is_generated(metadata):
            name = metadata.get("name") or ""
    if target.verb == "deletecollection":
        name = ""
    return target.namespace or (name if target.group_resource == _NAMESPACES else ""), name


def _is_generated(metadata: Tree) -> bool:
    base, name = (metadata.get("generateName") or "")[:MOST_OF_BASE], metadata.get("name") or ""
    return bool(base) and name.startswith(base) and len(name) == len(base) + SUFFIX
