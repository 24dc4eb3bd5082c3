"""`NamespaceDeletion`: empties namespaces that are being deleted, and lets them go when nothing is left.

What is in a namespace is found by discovery, so that everything is deleted that the server serves by then. What remains
is told in the namespace's conditions. Source: Kubernetes' namespace controller; messages are Kubernetes'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from oarlock.apps.kinds.core import Namespace, NamespaceCondition, NamespaceStatus
from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.controllers.controller import Controller
from oarlock.controllers.keys import ObjectKey
from oarlock.controllers.results import Result
from oarlock.meta import errors
from oarlock.meta.dataclass import dataclass

__all__ = ["NamespaceDeletion"]

KUBERNETES = "kubernetes"
AGAIN_S = 1.0
"""How long until what remains is looked at again."""


@dataclass(frozen=True, slots=True)
class _ServedResource:
    """A resource of namespaces, as discovery tells it."""

    api_version: str
    name: str
    kind: str
    verbs: frozenset[str]

    @property
    def called(self) -> str:
        """``configmaps.``, ``leases.coordination.k8s.io``."""
        return f"{self.name}.{self.api_version.rpartition('/')[0]}"


@dataclass(slots=True)
class _Remains:
    """What is still in a namespace: how many of which resource and finalizer; and what couldn't be deleted."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undiscovered: list[str] = field(default_factory=list)
    """Groups and versions of which nobody tells what is in them."""


def _unheard(warning: str) -> None:
    """What is deprecated is deleted all the same."""


class NamespaceDeletion(Controller[Namespace], name="namespace-deletion", concurrency=4, timeout_s=120):
    """Deletes everything in a namespace that is being deleted, then takes the finalizer ``kubernetes`` off."""

    _clock: TimerClock

    async def run(self, client: Client, clock: TimerClock) -> None:
        self._clock = clock
        await super().run(client.using(on_warning=_unheard), clock)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        namespace = self.informer.get(key.name)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            return None
        if KUBERNETES not in namespace.spec.finalizers:
            return None
        remains = _Remains()
        try:
            resources = [one async for one in self._resources(remains)]
        except errors.StatusError as error:
            await self._tell(namespace, _Remains(undiscovered=[error.message]))
            return Result(AGAIN_S)
        for resource in resources:
            await self._empty(resource, key.name, remains)
        await self._tell(namespace, remains)
        if remains.resources or remains.failures or remains.undiscovered:
            return Result(AGAIN_S)
        await self._let_go(namespace)
        return None

    async def _resources(self, remains: _Remains) -> AsyncIterator[_ServedResource]:
        """The resources of namespaces, each of one version. What isn't told is in `remains`."""
        roots = [f"/api/{version}" for version in (await self.client.request("GET", "/api"))["versions"][:1]]
        groups = (await self.client.request("GET", "/apis"))["groups"]
        roots += [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
        known: set[str] = set()
        for root in roots:
            try:
                listed = await self.client.request("GET", root)
            except errors.StatusError as error:
                remains.undiscovered.append(f"{root.removeprefix('/apis/')}: {error.message}")
                continue
            for one in listed["resources"]:
                resource = _ServedResource(listed["groupVersion"], one["name"], one["kind"], frozenset(one["verbs"]))
                kept = one["namespaced"] and "/" not in one["name"] and {"list", "delete"} <= resource.verbs
                if kept and resource.called not in known:
                    known.add(resource.called)
                    yield resource

    async def _empty(self, resource: _ServedResource, namespace: str, remains: _Remains) -> None:
        kind = f"{resource.api_version}/{resource.kind}"
        try:
            if "deletecollection" in resource.verbs:
                await self.client.delete_collection(kind, namespace=namespace, propagation="Background")
            else:
                async for tree in self.client.list(kind, namespace=namespace, include_uninitialized=True):
                    await self.client.delete(kind, tree["metadata"]["name"], namespace=namespace)
            async for tree in self.client.list(kind, namespace=namespace, include_uninitialized=True):
                remains.resources[resource.called] += 1
                remains.finalizers.update(tree["metadata"].get("finalizers", ()))
        except errors.NotFound:
            pass  # no longer served, or the last object went by itself
        except errors.StatusError as error:
            remains.failures.append(f"{resource.called}: {error.message}")

    async def _tell(self, namespace: Namespace, remains: _Remains) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC).replace(microsecond=0)
        conditions = _conditions(remains, now)

        def change(live: Namespace) -> None:
            known = {one.type: one for one in (live.status.conditions if live.status else ())}
            for one in conditions:
                before = known.get(one.type)
                if before is not None and (before.status, before.reason) == (one.status, one.reason):
                    one.last_transition_time = before.last_transition_time
            phase = live.status.phase if live.status else ""
            live.status = NamespaceStatus(phase=phase, conditions=conditions)

        try:
            await self.client.change(Namespace, namespace.metadata.name, change, subresource="status")
        except errors.NotFound:
            pass  # somebody else has let it go

    async def _let_go(self, namespace: Namespace) -> None:
        name = namespace.metadata.name
        left = [one for one in namespace.spec.finalizers if one != KUBERNETES]
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": namespace.metadata.uid},
            "spec": {"finalizers": left},
        }
        try:
            await self.client.request("PUT", f"/api/v1/namespaces/{name}/finalize", body)
        except errors.NotFound:
            pass  # somebody else has let it go


def _conditions(remains: _Remains, now: datetime) -> list[NamespaceCondition]:
    instances = "resource instances"
    resources = ", ".join(f"{name} has {count} {instances}" for name, count in sorted(remains.resources.items()))
    finalizers = ", ".join(f"{name} in {count} {instances}" for name, count in sorted(remains.finalizers.items()))
    failures = "; ".join(remains.failures)
    undiscovered = "; ".join(remains.undiscovered)
    rows = (
        (
            "NamespaceDeletionDiscoveryFailure",
            f"Discovery failed for some groups: {undiscovered}" if undiscovered else "",
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
