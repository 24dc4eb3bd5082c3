"""ControllerRevisions: which templates a StatefulSet or a DaemonSet has had.

Source: k8s.io/kubernetes ``pkg/controller/history``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeVar

from oarlock import errors
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.shapes import controller_reference, labels_of, short_hash

__all__ = ["REVISIONS", "REVISION_LABEL", "RevisionedController", "template_data"]

T = TypeVar("T")

REVISIONS = "apps/v1/ControllerRevision"
REVISION_LABEL = "controller-revision-hash"


def template_data(owner: ReadOnlyTree) -> Tree:
    """The patch that brings the owner's template back."""
    template = owner["spec"].get("template") or {}
    spec = dict(template.get("spec") or {})
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{**container, "resources": container.get("resources") or {}} for container in spec[kind]]
    return {"spec": {"template": {**template, "spec": spec, "$patch": "replace"}}}


class RevisionedController(TreeController[T], Generic[T]):
    """A controller of objects whose templates are kept as ControllerRevisions."""

    _hash_label = REVISION_LABEL

    async def _revisions(self, owner: ReadOnlyTree) -> list[Tree]:
        """The owner's revisions, in their order."""
        return sorted(
            await self._claim(REVISIONS, owner),
            key=lambda revision: (revision["revision"], revision["metadata"]["name"]),
        )

    async def _current_revision(self, owner: ReadOnlyTree, revisions: Sequence[Tree]) -> Tree | None:
        """The revision of the owner's template, made or moved to the end if need be; None while it can't be."""
        data = template_data(owner)
        last = revisions[-1]["revision"] if revisions else 0
        equal = [revision for revision in revisions if revision.get("data") == data]
        if equal:
            newest = equal[-1]
            if newest["revision"] == last:
                return newest
            return await self._patch(REVISIONS, newest, {"revision": last + 1})
        name = owner["metadata"]["name"]
        suffix = short_hash([data, (owner.get("status") or {}).get("collisionCount", 0)])
        metadata: Tree = {
            "name": f"{name}-{suffix}",
            "namespace": owner["metadata"]["namespace"],
            "labels": {**labels_of(owner["spec"].get("template") or {}), self._hash_label: suffix},
            "ownerReferences": [controller_reference(owner)],
        }
        if owner["metadata"].get("annotations"):
            metadata["annotations"] = dict(owner["metadata"]["annotations"])
        body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata}
        try:
            made: Tree = await self.client.create({**body, "revision": last + 1, "data": data})
        except errors.AlreadyExists:
            return await self._that_exists(owner, metadata["name"], data)
        return made

    async def _that_exists(self, owner: ReadOnlyTree, name: str, data: Tree) -> Tree | None:
        """The revision of a name, if it is that of `data`; else another name is taken the next time."""
        there: Tree = await self.client.get(REVISIONS, name, namespace=owner["metadata"]["namespace"])
        if there.get("data") == data:
            return there
        status = owner.get("status") or {}
        await self._write_status(owner, {**status, "collisionCount": status.get("collisionCount", 0) + 1})
        return None

    async def _forget_revisions(
        self, owner: ReadOnlyTree, revisions: Sequence[Tree], live: Collection[Any], *, all_count: bool = False
    ) -> None:
        """Delete those that are more than the history keeps; `live` are the names or hashes of those in use.

        If `all_count`, those in use are part of the history's length.
        """
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        labels = [(revision, labels_of(revision).get(self._hash_label)) for revision in revisions]
        unused = [
            revision for revision, text in labels if revision["metadata"]["name"] not in live and text not in live
        ]
        for revision in unused[: max(0, len(revisions if all_count else unused) - limit)]:
            try:
                await self.client.delete(
                    REVISIONS, revision["metadata"]["name"], namespace=revision["metadata"]["namespace"]
                )
            except errors.NotFound:
                pass
