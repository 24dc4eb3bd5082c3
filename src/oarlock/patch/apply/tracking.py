"""Entry points for a server: update managedFields after a write, and carry out an apply.

All trees are whole objects in the version of the request. The `FieldManager` names the manager and the time.
Must not know: requests, defaults, admission. Source: KEP-555; the rules of the API server's field managers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.json_trees import Tree
from oarlock.meta.memo import Memo
from oarlock.patch.apply import validate
from oarlock.patch.apply.elements import equal
from oarlock.patch.apply.fieldsets import (
    Comparison,
    FieldsV1,
    Filter,
    compare,
    difference,
    everything,
    has,
    make,
    union,
)
from oarlock.patch.apply.fieldsets import decode as decode_fields
from oarlock.patch.apply.managers import (
    MAX_UPDATE_MANAGERS,
    LoadedManager,
    Managed,
    ManagedFieldsEntry,
    ManagerId,
    OwnerCache,
    Owners,
    cap,
    decode,
    encode,
)
from oarlock.patch.apply.owned import fields_of
from oarlock.patch.apply.reconcile import reconcile
from oarlock.patch.apply.schema import ValueType
from oarlock.patch.apply.updater import Convert, Owned, Updater, never_converts
from oarlock.patch.errors import (
    ApplyConflict,
    ApplyError,
    FieldsError,
    ManagedFieldsError,
    OwnerConflict,
    TypedError,
)

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""Names and values of all annotations of an object together."""


def remaining(
    conflicts: tuple[OwnerConflict, ...], type_: ValueType, live: Tree, api_version: str
) -> tuple[OwnerConflict, ...]:
    """The conflicts about fields that weren't in the last client-side apply, or that have changed since."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
    if not text or type(text) is not str:
        return conflicts
    try:
        applied = json.decode(text.encode())
        if type(applied) is not dict or applied.get("apiVersion") != api_version:
            return conflicts
        validate.check(type_, applied)
        changes = compare(type_, applied, live)
        fields = difference(fields_of(type_, applied), changes.changed)
    except (DecodeError, TypedError, UnicodeEncodeError):
        return conflicts
    fields = difference(fields, changes.removed)
    return tuple(conflict for conflict in conflicts if not has(fields, conflict.path))


def with_last_applied(merged: Tree, config: Tree) -> Tree:
    """`merged` with `config` in its annotation, if it has one. If that is too large, the annotation is removed."""
    annotations = (merged.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return merged
    applied = dict(config)
    if type(applied.get("metadata")) is dict and type(applied["metadata"].get("annotations")) is dict:
        own = {name: value for name, value in applied["metadata"]["annotations"].items() if name != ANNOTATION}
        applied["metadata"] = {**applied["metadata"], "annotations": own}
        if not own:
            del applied["metadata"]["annotations"]
    text = json.encode_canonical(applied).decode() + "\n"
    others = {name: value for name, value in annotations.items() if name != ANNOTATION}
    total = sum(len(name.encode()) + len(str(value).encode()) for name, value in others.items())
    if total + len(ANNOTATION) + len(text.encode()) <= MAX_ANNOTATIONS_BYTES:
        others = {**annotations, ANNOTATION: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": others}}


_BEFORE_FIRST_APPLY = "before-first-apply"
_WRITER = ManagerId("", "", "", "")
"""Who writes now, until what it wrote is joined with what it owned before."""

_NOBODYS_METADATA: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)

_WITHOUT_OWNERS: Final = frozenset(_NOBODYS_METADATA)

_NOBODYS: Final = make(
    [("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in _NOBODYS_METADATA)]
)
"""Nobody owns these. Labels, finalizers and generateName are owned."""

READ_BYTES = 4 * 1024 * 1024
"""How much is remembered, of one resource, of the sets of fields that were read."""

CREATED_BYTES = 2 * 1024 * 1024
"""How much is remembered, of one resource, of new objects: those of a controller differ in their names."""

_LONGEST_SET = 8192
"""A longer text of a set isn't remembered: those of objects with a hundred fields fit."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class FieldManager(NamedTuple):
    """The writer of a change: name of the field manager, apiVersion of the request, time as RFC 3339 with seconds."""

    manager: str
    api_version: str
    now: str
    subresource: str = ""


