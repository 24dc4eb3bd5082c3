"""Imports objects into a store: all are looked at before the first is written.

An object that is in the store already, with the same bytes, is left alone, so an import can be interrupted and run
again. One that is there and differs is a conflict: then nothing is written, unless it may be replaced.

Must not know: where the objects come from. See also: `object_documents`, `exporting`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from oarlock.meta.dataclass import dataclass
from oarlock.registry.stored.object_documents import ObjectDocumentError, ObjectKinds, StoredObject
from oarlock.storage.backend import Backend, Rev, StorageError
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress
from oarlock.storage.care.writing import BulkWriter, KeyWrite

__all__ = ["ImportRefused", "ImportResult", "ImportSource", "NumberedTree", "import_objects"]

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
