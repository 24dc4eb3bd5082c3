"""`TreeController`: what controllers of workloads do alike: find, adopt and release objects, make and delete pods.

What a controller has written and its informers don't show yet is remembered, so that nothing is made twice: over a
connection an informer may be behind. In the server's own process it never is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from oarlock import errors
from oarlock.controllers import Controller, ObjectKey, Result
from oarlock.extend import ReadOnlyTree, Selector, Tree
from oarlock_cluster.shapes import controller_of, controller_reference, is_terminating, key_of, selector_of
from oarlock_cluster.waiting import paced

__all__ = ["AGAIN", "TreeController", "changes", "namespace_ends", "namespace_of", "owned_by_key"]

T = TypeVar("T")

EXPECTED_S = 300.0
"""How long a write may take to show, after which what is seen counts."""

BATCH_S, MANY = 0.05, 500
"""Changes of an object's pods within this time are looked at together, or within longer where there are many."""

AGAIN = Result(0.1, longest_s=300.0)
"""When pods are tried again that the server refused, of which events have told."""

_INDEX = "controller"


def owned_by_key(tree: ReadOnlyTree) -> Iterable[str]:
    """Under what an object is found: the uid of its controller, or its namespace if it has none."""
    reference = controller_of(tree)
    yield reference["uid"] if reference else f"{tree['metadata'].get('namespace', '')}/"


