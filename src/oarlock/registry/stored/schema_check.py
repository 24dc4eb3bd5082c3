"""Looks through the stored objects of a resource for those that today's schemas refuse, or can't decode.

Each is decoded, converted to every version that is served, read by its class, and validated as a write of the unchanged
object would be, rules included. A user's `prepare` and `validate` aren't run. Nothing is changed, and servers may go on
writing; once a whole pass finds nothing, the store forgets the older schemas. A start logs the resources whose schemas
have changed since their objects were stored (`DriftLog`).
Must not know: who asks for it, how progress is shown. See also: `migration`, which rewrites objects.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

import msgspec

from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import FAILED, ConversionError
from oarlock.registry.served import Served
from oarlock.registry.stored.form import StoredForm, after_prefix
from oarlock.registry.stored.records import DefinitionRecords, SchemaDrift
from oarlock.schema.compiled import NOT_CHECKED, CompiledVersion, compile_version
from oarlock.schema.types.views import ViewError
from oarlock.schema.validation.objectmeta import validate_object_meta
from oarlock.storage.backend import KV, Backend
from oarlock.storage.cache.entry import Entry, Interner

log = logging.getLogger("oarlock.registry")

LINES = 20
"""The most lines in all."""

OF_ONE = 5
"""The most lines about one version of a resource."""

REMEMBERED = 1000
"""How many changes are remembered, so as not to be logged again."""


class DriftLog:
    """Logs each change once, also when the definition is replaced again, as far as it remembers."""

    def __init__(self) -> None:
        self._logged: dict[str, None] = {}

    def log(self, drifts: Sequence[SchemaDrift], command: str) -> None:
        """Log each change as a warning, with the `command` that lists the objects."""
        lines: list[str] = []
        left_out = 0
        for drift in drifts:
            new = [line for line in map(partial(_line, drift), drift.changes) if line not in self._logged]
            lines += new[:OF_ONE]
            left_out += len(new[OF_ONE:])
            self._logged.update(dict.fromkeys(new))
        for line in lines[:LINES]:
            log.warning("objects stored before may not fit: %s; to list them: %s", line, command)
        left_out += len(lines[LINES:])
        if left_out:
            text = "objects stored before may not fit %d more changes of schemas; to list them: %s"
            log.warning(text, left_out, command)
        for line in [*self._logged][:-REMEMBERED]:
            del self._logged[line]


def _line(drift: SchemaDrift, change: str) -> str:
    return f"{drift.resource} {drift.version}: {change}"


PAGE_BYTES = 4 * 1024 * 1024
"""How many bytes a page is to have, judged by the one before."""

MOST_KEYS = 500
FEWEST_KEYS = 16

SHOWN = 5
"""How many reasons are shown of one object."""

LONGEST = 500
"""How many characters are shown of one reason."""

_decode = msgspec.json.Decoder().decode

Report = Callable[[str], None]


@dataclass(slots=True)
class SchemaCheck:
    """How far it is: `seen` of about `total` objects were looked at, and `refused` of them don't fit."""

    resource: str
    total: int = 0
    seen: int = 0
    refused: int = 0


async def check_schemas(
    backend: Backend, served: Served, report: Report, report_progress: Callable[[SchemaCheck], None]
) -> SchemaCheck:
    """Check the objects of one stored resource. `report` gets a line for each that doesn't fit, `report_progress` is
    for progress.

    Raises `records.StoreTooNew`, `schema.SchemaError` and what the store raises.
    """
    definition = served.definition
    records = DefinitionRecords(backend)
    await records.check([definition])
    since = (await records.find(definition)).rev
    found = SchemaCheck(str(definition.group_resource))
    form = StoredForm(definition, served.conversions, lambda tree, unknown: (), Interner())
    form.unread.is_current = lambda entry: True
    checker = _ObjectChecker(served)
    found.total, _ = await backend.count(form.prefix, after_prefix(form.prefix))
    async for kvs in _pages(backend, form.prefix):
        entries = [form.describe(kv.key, kv.value, kv.mod_rev, kv.create_rev) for kv in kvs]
        if form.unread.busy:
            await form.unread.settled()
        for entry, reasons in zip(entries, await checker.reasons(form.head, entries), strict=True):
            if reasons:
                found.refused += 1
                report(f"{found.resource} {_name(entry)}: {_shown(reasons)}")
        form.broken.clear()
        found.seen += len(kvs)
        report_progress(found)
    if not found.refused and since:
        await records.settle(definition, since)
    return found


