"""Objects outside of a store, as whole trees, and back: which key and which bytes an object has in the store.

The kinds are those that servers recorded in the store, or those of a server that is at hand. With a server, objects are
stored in the version that it writes, and must be convertible; else as they are, in a version the store holds already.
Neither hooks nor admission see them: they are taken as they were, with uid, status and timestamps. The objects of a
store or a backup can be checked the same way, without a server.
Must not know: YAML, files. See also: `importing`; `records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import msgspec

from oarlock.meta import names
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.served import Served
from oarlock.registry.stored.form import (
    StoredForm,
    after_prefix,
    encode_tail,
    is_object_key,
    is_protobuf,
    object_key,
    prefix_of,
    split_key,
    tree_of,
)
from oarlock.registry.stored.records import Facts
from oarlock.storage.backend import KV, Backend, Damaged, Findings, Sealed, shown_key
from oarlock.storage.cache.entry import Interner
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress, pages, take_snapshot

MAX_NAME = 253

_encode = msgspec.json.Encoder().encode


class ObjectDocumentError(ValueError):
    """An object that can't be stored, or a value that isn't an object. The message is one line."""


class EncryptedObject(ObjectDocumentError):
    """A value that can't be decrypted; if not `tried`, because nothing decrypts. `key` names a key that is missing."""

    def __init__(self, why: str, key: str = "", *, tried: bool = False) -> None:
        super().__init__(why)
        self.key, self.tried = key, tried


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it is stored."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class _Kind:
    """A resource: its plural, and the versions in which it may be stored; with a server, its stored form."""

    plural: str
    versions: frozenset[str]
    form: StoredForm | None = None


class ObjectKinds:
    """The kinds that objects may be of."""

    def __init__(self, records: Mapping[str, Facts], served: Iterable[Served] = ()) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}
        for name, facts in records.items():
            plural, _, group = name.partition(".")
            self._kinds[group, str(facts.get("kind"))] = _Kind(plural, frozenset(facts.get("storedVersions", ())))
        for resource in served:
            definition = resource.definition
            form = StoredForm(definition, resource.conversions, lambda tree, unknown: (), Interner())
            versions = frozenset(version.name for version in definition.versions)
            self._kinds[definition.group, definition.names.kind] = _Kind(definition.names.plural, versions, form)

    async def stored(self, tree: Any) -> StoredObject:
        """Where and how an object is stored. Raises `ObjectDocumentError`."""
        kind, group = self._kind(tree)
        namespace, name = _place(tree["metadata"])
        if kind.form is not None and kind.form.definition.namespaced != bool(namespace):
            why = "needs a metadata.namespace" if not namespace else "has a metadata.namespace, and its kind has none"
            raise ObjectDocumentError(f"{name} {why}")
        key = object_key(prefix_of(group, kind.plural), namespace, name)
        metadata = {field: value for field, value in tree["metadata"].items() if field not in _NOT_STORED}
        try:
            head = b'{"apiVersion":%s,"kind":%s,' % (_encode(tree["apiVersion"]), _encode(tree["kind"]))
            value = head + encode_tail({**tree, "metadata": metadata})
        except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
            raise ObjectDocumentError(f"{name} can't be stored: {error}") from None
        if kind.form is None:
            return StoredObject(key, value)
        return StoredObject(key, await _converted(kind.form, key, value))

    def _kind(self, tree: Any) -> tuple[_Kind, str]:
        if not isinstance(tree, dict):
            raise ObjectDocumentError("is no object")
        api_version, name = tree.get("apiVersion"), tree.get("kind")
        if not isinstance(api_version, str) or not isinstance(name, str) or not api_version or not name:
            raise ObjectDocumentError("has no apiVersion and kind")
        if not isinstance(tree.get("metadata"), dict):
            raise ObjectDocumentError("has no metadata")
        group, _, version = api_version.rpartition("/")
        kind = self._kinds.get((group, name))
        if kind is None:
            known = ", ".join(sorted(f"{kind} of {group}" for group, kind in self._kinds)) or "none"
            raise ObjectDocumentError(f"is a {name} of {api_version}; known kinds: {known}; --server names a server")
        if version not in kind.versions:
            known = ", ".join(sorted(kind.versions))
            raise ObjectDocumentError(f"is a {name} of version {version}, and only {known} may be stored; see --server")
        return kind, group


_NOT_STORED = ("resourceVersion", "selfLink")


def _place(metadata: Tree) -> tuple[str, str]:
    """The namespace and name."""
    name, namespace = metadata.get("name"), metadata.get("namespace", "")
    if not isinstance(name, str) or not name:
        raise ObjectDocumentError("has no metadata.name")
    if names.path_segment_name(name) or not name.isprintable() or len(name) > MAX_NAME:
        raise ObjectDocumentError(f"has a metadata.name that isn't one: {name[:MAX_NAME]!r}")
    if not isinstance(namespace, str) or (namespace and names.dns1123_label(namespace)):
        raise ObjectDocumentError(f"{name} has a metadata.namespace that isn't one: {str(namespace)[:MAX_NAME]!r}")
    for required in ("uid", "creationTimestamp"):
        if not isinstance(metadata.get(required), str) or not metadata[required]:
            raise ObjectDocumentError(
                f"{name} has no metadata.{required}: only exported objects can be imported; "
                "`kubectl create` makes others"
            )
    return namespace, name


async def _converted(form: StoredForm, key: str, value: bytes) -> bytes:
    """The value in the version that the server writes."""
    entry = form.describe(key, value, 1, 1)
    if form.unread.busy:
        await form.unread.settled()
    if entry.broken:
        raise ObjectDocumentError(f"{key} can't be stored: {entry.broken}")
    return form.restore(entry)


def tree_in(kv: KV) -> Tree:
    """The object in a value of the store.

    Raises `ObjectDocumentError`, which doesn't name the key, if it is none, or one of another key.
    """
    if isinstance(kv.value, Sealed):
        raise EncryptedObject(kv.value.why, kv.value.key, tried=True)
    if isinstance(kv.value, Damaged):
        raise ObjectDocumentError(kv.value.why)
    if kv.value.startswith(b"k8s:enc:"):
        raise EncryptedObject("is encrypted: give --encryption-provider-config")
    try:
        tree: Tree = tree_of(kv.value)
    except ValueError as error:  # msgspec's errors are ValueErrors
        what = str(error) if is_protobuf(kv.value) else f"is no JSON object: {error}"
        raise ObjectDocumentError(what) from None
    if not isinstance(tree, dict):
        raise ObjectDocumentError(f"is no JSON object: it is a {type(tree).__name__}")
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or not all(isinstance(tree.get(name), str) for name in ("apiVersion", "kind")):
        raise ObjectDocumentError("is no object with apiVersion, kind and metadata")
    place = split_key("/".join(kv.key.split("/")[:4]) + "/", kv.key)
    if (metadata.get("namespace") or "", metadata.get("name")) != place:
        raise ObjectDocumentError("is an object of another name or namespace")
    return tree


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
