"""Namespaces: their life, and that objects are only created in those that are in use.

Source: Kubernetes' strategy and validation of Namespace, and its NamespaceLifecycle admission.
"""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.kinds.core.objects import NAME_LABEL, Namespace, NamespaceStatus
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta import errors, names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.kinds import GroupResource
from oarlock.policy.admission.plugin import Admission, Review
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.registry.hooks.subresource import part
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import ObjectMeta

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PROTECTED = frozenset(("default", "kube-system", "kube-public"))
"""Those that can't be deleted."""

KUBERNETES = "kubernetes"
ACTIVE, TERMINATING = "Active", "Terminating"
_UNQUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


class NamespaceCollection(StoredCollection[Namespace]):
    """Namespaces are labelled with their name, and go when everybody in spec.finalizers has finished."""

    finalize = part("finalize", fields=["spec.finalizers"], shared=True, verbs=["update"])

    def prepare(self, new: Namespace, old: Namespace | None, ctx: Context) -> None:
        new.metadata.labels = {**new.metadata.labels, NAME_LABEL: new.metadata.name}
        if old is None:
            new.status = NamespaceStatus(phase=ACTIVE)
            if KUBERNETES not in new.spec.finalizers:
                new.spec.finalizers = [*new.spec.finalizers, KUBERNETES]
        elif ctx.target.subresource != "finalize":
            new.spec.finalizers = list(old.spec.finalizers)

    def validate(self, new: Namespace, old: Namespace | None, ctx: Context) -> Iterator[FieldError]:
        for at, finalizer in enumerate(new.spec.finalizers):
            place = "spec.finalizers" if old is None else f"spec.finalizers[{at}]"
            for complaint in names.qualified_name(finalizer):
                yield Invalid(place, finalizer, complaint)
            if "/" not in finalizer and finalizer != KUBERNETES:
                yield Invalid(place, finalizer, _UNQUALIFIED)
        phase = new.status.phase if new.status is not None else ""
        if ctx.target.subresource == "status":
            if not new.metadata.deletion_timestamp and phase != ACTIVE:
                yield Invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")
            if new.metadata.deletion_timestamp and phase != TERMINATING:
                yield Invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")

    def mark_deleted(self, new: Namespace, ctx: Context) -> None:
        new.status = new.status or NamespaceStatus()
        new.status.phase = TERMINATING


class NamespaceLifecycle(Admission[Resource], operations=["CREATE", "DELETE"]):
    """Objects are created in namespaces that exist and aren't being deleted; some namespaces can't be deleted.

    Reviews, which aren't kept anywhere, may be about any namespace.
    """

    waits = False

    def __init__(self, namespaces: Informer[Namespace], virtual: frozenset[GroupResource] = frozenset()) -> None:
        self._namespaces = namespaces
        self._virtual = virtual

    async def validate(self, review: Review[Resource]) -> None:
        target = review.ctx.target
        if (target.group, target.resource) == ("", "namespaces"):
            if review.operation == "DELETE" and target.name in PROTECTED:
                raise errors.Forbidden(target.group_resource, target.name, "this namespace may not be deleted")
            return
        if review.operation == "DELETE" or not target.namespace:
            return
        if self._virtual and target.group_resource in self._virtual:
            return
        namespace = self._namespaces.get(target.namespace) or await self._look_up(target.namespace)
        if namespace is None:
            raise errors.NotFound(GroupResource("", "namespaces"), target.namespace)
        if namespace.metadata.deletion_timestamp:
            raise _terminating(target.group_resource, review.name, target.namespace)

    async def _look_up(self, name: str) -> Namespace | None:
        """A namespace that isn't known: here, what isn't known doesn't exist."""
        return None


def _terminating(resource: GroupResource, name: str, namespace: str) -> errors.StatusError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error = errors.Forbidden(resource, name, why)
    return error.explained(error.message, [cause])


async def create_system_namespaces(client: Client) -> None:
    """Create the namespaces that are there from the beginning, as far as they are missing."""
    for name in SYSTEM_NAMESPACES:
        try:
            await client.get(Namespace, name)
        except errors.NotFound:
            try:
                await client.create(Namespace(metadata=ObjectMeta(name=name)))
            except errors.AlreadyExists:
                pass  # another server was faster