class FieldTracker:
    """Tracks the fields of one resource. `types` are the types of whole objects by apiVersion.

    `filters` say what a write to a subresource ("" is the resource itself) may own; everything else it can't.
    `convert` converts a tree to an apiVersion; it must not change its argument. `blanks` are objects without values
    by apiVersion: nobody owns what every object of a declared type has (``spec: {}``).
    With `everything_tracked`, the fields of an object without managedFields belong to the manager
    ``before-first-apply`` from the first apply on; otherwise nobody owns them.
    """

    def __init__(
        self,
        types: Mapping[str, ValueType],
        convert: Convert = never_converts,
        filters: Mapping[str, Filter] | None = None,
        blanks: Mapping[str, Tree] | None = None,
        *,
        everything_tracked: bool = True,
    ) -> None:
        self._types = types
        self._everything_tracked = everything_tracked
        self._blanks = {api_version: (blanks or {}).get(api_version, {}) for api_version in types}
        self._updaters: dict[str, Updater[ManagerId]] = {"": Updater(types, convert, nobodys=_NOBODYS)}
        for subresource, keep in (filters or {}).items():
            self._updaters[subresource] = Updater(types, convert, dict.fromkeys(types, keep), _NOBODYS)
        self._everything: Updater[ManagerId] = Updater(types, convert, nobodys=_NOBODYS)
        self._read: Memo[tuple[bytes, str, bool], LoadedManager] = Memo(
            READ_BYTES, entry_bytes=512, per_byte=10, longest_bytes=_LONGEST_SET
        )
        self._created: Memo[bytes, bytes] = Memo(CREATED_BYTES, entry_bytes=512, per_byte=2, longest_bytes=_LONGEST_SET)
        self._cache = OwnerCache()

    def update(self, live: Tree | None, new: Tree, writer: FieldManager) -> Tree:
        """`new` with its managedFields, after a create (`live` is None), an update or a patch. Never fails.

        The writer owns what it changed. Valid managedFields in the request replace the live ones; an empty list resets
        them. An object without any isn't tracked until the first apply. If fields can't be tracked (a list item without
        its key, which validation reports), managedFields stay as they were.
        """
        entries = None if live is None else live["metadata"].get("managedFields")
        sent = new["metadata"].get("managedFields")
        if writer.subresource or sent == entries:
            sent = None
        compared: Comparison | None = None
        try:
            if entries and live is not None:
                compared = compare(self._types[writer.api_version], live, new)
                if sent is None and not any(map(_can_be_owned, compared)):
                    return _with_entries(new, entries)
            managed = self._sent_or_live(sent, entries)
            if live is not None and not managed.owned:
                return _with_entries(new, None)
            self._update(self._blanks[writer.api_version] if live is None else live, new, managed, writer, compared)
            if len(managed.owned) > MAX_UPDATE_MANAGERS:
                cap(managed)
        except ApplyError:
            return _with_entries(new, entries)
        return _with_entries(new, encode(managed, entries))

    def apply(self, live: Tree | None, config: Tree, writer: FieldManager, *, force: bool = False) -> Tree:
        """The object after `config` was applied, with its managedFields. It shares parts with `live` and `config`.

        `live` is None when the apply creates the object. Raises TypedError (undeclared fields, wrong types,
        duplicates), ApplyConflict, ManagedFieldsError and FieldsError (in the live entries, or entries in `config`).
        """
        if (config.get("metadata") or {}).get("managedFields") is not None:
            raise ManagedFieldsError("metadata.managedFields must be nil")
        type_ = self._types[writer.api_version]
        validate.check(type_, config)
        entries = None if live is None else live["metadata"].get("managedFields")
        managed = decode(entries, self._loaded)
        before = {} if live is None else _with_entries(live, None)
        if not managed.owned and live is not None and self._everything_tracked:
            earlier = FieldManager(_BEFORE_FIRST_APPLY, writer.api_version, writer.now, writer.subresource)
            self._update(self._blanks[writer.api_version], before, managed, earlier)
            cap(managed)
        merged = self._apply(before, config, managed, writer, force)
        if writer.manager == KUBECTL:
            merged = with_last_applied(merged, config)
        return _with_entries(merged, encode(managed, entries))

    # The steps ---------------------------------------------------------------------------------------------------

    def _update(
        self, live: Tree, new: Tree, managed: Managed, writer: FieldManager, compared: Comparison | None = None
    ) -> None:
        """Make the writer the owner of the differences between `live` and `new`. Changes `managed`.

        `compared` is the comparison of the two, if known.
        """
        version = writer.api_version
        type_ = self._types[version]
        if compared is not None:
            change: Comparison | bytes = compared
        elif live is self._blanks.get(version) and _holds(type_, live, new):
            change = self._everything_in(new, version)  # which tells what is added, for less
        else:
            change = compared = compare(type_, live, new)
        key = self._cache.key(change, managed.owned, version, (writer.manager, version, writer.subresource))
        known = None if key is None else self._cache.results.get(key)
        outcome = None if known is None else known[1]
        if outcome is None:
            compared = compare(type_, live, new) if compared is None else compared
            outcome = self._outcome(compared, live, new, managed.owned, writer)
            self._cache.put(key, managed.owned, outcome)
        if outcome.wrote is not None:
            managed.times[outcome.wrote] = writer.now
        managed.owned = dict(outcome.owned)

    def _everything_in(self, new: Tree, version: str) -> bytes:
        """The text of the set of all fields of a new object. Those that nobody owns may be those of an earlier one."""
        metadata, rest = {**new["metadata"]}, {**new}
        for name in _WITHOUT_OWNERS.intersection(metadata):
            del metadata[name]
        del rest["metadata"]
        text = _encode((version, metadata, rest))
        known = self._created.get(text)
        if known is None:
            known = _encode(everything(self._types[version], new))
            self._created.put(text, known, len(text))
        return known

    def _outcome(
        self, compared: Comparison, live: Tree, new: Tree, before: Mapping[ManagerId, Owned], writer: FieldManager
    ) -> Owners:
        """The owners after the writer's change from `live` to `new`."""
        updater = self._updaters.get(writer.subresource, self._everything)
        owned = updater.update(live, new, writer.api_version, before, _WRITER, compared)
        mine = owned.pop(_WRITER, None)
        fields: FieldsV1 = mine.fields if mine is not None else {}
        if not _NOBODYS.keys().isdisjoint(fields):
            fields = difference(fields, _NOBODYS)
        if not fields:
            return Owners(owned, None)
        identity = ManagerId.make(writer.manager or "unknown", "Update", writer.api_version, writer.subresource)
        earlier = owned.get(identity)
        if earlier is not None:
            fields = union(fields, earlier.fields)
        made, kept = Owned(fields, writer.api_version, applied=False), before.get(identity)
        # the very same set is written as it was read
        owned[identity] = kept if kept is not None and kept == made else made
        return Owners(owned, identity)

    def _apply(self, live: Tree, config: Tree, managed: Managed, writer: FieldManager, force: bool) -> Tree:
        updater = self._updaters.get(writer.subresource, self._everything)
        version = writer.api_version
        identity = ManagerId.make(writer.manager or "unknown", "Apply", version, writer.subresource)
        try:
            merged, owned = updater.apply(live, config, version, managed.owned, identity, force=force)
        except ApplyConflict as refused:
            conflicts = refused.conflicts
            if writer.manager == KUBECTL:
                conflicts = remaining(conflicts, self._types[version], live, version)
            if conflicts:
                raise ApplyConflict(conflicts) from None
            merged, owned = updater.apply(live, config, version, managed.owned, identity, force=True)
        if not equal(merged, live):
            managed.times[identity] = writer.now
        mine = owned.get(identity)
        if mine is not None and mine is not managed.owned.get(identity):
            fields = difference(mine.fields, _NOBODYS)
            del owned[identity]
            if fields:
                owned[identity] = Owned(fields, version, applied=True)
        managed.owned = owned
        return dict(merged)

    # Reading -----------------------------------------------------------------------------------------------------

    def _sent_or_live(self, sent: Any, entries: list[ManagedFieldsEntry] | None) -> Managed:
        if sent is not None:
            if sent == [] or sent == [{}]:
                return Managed()
            try:
                managed = decode(sent, self._loaded)
            except (ManagedFieldsError, FieldsError, TypeError):
                managed = Managed()
            if managed.owned:
                return managed
        try:
            return decode(entries, self._loaded)
        except (ManagedFieldsError, FieldsError, TypeError):
            return Managed()

    def _loaded(self, fields: Any, api_version: str, applied: bool) -> LoadedManager:
        text = _encode(fields)
        key = (text, api_version, applied)
        cached = self._read.get(key)
        if cached is not None:
            return cached
        loaded = self._load(text, api_version, applied)
        self._read.put(key, loaded, len(text))
        return loaded

    def _load(self, text: bytes, api_version: str, applied: bool) -> LoadedManager:
        type_ = self._types.get(api_version)
        if type_ is None:
            return LoadedManager(None, False)
        tree = _decode(text)
        decoded = decode_fields(tree)
        reconciled = reconcile(type_, decoded)
        return LoadedManager(Owned(reconciled, api_version, applied), reconciled is decoded and decoded == tree)


