"""`OwnerPermission`: who may set owners of objects. Kubernetes' ``OwnerReferencesPermissionEnforcement`` plugin.

Off unless it is enabled by name. Texts are Kubernetes'. See also: `collector`, to which owners matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oarlock.apps.controllers.served_kinds import find_kind
from oarlock.meta.context import Target
from oarlock.meta.errors import Forbidden
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.chain import ValidatingPlugin
from oarlock.policy.authz.authorizer import Decision
from oarlock.policy.authz.union import Access
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub
from oarlock.server.description import LiveCatalog

Reference = Mapping[str, Any]

_NOT_FINALIZED = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"

_ANY_OWNER = Target("update", "*", "*", "*", "finalizers", name="*")


class OwnerPermission(ValidatingPlugin):
    """Who changes owners may delete the object, and finalize owners that will wait for it."""

    name = "OwnerReferencesPermissionEnforcement"
    only_operations = ("CREATE", "UPDATE")

    def __init__(self, access: Access, live: LiveCatalog) -> None:
        self._access = access
        self._live = live

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        if request.body_kind is not None:
            return False
        return (target.group, target.resource, target.subresource) != ("", "pods", "status")

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        before, after = _owners(old), _owners(new)
        if before == after:
            return
        user, target = request.ctx.user, request.ctx.target
        name = target.name or ((new or {}).get("metadata") or {}).get("name", "")
        if request.operation == "UPDATE":
            allowed = await self._access.decide(user, replace(target, verb="delete", name=name))
            if not allowed.allowed:
                why = "cannot set an ownerRef on a resource you can't delete"
                raise Forbidden(target.group_resource, name, f"{why}: {_reason(allowed)}")
        blocking = [*_newly_blocking(before, after)]
        if not blocking or (await self._access.decide(user, _ANY_OWNER)).allowed:
            return
        for reference in blocking:
            try:
                owner = self._finalizers_of(reference, target.namespace)
            except LookupError as error:
                which = f"APIVersion {reference.get('apiVersion', '')} Kind {reference.get('kind', '')}"
                why = f"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for {which}"
                raise Forbidden(target.group_resource, name, f"{why}: {error}") from None
            allowed = await self._access.decide(user, owner)
            if not allowed.allowed:
                raise Forbidden(target.group_resource, name, f"{_NOT_FINALIZED}: {_reason(allowed)}")

    def _finalizers_of(self, reference: Reference, namespace: str) -> Target:
        """The finalizers of an owner. Raises LookupError for a kind that isn't served."""
        api_version, kind = str(reference.get("apiVersion", "")), str(reference.get("kind", ""))
        group, _, version = api_version.rpartition("/")
        found = find_kind(self._live.current, GroupVersionKind(group, version, kind))
        if found is None:
            raise LookupError(f"no matches for kind {quote(kind)} in version {quote(api_version)}")
        where = namespace if found.namespaced else ""
        name = str(reference.get("name", ""))
        return Target("update", group, version, found.plural, "finalizers", namespace=where, name=name)


def _owners(tree: Tree | None) -> Sequence[Reference]:
    return ((tree or {}).get("metadata") or {}).get("ownerReferences") or ()


def _newly_blocking(before: Sequence[Reference], after: Sequence[Reference]) -> Iterator[Reference]:
    """The owners whose deletion is going to wait for the object, and didn't."""
    known = {reference.get("uid") for reference in before if reference.get("blockOwnerDeletion")}
    return (
        reference for reference in after if reference.get("blockOwnerDeletion") and reference.get("uid") not in known
    )


def _reason(decision: Decision) -> str:
    """What Kubernetes tells of a decision and the error of asking for it, of which there was none."""
    return f"{decision.reason}, <nil>"
