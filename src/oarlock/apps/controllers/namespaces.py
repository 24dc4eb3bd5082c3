"""The controllers of namespaces: their deletion, their root certificate and their default service account.

`NamespaceDeletion` deletes everything the server serves by then. What remains is reported in the conditions of the
namespace; only that is listed again, with back-off. `RootCaPublisher` is kube-controller-manager's
root-ca-certificate-publisher-controller. Source: Kubernetes' namespace controller; messages are Kubernetes'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from oarlock.apps.controllers.served_kinds import LiveKinds, ServedKind
from oarlock.apps.kinds.core.objects import ConfigMap, Namespace, NamespaceCondition, NamespaceStatus, ServiceAccount
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.keywords import SelectionKeywords
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey, Result
from oarlock.controllers.watched import ObjectSelection, Watched, deletion_changed
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import AlreadyExists, Forbidden, NotFound
from oarlock.schema.types.shapes import ObjectMeta
from oarlock.server.description import LiveCatalog
from oarlock.storage.pacing import Pacer

ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)

_PUBLISHED = ObjectSelection(field_selector=f"metadata.name={ROOT_CA}")


def _its_namespace_root_ca(published: ConfigMap) -> list[ObjectKey]:
    return [ObjectKey("", published.metadata.namespace or "")]


class RootCaPublisher(
    Controller[Namespace],
    name="root-ca-certificate-publisher-controller",
    watches=[Watched(ConfigMap, to=_its_namespace_root_ca, selection=_PUBLISHED)],
):
    """Creates the ConfigMap, and puts it right again. `ca` is the certificate in PEM; None where there is no TLS."""

    def __init__(self, ca: Callable[[], bytes | None]) -> None:
        self._ca = ca

    async def reconcile(self, key: ObjectKey) -> None:
        namespace, ca = self.informer.get(key.name), self._ca()
        if ca is None or namespace is None or namespace.metadata.deletion_timestamp:
            return
        data = {"ca.crt": ca.decode()}
        published = self.informers[ConfigMap].get(ROOT_CA, key.name)
        try:
            if published is None:
                metadata = {
                    "name": ROOT_CA,
                    "namespace": key.name,
                    "annotations": {"kubernetes.io/description": _DESCRIPTION},
                }
                await self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
            elif published.data != data:
                others = dict.fromkeys(published.data.keys() - data.keys())
                await self.client.patch(ConfigMap, ROOT_CA, {"data": {**others, **data}}, namespace=key.name)
        except (AlreadyExists, Forbidden, NotFound):
            pass  # the informer is behind, or the namespace is going; what changes comes again


DEFAULT = "default"


def _its_namespace_service_accounts(account: ServiceAccount) -> list[ObjectKey]:
    return [ObjectKey("", account.metadata.namespace)] if account.metadata.name == DEFAULT else []


class DefaultServiceAccounts(
    Controller[Namespace],
    name="default-service-accounts",
    watches=[Watched(ServiceAccount, to=_its_namespace_service_accounts)],
):
    """Creates a missing ``default`` account, also after it was deleted."""

    async def reconcile(self, key: ObjectKey) -> None:
        namespace = self.informer.get(key.name)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        if self.informers[ServiceAccount].get(DEFAULT, key.name) is not None:
            return
        account = ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=key.name))
        try:
            await self.client.create(account)
        except errors.AlreadyExists:
            pass  # the informer is behind
        except (errors.NotFound, errors.Forbidden):
            pass  # the namespace is gone, or going


KUBERNETES = "kubernetes"
REMAINING = Result(1.0, longest_s=60.0)
"""What remains is looked at again."""


@dataclass(slots=True)
class _Found:
    """The objects of one resource in a namespace: how many, of which finalizer, and not marked as deleted yet."""

    count: int = 0
    untouched: int = 0
    finalizers: Counter[str] = field(default_factory=Counter)

    def add(self, metadata: dict[str, Any]) -> None:
        self.count += 1
        self.untouched += not metadata.get("deletionTimestamp")
        self.finalizers.update(metadata.get("finalizers") or ())


@dataclass(slots=True)
class _Remains:
    """What is still in a namespace: how many of which resource and finalizer; and what couldn't be deleted."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undiscovered: list[str] = field(default_factory=list)
    """Groups and versions of which nobody tells what is in them."""
    where: list[ServedKind] = field(default_factory=list)
    """The resources that something is left of, or may be."""


def _ignore_warning(warning: str) -> None:
    """What is deprecated is deleted all the same."""