def _holds(type_: ValueType, blank: Tree, new: Tree) -> bool:
    """Whether `new` has every object that is in `blank`, so that the comparison depends on `new` alone.

    False if one of them is atomic, empty or not.
    """
    form = type_.map
    for name, inside in blank.items():
        there = new.get(name)
        child = form.fields.get(name) if form is not None else None
        if type(there) is not dict or child is None or child.map is None or child.map.atomic:
            return False
        if inside and not _holds(child, inside, there):
            return False
    return True


def _can_be_owned(fields: FieldsV1) -> bool:
    """Whether a set of fields has one that isn't nobody's."""
    return bool(fields) and (not fields.keys() <= _NOBODYS.keys() or bool(difference(fields, _NOBODYS)))


def _with_entries(tree: Tree, entries: list[ManagedFieldsEntry] | None) -> Tree:
    metadata = tree.get("metadata") or {}
    if metadata.get("managedFields") is entries and (entries is not None or "managedFields" not in metadata):
        return tree
    metadata = dict(metadata)
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries
    return {**tree, "metadata": metadata}


_BROKEN = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
    "mutating admission controller; please fix your requests: %s"
)


def after_admission(before: Tree, after: Tree) -> tuple[Tree, str | None]:
    """The object after admission.

    If admission broke its managedFields, those of `before` are restored, with a warning.
    """
    entries, changed = before["metadata"].get("managedFields"), after["metadata"].get("managedFields")
    if changed == entries:
        return after, None
    try:
        decode(changed)
    except (ManagedFieldsError, FieldsError, TypeError) as error:
        return _with_entries(after, entries), _BROKEN % error
    return after, None


def keep_times(live: Tree, new: Tree) -> Tree:
    """`new` with the live managedFields, if they differ only by their times: then nothing is written.

    Call it on the object to be stored. Without it, a write that changes nothing would still be stored.
    """
    before, after = live["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if not before or not after or before is after or len(before) != len(after):
        return new
    if any(new.get(name) != value for name, value in live.items() if name != "metadata") or len(new) != len(live):
        return new
    unchanged = _with_entries(new, before)
    if unchanged["metadata"] != live["metadata"] or before == after:
        return new
    if any({**a, "time": None} != {**b, "time": None} for a, b in zip(before, after, strict=True)):
        return new
    return unchanged
