"""Looks at every object in a store: whether it can be decoded, and is where it says that it is.

Needs no server. See also: `schema_check`, which also asks what a server makes of them.
"""

from __future__ import annotations

from oarlock.registry.keys import after_prefix, is_object_key
from oarlock.registry.object_documents import EncryptedObject, ObjectDocumentError, tree_in
from oarlock.storage.backend import Backend, Findings, shown_key
from oarlock.storage.care.snapshot import OperationProgress, Tell, pages, take_snapshot

__all__ = ["broken_objects"]

ROOT = "/registry/"

MOST_NAMED = 100
"""So many objects are named; the others are counted."""


async def broken_objects(backend: Backend, tell: Tell) -> Findings:
    """A line for each object that no server could read. Those that are encrypted aren't looked into."""
    snapshot = await take_snapshot(backend)
    progress = OperationProgress("objects", snapshot.keys)
    findings: Findings = []
    count = 0
    async for kvs in pages(backend, snapshot.rev, (ROOT, after_prefix(ROOT)), damaged=True):
        for kv in kvs:
            if not is_object_key(kv.key):
                continue
            try:
                tree_in(kv)
            except EncryptedObject:
                pass
            except ObjectDocumentError as error:
                count += 1
                if count <= MOST_NAMED:
                    findings.append(f"{shown_key(backend, kv.key)}: {error}")
        progress.done += len(kvs)
        progress.bytes += sum(len(kv.value) for kv in kvs)
        tell(progress)
    if count > MOST_NAMED:
        findings.append(f"and {count - MOST_NAMED} more objects")
    return findings