class _ObjectChecker:
    """Finds what is wrong with objects, in every version of one resource."""

    def __init__(self, served: Served) -> None:
        definition = served.definition
        self._served = served
        # the stored version first: a mistake that is in several is reported in that one's words
        names = [
            version.name
            for version in definition.versions
            if version.served or version.name in (definition.stored_as, definition.hub)
        ]
        self._versions = sorted(names, key=lambda name: name != definition.stored_as)
        self._compiled = {name: compile_version(definition, name) for name in self._versions}

    async def reasons(self, head: bytes, entries: Sequence[Entry]) -> list[list[str]]:
        """The errors of each object."""
        found: list[dict[str, None]] = [{entry.broken: None} if entry.broken else {} for entry in entries]
        stored_as = self._served.definition.stored_as
        for version in self._versions:
            # what doesn't fit as it is stored can't be converted either
            whole = [at for at, reasons in enumerate(found) if not reasons]
            made = await self._served.conversions.each(
                whole, lambda at: _decode(head + entries[at].body), stored_as, version
            )
            for at, tree in zip(whole, made, strict=True):
                if isinstance(tree, StatusError):
                    found[at][f"it can't be converted to {version}: {_why(tree)}"] = None
                    continue
                where = f" (as {version})" if version != stored_as else ""
                found[at].update(dict.fromkeys(error.message + where for error in self._errors(tree, version)))
        return [[*reasons] for reasons in found]

    def _errors(self, tree: Tree, version: str) -> Iterator[FieldError]:
        definition, compiled = self._served.definition, self._compiled[version]
        yield from validate_object_meta(
            tree["metadata"], namespaced=definition.namespaced, name_rule=definition.name_rule
        )
        errors = _refused(tree, compiled)
        yield from errors
        projection = self._served.projection
        if not errors and projection is not None and version == definition.hub:
            try:
                projection.view(tree)
            except ViewError as error:
                yield from error.errors


def _refused(tree: Tree, compiled: CompiledVersion) -> list[FieldError]:
    """What a write of the unchanged object would be refused for."""
    type_errors = compiled.type_errors(tree)
    if type_errors:
        return type_errors
    compiled.prune(tree)
    compiled.normalize(tree)
    compiled.default(tree)
    return [error for error in compiled.validate(tree) if not error.message.endswith(NOT_CHECKED)]


async def _pages(backend: Backend, prefix: str) -> AsyncIterator[Sequence[KV]]:
    """The live objects, in key order, each page as it is when it is read."""
    start, end = prefix, after_prefix(prefix)
    limit, more = FEWEST_KEYS, True
    while more:
        page = await backend.list(start, end, limit=limit)
        more = page.more
        if page.kvs:
            yield page.kvs
            start = page.kvs[-1].key + "\0"
            size = sum(len(kv.value) for kv in page.kvs)
            limit = max(FEWEST_KEYS, min(PAGE_BYTES * len(page.kvs) // max(size, 1), 2 * limit, MOST_KEYS))


def _why(error: StatusError) -> str:
    """The reason, with what the converter raised."""
    cause = error.__cause__
    if isinstance(error, ConversionError):
        return f"{type(cause).__name__}: {cause}" if error.why == FAILED and cause is not None else error.why
    return error.message


def _name(entry: Entry) -> str:
    return f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name


def _shown(reasons: Sequence[str]) -> str:
    texts = [" ".join(reason[:LONGEST].split()) for reason in reasons[:SHOWN]]
    if len(reasons) > SHOWN:
        texts.append(f"and {len(reasons) - SHOWN} more")
    return "; ".join(texts)
