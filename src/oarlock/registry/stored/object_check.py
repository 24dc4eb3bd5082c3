"""Looks at every object in a store: whether it can be decoded, and is where it says that it is.

Needs no server. See also: `schema_check`, which also asks what a server makes of them.
"""

from __future__ import annotations

from dataclasses import field

from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.keys import after_prefix, is_object_key
from oarlock.registry.stored.object_documents import EncryptedObject, ObjectDocumentError, tree_in
from oarlock.storage.backend import Backend, Findings, shown_key
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress, pages, take_snapshot

__all__ = ["ObjectFindings", "broken_objects"]

ROOT = "/registry/"

MOST_NAMED = 100
"""So many objects are named; the others are counted."""


@dataclass(slots=True)
class ObjectFindings:
    """Objects that can't be read: a line for each of those named, and how many there are.

    `sealed` are those whose key is missing, by its name; nothing of them is damaged. `undecryptable` are those of the
    broken ones that can't be decrypted for another reason.
    """

    lines: Findings = field(default_factory=list)
    broken: int = 0
    sealed: dict[str, int] = field(default_factory=dict)
    undecryptable: int = 0

    def add(self, line: str, key: str) -> None:
        if key and (key in self.sealed or len(self.sealed) < MOST_NAMED):
            self.sealed[key] = self.sealed.get(key, 0) + 1
        else:
            self.broken += 1
        if len(self.lines) < MOST_NAMED:
            self.lines.append(line)

    def forget(self, known: Findings) -> None:
        """Leave out what is said in `known` already."""
        before = len(self.lines)
        self.lines = [line for line in self.lines if line not in known]
        self.broken -= before - len(self.lines)


async def broken_objects(backend: Backend, report_progress: ReportProgress) -> ObjectFindings:
    """The objects that no server could read. Those that are encrypted, where nothing decrypts, aren't looked into."""
    snapshot = await take_snapshot(backend)
    progress = OperationProgress("objects", snapshot.keys)
    findings = ObjectFindings()
    async for kvs in pages(backend, snapshot.rev, (ROOT, after_prefix(ROOT)), damaged=True):
        for kv in kvs:
            if not is_object_key(kv.key):
                continue
            try:
                tree_in(kv)
            except ObjectDocumentError as error:
                encrypted = error if isinstance(error, EncryptedObject) else None
                if encrypted is None or encrypted.tried:
                    key = encrypted.key if encrypted is not None else ""
                    findings.undecryptable += encrypted is not None and not key
                    findings.add(f"{shown_key(backend, kv.key)}: {error}", key)
        progress.done += len(kvs)
        progress.bytes += sum(len(kv.value) for kv in kvs)
        report_progress(progress)
    count = findings.broken + sum(findings.sealed.values())
    if count > MOST_NAMED:
        findings.lines.append(f"and {count - MOST_NAMED} more objects")
    return findings
