"""Copies objects between stores and documents: `exporting` reads all of a store, `importing` writes them into another.

An import looks at all objects before it writes the first. An object that is in the store already, with the same bytes,
is left alone, so an import can be interrupted and run again. One that is there and differs is a conflict: then nothing
is written, unless it may be replaced.
Must not know: where the objects come from. See also: `object_documents`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.stored.form import after_prefix, is_object_key, prefix_of, split_key
from oarlock.registry.stored.object_documents import ObjectDocumentError, ObjectKinds, StoredObject, tree_in
from oarlock.storage.backend import Backend, Rev, StorageError, shown_key
from oarlock.storage.care.snapshot import BulkWriter, KeyWrite, OperationProgress, ReportProgress, pages, take_snapshot

ROOT = "/registry/"

MOST_UNREADABLE = 100
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
                    if len(result.unreadable) < MOST_UNREADABLE:
                        result.unreadable.append(f"{shown_key(backend, kv.key)}: {error}")
            progress.done += len(kvs)
            progress.bytes += sum(len(kv.value) for kv in kvs)
            report_progress(progress)
    return result


PORTION = 100

MOST_NAMED = 20
"""So many mistakes are named; the others are counted."""


class ImportRefused(StorageError):
    """The import was refused, and nothing was written. `lines` are the reasons."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(lines))


@dataclass(frozen=True, slots=True)
class NumberedTree:
    """An object, and where it comes from, for messages: ``document 3 (line 41)``. `problem` is why it can't be read."""

    where: str
    tree: Any
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ImportSource:
    """Where objects come from: each call of `read` gives all of them. `prepare` runs before any is written."""

    read: Callable[[], Iterator[NumberedTree]]
    prepare: Callable[[], Awaitable[object]]


@dataclass(slots=True)
class ImportResult:
    """What an import did."""

    created: int = 0
    replaced: int = 0
    unchanged: int = 0


@dataclass(slots=True)
class _Findings:
    """What was found in the first pass. `expect` has the revisions in the store of the keys that will be written."""

    result: ImportResult = field(default_factory=ImportResult)
    expect: dict[str, Rev] = field(default_factory=dict)
    wheres: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def add(self, line: str) -> None:
        self.problem_count += 1
        if len(self.problems) < MOST_NAMED:
            self.problems.append(line)


async def import_objects(
    backend: Backend, kinds: ObjectKinds, source: ImportSource, *, overwrite: bool, report_progress: ReportProgress
) -> ImportResult:
    """Write the objects of `source`, which is read twice.

    With `overwrite`, objects that differ are replaced. Raises ImportRefused, and what the store raises.
    """
    findings = await _examined(backend, kinds, source.read(), overwrite, report_progress)
    if findings.problems:
        more = findings.problem_count - len(findings.problems)
        raise ImportRefused([*findings.problems, *([f"and {more} more"] if more else [])])
    if findings.expect:
        await source.prepare()
    await _write(backend, kinds, source.read(), findings, report_progress)
    return findings.result


async def _examined(
    backend: Backend,
    kinds: ObjectKinds,
    trees: Iterator[NumberedTree],
    overwrite: bool,
    report_progress: ReportProgress,
) -> _Findings:
    findings = _Findings()
    progress = OperationProgress("checking")
    some: list[tuple[NumberedTree, StoredObject]] = []
    for numbered in trees:
        stored = await _stored(backend, kinds, numbered, findings)
        if stored is not None:
            findings.wheres[stored.key] = numbered.where
            some.append((numbered, stored))
            progress.bytes += len(stored.value)
        if len(some) >= PORTION:
            await _compare(backend, some, overwrite, findings)
            some = []
        progress.done += 1
        report_progress(progress)
    await _compare(backend, some, overwrite, findings)
    return findings


async def _stored(
    backend: Backend, kinds: ObjectKinds, numbered: NumberedTree, findings: _Findings
) -> StoredObject | None:
    """The object as it would be stored; None if it can't be."""
    try:
        if numbered.problem:
            raise ObjectDocumentError(numbered.problem)
        stored = await kinds.stored(numbered.tree)
        if len(stored.value) > backend.caps.max_value:
            raise ObjectDocumentError(f"{stored.key} is larger than {backend.caps.max_value} bytes")
        if stored.key in findings.wheres:
            raise ObjectDocumentError(f"{stored.key} is also {findings.wheres[stored.key]}")
    except ObjectDocumentError as error:
        findings.add(f"{numbered.where}: {error}")
        return None
    return stored


async def _compare(
    backend: Backend, some: Sequence[tuple[NumberedTree, StoredObject]], overwrite: bool, findings: _Findings
) -> None:
    found = await asyncio.gather(*(backend.get(stored.key) for _, stored in some))
    for (numbered, stored), (kv, _) in zip(some, found, strict=True):
        if kv is None:
            findings.expect[stored.key] = 0
        elif kv.value == stored.value:
            findings.result.unchanged += 1
        elif overwrite:
            findings.expect[stored.key] = kv.mod_rev
        else:
            findings.add(f"{numbered.where}: {stored.key} is in the store, and differs: --overwrite replaces it")


async def _write(
    backend: Backend,
    kinds: ObjectKinds,
    trees: Iterator[NumberedTree],
    findings: _Findings,
    report_progress: ReportProgress,
) -> None:
    progress = OperationProgress("import", len(findings.expect))
    writer = BulkWriter(backend)
    result = findings.result
    try:
        for numbered in trees:
            stored = None if numbered.problem else await kinds.stored(numbered.tree)
            if stored is None or stored.key not in findings.wheres:
                raise StorageError(f"{numbered.where} has changed while it was read: run this again")
            expect = findings.expect.get(stored.key)
            if expect is None:
                continue
            await writer.add(KeyWrite(stored.key, stored.value, expect=expect))
            result.replaced += bool(expect)
            result.created += not expect
            progress.done += 1
            progress.bytes += len(stored.value)
            report_progress(progress)
        await writer.finish()
    finally:
        await writer.stop()
