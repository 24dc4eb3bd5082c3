"""Exports objects of a store as whole trees, with uid, status and timestamps.

Must not know: in which form they are written. See also: `importing`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.stored.keys import after_prefix, is_object_key, prefix_of, split_key
from oarlock.registry.stored.object_documents import ObjectDocumentError, tree_in
from oarlock.storage.backend import Backend, Rev, shown_key
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress, pages, take_snapshot

__all__ = ["ExportResult", "ExportSelection", "export_objects"]

ROOT = "/registry/"

MOST_NAMED = 100
"""So many objects that can't be read are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Which objects: those of these resources (``orders.shop.example.com``), or all; of a namespace, or all."""

    resources: tuple[str, ...] = ()
    namespace: str = ""

    def ranges(self) -> list[tuple[str, str]]:
        """The ranges of keys, in order."""
        if not self.resources:
            return [(ROOT, after_prefix(ROOT))]
        parts = (name.partition(".") for name in self.resources)
        prefixes = sorted({prefix_of(group, plural) for plural, _, group in parts})
        return [(prefix, after_prefix(prefix)) for prefix in prefixes]

    def has(self, key: str) -> bool:
        """Whether a key of the ranges is selected."""
        return not self.namespace or split_key("/".join(key.split("/")[:4]) + "/", key)[0] == self.namespace


@dataclass(slots=True)
class ExportResult:
    """What was exported, as of revision `rev`. `unreadable` has a line for each object that can't be."""

    rev: Rev
    count: int = 0
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0


async def export_objects(
    backend: Backend, selection: ExportSelection, put: Callable[[Tree], None], report_progress: ReportProgress
) -> ExportResult:
    """Call `put` with every selected object as it is at one revision, in the order of keys."""
    snapshot = await take_snapshot(backend)
    result = ExportResult(snapshot.rev)
    progress = OperationProgress("export", snapshot.keys)
    for span in selection.ranges():
        async for kvs in pages(backend, snapshot.rev, span, damaged=True):
            for kv in kvs:
                if not selection.has(kv.key) or not is_object_key(kv.key):
                    continue
                try:
                    put(tree_in(kv))
                    result.count += 1
                except ObjectDocumentError as error:
                    result.unreadable_count += 1
                    if len(result.unreadable) < MOST_NAMED:
                        result.unreadable.append(f"{shown_key(backend, kv.key)}: {error}")
            progress.done += len(kvs)
            progress.bytes += sum(len(kv.value) for kv in kvs)
            report_progress(progress)
    return result