class NamespaceDeletion(
    Controller[Namespace], name="namespace-deletion", concurrency=4, timeout_s=120, when=deletion_changed
):
    """Deletes everything in a namespace that is being deleted, then takes the finalizer ``kubernetes`` off.

    `live` is what its server serves.
    """

    _clock: TimerClock

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live
        self._kinds = LiveKinds()
        self._left: dict[str, list[ServedKind]] = {}
        """What something was left of, by the name of the namespace."""

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        self._left.clear()
        await super().run(client.using(on_warning=_ignore_warning), clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        namespace = self.informer.get(key.name)
        if (
            namespace is None
            or not namespace.metadata.deletion_timestamp
            or KUBERNETES not in namespace.spec.finalizers
        ):
            self._left.pop(key.name, None)
            return None
        left = self._left.pop(key.name, ())
        remains = await self._emptied_again(left, key.name)
        if not remains.where:
            remains = await self._emptied_of_everything(key.name)
        await self._update_conditions(namespace, remains)
        if remains.where or remains.undiscovered:
            self._left[key.name] = remains.where
            return REMAINING
        await self._remove_finalizer(namespace)
        return None

    async def _emptied_of_everything(self, namespace: str) -> _Remains:
        served = await self._kinds.now(self._live)
        remains, pacer = _Remains(), Pacer()
        for resource in served.by_resource.values():
            await pacer.turn()
            if resource.ref.namespaced and {"list", "delete"} <= resource.verbs:
                await self._empty(resource, namespace, remains, probe=True)
        remains.undiscovered += served.stale
        return remains

    async def _emptied_again(self, resources: Iterable[ServedKind], namespace: str) -> _Remains:
        remains = _Remains()
        for resource in resources:
            await self._empty(resource, namespace, remains, probe=False)
        return remains

    async def _empty(self, resource: ServedKind, namespace: str, remains: _Remains, *, probe: bool) -> None:
        """Delete what there is of a resource. With `probe` it is expected that there is nothing."""
        called = f"{resource.ref.plural}.{resource.ref.group}"
        try:
            found = await self._look(resource, namespace, first=probe)
            if probe and found.count and not found.untouched:
                found = await self._look(resource, namespace)
            if found.untouched:
                await self._delete(resource, namespace)
                found = await self._look(resource, namespace)
        except errors.StatusError as error:
            remains.failures.append(f"{called}: {error.message}")
            remains.where.append(resource)
            return
        if found.count:
            remains.resources[called] = found.count
            remains.finalizers.update(found.finalizers)
            remains.where.append(resource)

    async def _look(self, resource: ServedKind, namespace: str, *, first: bool = False) -> _Found:
        """The objects of a resource that there are; with `first` the first one of them."""
        found = _Found()
        selection: SelectionKeywords = {"namespace": namespace, "include_uninitialized": True}
        try:
            async with aclosing(self.client.pages(resource.ref, page_size=1 if first else 500, **selection)) as pages:
                async for page in pages:
                    for tree in page.items:
                        found.add(tree["metadata"])
                    if first:
                        break
        except (errors.NotFound, errors.MethodNotAllowed):
            if resource in (await self._kinds.now(self._live)).by_resource.values():
                raise  # it is served all the same, so that nobody knows what is left
        return found

    async def _delete(self, resource: ServedKind, namespace: str) -> None:
        if "deletecollection" in resource.verbs:
            await self.client.delete_collection(resource.ref, namespace=namespace, propagation="Background")
            return
        async for tree in self.client.list(resource.ref, namespace=namespace, include_uninitialized=True):
            try:
                await self.client.delete(resource.ref, tree["metadata"]["name"], namespace=namespace)
            except errors.NotFound:
                pass  # it went by itself

    async def _update_conditions(self, namespace: Namespace, remains: _Remains) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC).replace(microsecond=0)
        conditions = _conditions(remains, now)

        def change(live: Namespace) -> None:
            known = {condition.type: condition for condition in (live.status.conditions if live.status else ())}
            for condition in conditions:
                before = known.get(condition.type)
                if before is not None and (before.status, before.reason) == (condition.status, condition.reason):
                    condition.last_transition_time = before.last_transition_time
            phase = live.status.phase if live.status else ""
            live.status = NamespaceStatus(phase=phase, conditions=conditions)

        try:
            await self.client.change(Namespace, namespace.metadata.name, change, subresource="status")
        except errors.NotFound:
            pass  # somebody else has let it go

    async def _remove_finalizer(self, namespace: Namespace) -> None:
        name = namespace.metadata.name
        left = [finalizer for finalizer in namespace.spec.finalizers if finalizer != KUBERNETES]
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": namespace.metadata.uid},
            "spec": {"finalizers": left},
        }
        try:
            namespaces = await self.client.ref(Namespace)
            await self.client.request("PUT", namespaces.object(name, "", "finalize"), body)
        except errors.NotFound:
            pass  # somebody else has let it go


def _conditions(remains: _Remains, now: datetime) -> list[NamespaceCondition]:
    instances = "resource instances"
    resources = ", ".join(f"{name} has {count} {instances}" for name, count in sorted(remains.resources.items()))
    finalizers = ", ".join(f"{name} in {count} {instances}" for name, count in sorted(remains.finalizers.items()))
    failures = "; ".join(remains.failures)
    stale = ", ".join(f"{version}: stale GroupVersion discovery: {version}" for version in remains.undiscovered)
    undiscovered = (
        f"Discovery failed for some groups, {len(remains.undiscovered)} failing: "
        f"unable to retrieve the complete list of server APIs: {stale}"
    )
    rows = (
        (
            "NamespaceDeletionDiscoveryFailure",
            undiscovered if remains.undiscovered else "",
            ("DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "",
            ("", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            f"Failed to delete all resource types: {failures}" if failures else "",
            (
                "ContentDeletionFailed",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        (
            "NamespaceContentRemaining",
            f"Some resources are remaining: {resources}" if resources else "",
            ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {finalizers}" if finalizers else "",
            ("SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    )
    return [
        NamespaceCondition(
            type=kind,
            status="True" if trouble else "False",
            last_transition_time=now,
            reason=reasons[0] if trouble else reasons[1],
            message=trouble or reasons[2],
        )
        for kind, trouble, reasons in rows
    ]