class TreeController(Controller[T], Generic[T]):
    """A controller of trees. `self._kind` is the kind that it reconciles."""

    def __init__(self) -> None:
        self._indexed: dict[str, Any] = {}
        self._expected: dict[ObjectKey, dict[tuple[str, str, str], tuple[bool, float]]] = {}
        self._looked: dict[ObjectKey, tuple[str, float]] = {}
        self._sizes: dict[ObjectKey, int] = {}
        """How many pods an object had when it was looked at last."""

    @property
    def _kind(self) -> str:
        return str(self.__kind__)

    def _now(self) -> float:
        return self.clock.now()

    # Finding

    def _index(self, kind: str, name: str, keys: Callable[[ReadOnlyTree], Iterable[str]], value: str) -> list[Tree]:
        """The objects of a kind under a value of an index, which is made when it is first asked."""
        informer = self.informers[kind]
        if self._indexed.get(name) is not informer:
            informer.add_index(name, keys)
            self._indexed[name] = informer
        return informer.by_index(name, value)

    def _owned(self, kind: str, owner: ReadOnlyTree) -> list[Tree]:
        """The objects of a kind whose controller is `owner`."""
        return self._index(kind, f"{_INDEX} {kind}", owned_by_key, owner["metadata"]["uid"])

    def _orphans(self, kind: str, namespace: str) -> list[Tree]:
        """The objects of a kind in a namespace that have no controller."""
        return self._index(kind, f"{_INDEX} {kind}", owned_by_key, f"{namespace}/")

    def _concerns(self, kind: str, tree: ReadOnlyTree, owner_kind: str) -> Iterable[tuple[str, str]]:
        """The keys of what an object matters for: its controller, or all that might adopt it."""
        namespace = tree["metadata"].get("namespace", "")
        reference = controller_of(tree)
        if reference is not None:
            if reference["kind"] == owner_kind:
                yield namespace, reference["name"]
            return
        labels = tree["metadata"].get("labels") or {}
        if labels and not is_terminating(tree):
            for owner in self._index(self._kind, "namespace", namespace_of, namespace):
                selector = self._selector(owner)
                if selector is not None and not selector.empty and selector.matches(labels):
                    yield namespace, owner["metadata"]["name"]

    def _selector(self, owner: ReadOnlyTree) -> Selector | None:
        """What selects the objects that are the owner's."""
        return selector_of(owner["spec"].get("selector"))

    # Owning

    async def _claim(
        self, kind: str, owner: ReadOnlyTree, select: Callable[[ReadOnlyTree], bool] | None = None
    ) -> list[Tree]:
        """The objects that are the owner's, once those that fit are adopted and those that don't are released.

        `select` says which objects are looked at.
        """
        selector = self._selector(owner)
        if selector is None:
            return []
        going = is_terminating(owner)
        owned = self._owned(kind, owner)
        self._sizes[key_of(owner)] = len(owned)
        fits = await paced(
            (selector.matches(obj["metadata"].get("labels") or {}), obj) for obj in owned if not select or select(obj)
        )
        claimed = [obj for fit, obj in fits if fit]
        for fit, obj in fits:
            if not fit and not going:
                await self._release(kind, owner, obj)
        if going:
            return claimed
        for obj in self._orphans(kind, owner["metadata"]["namespace"]):
            free = (select is None or select(obj)) and not is_terminating(obj)
            if free and selector.matches(obj["metadata"].get("labels") or {}):
                adopted = await self._adopt(kind, owner, obj)
                if adopted is not None:
                    claimed.append(adopted)
        return claimed

    async def _adopt(self, kind: str, owner: ReadOnlyTree, obj: ReadOnlyTree) -> Tree | None:
        """Make `owner` the controller of an object, unless either is gone, or going."""
        fresh = await self._fresh(owner)
        if fresh is None or is_terminating(fresh):
            return None
        patch = {"metadata": {"ownerReferences": [controller_reference(owner)], "uid": obj["metadata"]["uid"]}}
        return await self._patch(kind, obj, patch)

    async def _release(self, kind: str, owner: ReadOnlyTree, obj: ReadOnlyTree) -> None:
        gone = {"$patch": "delete", "uid": owner["metadata"]["uid"]}
        await self._patch(kind, obj, {"metadata": {"ownerReferences": [gone], "uid": obj["metadata"]["uid"]}})

    async def _fresh(self, owner: ReadOnlyTree) -> Tree | None:
        """The owner as it is on the server; None if it is gone, or another by its name."""
        metadata = owner["metadata"]
        try:
            fresh: Tree = await self.client.get(self._kind, metadata["name"], namespace=metadata.get("namespace", ""))
        except errors.NotFound:
            return None
        return fresh if fresh["metadata"]["uid"] == metadata["uid"] else None

    async def _patch(self, kind: str, obj: ReadOnlyTree, patch: Tree, subresource: str = "") -> Tree | None:
        """A strategic merge patch; None if the object is gone, or another by its name."""
        metadata = obj["metadata"]
        try:
            patched: Tree = await self.client.patch(
                kind,
                metadata["name"],
                patch,
                type="strategic",
                namespace=metadata.get("namespace", ""),
                subresource=subresource,
            )
        except (errors.NotFound, errors.InvalidObject):
            return None
        return patched

    # Writing

    async def _create_pod(self, owner: ReadOnlyTree, pod: Tree) -> Tree:
        """Create a pod and say so. Raises StatusError, of which the owner's events tell."""
        try:
            made = await self.client.create(pod)
        except errors.StatusError as error:
            if not namespace_ends(error):
                self.events.warning(owner, "FailedCreate", f"Error creating: {error.message}", action="")
            raise
        self.events.normal(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", action="")
        return made

    async def _delete_pod(self, owner: ReadOnlyTree, pod: ReadOnlyTree) -> None:
        """Delete a pod and say so. Raises StatusError, but not for one that is gone."""
        metadata = pod["metadata"]
        try:
            await self.client.delete("v1/Pod", metadata["name"], namespace=metadata["namespace"])
        except errors.NotFound:
            return
        except errors.StatusError as error:
            self.events.warning(owner, "FailedDelete", f"Error deleting: {error.message}", action="")
            raise
        self.events.normal(owner, "SuccessfulDelete", f"Deleted pod: {metadata['name']}", action="")

    async def _write_status(
        self, obj: ReadOnlyTree, status: Mapping[str, Any], annotations: Mapping[str, str] | None = None
    ) -> None:
        """Have a status, and annotations beside it, unless the object is gone. Raises Conflict if it has changed."""
        metadata = obj["metadata"]
        patch: Tree = {}
        differs = changes(obj.get("status") or {}, status)
        if differs:
            patch["status"] = differs
        known = metadata.get("annotations") or {}
        missing = {name: value for name, value in (annotations or {}).items() if known.get(name) != value}
        if not patch and not missing:
            return
        patch["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
        if missing:
            patch["metadata"]["annotations"] = missing
        name, namespace = metadata["name"], metadata.get("namespace", "")
        try:
            await self.client.patch(self._kind, name, patch, namespace=namespace, subresource="status")
        except errors.NotFound:
            pass

    async def _make_pods(self, owner: ReadOnlyTree, pods: Sequence[Tree]) -> None:
        """Create pods of an owner, until one can't be. Raises StatusError, but not while the namespace ends."""
        key = key_of(owner)
        for pod in pods:
            try:
                self._expect(key, "v1/Pod", await self._create_pod(owner, pod))
            except errors.StatusError as error:
                if not namespace_ends(error):
                    raise
                return
            await asyncio.sleep(0)  # a store in memory never waits

    async def _take_pods(self, owner: ReadOnlyTree, pods: Sequence[ReadOnlyTree]) -> None:
        """Delete pods of an owner. Raises the first StatusError after having tried all."""
        key, failed = key_of(owner), []
        for pod in pods:
            try:
                await self._delete_pod(owner, pod)
            except errors.StatusError as error:
                failed.append(error)
            else:
                self._expect(key, "v1/Pod", pod, gone=True)
            await asyncio.sleep(0)
        if failed:
            raise failed[0]

    # Many changes of pods are one

    def _pause(self, key: ObjectKey, obj: ReadOnlyTree) -> Result | None:
        """How long to wait because an object that hasn't changed was looked at just now; None to look at it.

        Three hundred pods that get ready are a few looks at all of them, not three hundred.
        """
        metadata, now = obj["metadata"], self.clock.monotonic()
        state = f"{metadata['uid']} {metadata.get('generation') or metadata['resourceVersion']}"
        seen, until = self._looked.get(key, ("", 0.0))
        if seen == state and now < until:
            return Result(until - now)
        self._looked[key] = state, now + BATCH_S * (1 + self._sizes.get(key, 0) / MANY)
        return None

    def _forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        for known in (self._looked, self._expected, self._sizes):
            known.pop(key, None)

    # What was written and may not show yet

    def _expect(self, key: ObjectKey, kind: str, obj: ReadOnlyTree, *, gone: bool = False) -> None:
        name = (kind, obj["metadata"]["name"], obj["metadata"]["uid"])
        self._expected.setdefault(key, {})[name] = (gone, self.clock.monotonic() + EXPECTED_S)

    def _shows(self, key: ObjectKey) -> bool:
        """Whether the informers show all that was written for a key."""
        expected = self._expected.get(key)
        if not expected:
            return True
        now = self.clock.monotonic()
        for (kind, name, uid), (gone, until) in list(expected.items()):
            seen = self.informers[kind].get(name, key.namespace)
            there = seen is not None and seen["metadata"]["uid"] == uid
            if (there and not gone) or (gone and (not there or seen is None or is_terminating(seen))) or now >= until:
                del expected[kind, name, uid]
        if not expected:
            del self._expected[key]
        return not expected


def changes(before: ReadOnlyTree, after: ReadOnlyTree) -> Tree:
    """The merge patch that makes one tree of another."""
    patch: Tree = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = changes(old, value)
            if inner:
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


def namespace_of(tree: ReadOnlyTree) -> Iterable[str]:
    """The index of objects by their namespace."""
    yield tree["metadata"].get("namespace", "")


def namespace_ends(error: errors.StatusError) -> bool:
    causes = error.status().get("details", {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
