"""The algorithm of server-side apply: the owners of fields after an apply or an update.

Managers may have written in different versions. Each owns a set of fields *in its version*, so a
change is compared in every version that has a manager. `convert` is called as rarely as possible.
Must not know: how managers are written in metadata (`managers`), which fields nobody may own (`tracking`).
Source: KEP-555; structured-merge-diff is the reference in all details.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import Any, Generic, NamedTuple, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.patch.apply.fieldsets import (
    LEAF,
    Comparison,
    FieldsV1,
    Filter,
    compare,
    difference,
    intersection,
    is_member,
    iterate,
    recursive_difference,
    union,
)
from oarlock.patch.apply.merge import element_of, merge
from oarlock.patch.apply.owned import NamedFields, fields_of, with_named_fields
from oarlock.patch.apply.reconcile import reconcile
from oarlock.patch.apply.schema import ListType, MapType, ValueType, atom
from oarlock.patch.errors import ApplyConflict, OwnerConflict, UnknownVersion


def remove(type_: ValueType, value: Any, fields: FieldsV1, *, keep_empty: bool = False) -> Any:
    """`value` without the fields and items of the set.

    An emptied list or map becomes null or, with `keep_empty`, stays empty. If the whole value
    is removed, the result is null either way.
    """
    form = atom(type_, value)
    if form is None:
        return value
    if form.atomic or not value:
        return None
    if isinstance(form, MapType):
        return _remove_from_map(form, value, fields, keep_empty) if type(value) is dict else None
    return _remove_from_list(form, value, fields, keep_empty) if type(value) is list else None


def _remove_from_map(form: MapType, value: dict[str, Any], fields: FieldsV1, keep_empty: bool) -> dict[str, Any] | None:
    result = {}
    for name, child in value.items():
        node = fields.get("f:" + name)
        if node is None:
            result[name] = child
        elif not is_member(node):
            result[name] = _remove_below(form.child(name), child, node, keep_empty)
    return result or None


def _remove_from_list(form: ListType, value: list[Any], fields: FieldsV1, keep_empty: bool) -> list[Any] | None:
    result = []
    for item in value:
        node = fields.get(element_of(form, item))
        if node is None:
            result.append(item)
        elif not is_member(node):
            result.append(_remove_below(form.element, item, node, keep_empty))
    return result or None


def _remove_below(type_: ValueType, child: Any, node: FieldsV1, keep_empty: bool) -> Any:
    rest = remove(type_, child, node, keep_empty=keep_empty)
    if rest is None and keep_empty and child is not None:
        return [] if type(child) is list else {}
    return rest


def extract(type_: ValueType, value: Any, fields: FieldsV1) -> Any:
    """The part of `value` that is in the set: the configuration an applier would have to apply to keep its fields."""
    form = atom(type_, value)
    if form is None or form.atomic or not value:
        return value
    if isinstance(form, MapType):
        return _extract_from_map(form, value, fields) if type(value) is dict else None
    return _extract_from_list(form, value, fields) if type(value) is list else None


def _extract_from_map(form: MapType, value: dict[str, Any], fields: FieldsV1) -> dict[str, Any] | None:
    result = {}
    for name, child in value.items():
        node = fields.get("f:" + name)
        if node is not None:
            result[name] = extract(form.child(name), child, node)
    return result or None


def _extract_from_list(form: ListType, value: list[Any], fields: FieldsV1) -> list[Any] | None:
    result = []
    for item in value:
        node = fields.get(element_of(form, item))
        if node is LEAF or node == {}:
            result.append(item)
        elif node is not None:
            result.append(extract(form.element, item, node))
    return result or None


Manager = TypeVar("Manager", bound=Hashable)

Convert = Callable[[Any, str, str], Any]
"""``convert(value, from_version, to_version)``: pure, and leaves `value` alone. UnknownVersion for a removed one."""


def never_converts(value: Any, from_version: str, to_version: str) -> Any:
    """The converter of a resource with one version."""
    if from_version != to_version:
        raise UnknownVersion(f"there is no version {to_version}")
    return value


class Owned(NamedTuple):
    """The fields that a manager owns, in the version in which it wrote; `applied` or updated."""

    fields: FieldsV1
    version: str
    applied: bool


@dataclass(slots=True)
class Versioned:
    """A value in one version; other versions are converted on demand, once."""

    value: Any
    version: str
    convert: Convert
    _made: dict[str, Any] = field(default_factory=dict)

    def at(self, version: str) -> Any:
        """The value in `version`. UnknownVersion when it can't be converted."""
        if version == self.version:
            return self.value
        if version not in self._made:
            self._made[version] = self.convert(self.value, self.version, version)
        return self._made[version]


@dataclass(frozen=True, slots=True)
class Updater(Generic[Manager]):
    """`types` are the types of a whole object by version, `filters` the tracked fields in each version.

    A manager whose version has no type, or can't be converted to, is dropped. `nobodys` are fields that are left out
    of what appliers are recorded to own.
    """

    types: Mapping[str, ValueType]
    convert: Convert = never_converts
    filters: Mapping[str, Filter] = field(default_factory=dict)
    nobodys: FieldsV1 = field(default_factory=dict)

    def update(
        self,
        live: Any,
        new: Any,
        version: str,
        managers: Mapping[Manager, Owned],
        manager: Manager,
        compared: Comparison | None = None,
    ) -> dict[Manager, Owned]:
        """The owners after `manager` has replaced `live` by `new`, both in `version`.

        The manager becomes the only owner of what it changed; the rest keeps its owners. `managers` are as `reconciled`
        returns them; `compared` is the comparison of the two values, if known.
        """
        compared = compare(self.types[version], live, new) if compared is None else compared
        changes = compared.filtered(self.filters.get(version))
        result = self._settle(changes, live, new, version, managers, manager, force=True)
        mine = result.get(manager)
        fields = difference(mine.fields, changes.removed) if mine is not None else {}
        fields = self._tracked(union(fields, changes.changed), version)
        result.pop(manager, None)
        if fields:
            result[manager] = Owned(fields, version, applied=False)
        return result

    def apply(
        self, live: Any, config: Any, version: str, managers: Mapping[Manager, Owned], manager: Manager, *, force: bool
    ) -> tuple[Any, dict[Manager, Owned]]:
        """The object after `manager` has applied `config`, and the owners. `live` and `config` are in `version`.

        Fields that the manager applied before and no longer applies are removed, unless others own them.
        The object shares parts with `live` and `config`. `managers` are as `reconciled` returns them.
        Raises ApplyConflict unless forced, TypedError.
        """
        current = dict(managers)
        type_ = self.types[version]
        merged = merge(type_, live, config)
        last = current.get(manager)
        fields = self._tracked(fields_of(type_, config), version)
        if last is None or last.version != version or last.fields != difference(fields, self.nobodys):
            current[manager] = Owned(fields, version, applied=True)
            merged = self._prune(merged, version, current, last, fields)
        changes = compare(type_, live, merged).filtered(self.filters.get(version))
        return merged, self._settle(changes, live, merged, version, current, manager, force=force)

    def reconciled(self, managers: Mapping[Manager, Owned]) -> dict[Manager, Owned]:
        """The managers under the current schema, without those of versions that are gone."""
        result = {}
        for manager, owned in managers.items():
            type_ = self.types.get(owned.version)
            if type_ is None:
                continue
            fields = reconcile(type_, owned.fields)
            result[manager] = owned if fields is owned.fields else Owned(fields, owned.version, owned.applied)
        return result

    def _tracked(self, fields: FieldsV1, version: str) -> FieldsV1:
        keep = self.filters.get(version)
        return fields if keep is None else keep(fields)

    def _settle(
        self,
        mine: Comparison,
        live: Any,
        new: Any,
        version: str,
        managers: Mapping[Manager, Owned],
        writer: Manager,
        *,
        force: bool,
    ) -> dict[Manager, Owned]:
        """Take what `writer` changed from all other managers, or raise ApplyConflict.

        `live` and `new` are the value before and after, in `version`, for managers of other versions.
        """
        changes = {version: (mine, mine.changed)}
        values: tuple[Versioned, Versioned] | None = None
        result: dict[Manager, Owned] = {}
        conflicts: dict[Manager, FieldsV1] = {}
        for manager, owned in managers.items():
            if manager == writer:
                if owned.fields:
                    result[manager] = owned
                continue
            comparison = changes.get(owned.version)
            if comparison is None:
                if values is None:
                    values = Versioned(live, version, self.convert), Versioned(new, version, self.convert)
                theirs = self._changes_at(owned.version, *values)
                if theirs is None:
                    continue
                comparison = changes[owned.version] = theirs, theirs.changed
            theirs, changed = comparison
            fields = owned.fields
            if changed:
                shared = intersection(fields, changed)
                if shared:
                    conflicts[manager] = shared
                    fields = difference(fields, shared)
            fields = difference(fields, theirs.removed)
            if fields:
                result[manager] = owned if fields is owned.fields else Owned(fields, owned.version, owned.applied)
        if conflicts and not force:
            raise ApplyConflict(
                [
                    OwnerConflict(manager, path)
                    for manager in sorted(conflicts, key=str)
                    for path in iterate(conflicts[manager])
                ]
            )
        return result

    def _changes_at(self, version: str, before: Versioned, after: Versioned) -> Comparison | None:
        try:
            changes = compare(self.types[version], before.at(version), after.at(version))
        except UnknownVersion:
            return None
        return changes.filtered(self.filters.get(version))

    # What an applier doesn't apply any more --------------------------------------------------------------------------

    def _prune(
        self, merged: Any, version: str, managers: Mapping[Manager, Owned], last: Owned | None, now: FieldsV1
    ) -> Any:
        """`merged` without what the writer applied last time, unless some manager owns it now."""
        if last is None or not last.fields:
            return merged
        if last.version == version and not difference(last.fields, now):
            return merged
        whole = Versioned(merged, version, self.convert)
        try:
            then = whole.at(last.version)
        except UnknownVersion:
            return merged
        type_, named = self.types[last.version], NamedFields()
        applied_before = with_named_fields(type_, last.fields)
        pruned = remove(type_, then, applied_before, keep_empty=True)
        pruned, at = self._with_owned(whole, pruned, last.version, managers, named)
        converted: FieldsV1 = {}
        if at != last.version:
            pruned = self.convert(pruned, at, last.version)
            converted = compare(type_, then, pruned).modified  # conversion may fill what went with a value of its own
        removed = union(difference(named.of(type_, then), named.of(type_, pruned)), converted)
        owned_now: FieldsV1 = {}
        dropped = last.fields
        for owned in managers.values():
            if owned.version == last.version:
                owned_now, dropped = union(owned_now, owned.fields), difference(dropped, owned.fields)
        # what is empty now stays if a manager owns it, and so does what the other versions can't represent
        removed = difference(removed, with_named_fields(type_, recursive_difference(owned_now, dropped)))
        pruned = remove(type_, then, intersection(removed, applied_before), keep_empty=True)
        return pruned if last.version == version else self._back(whole, then, pruned, last.version)

    def _back(self, whole: Versioned, then: Any, pruned: Any, at: str) -> Any:
        """`whole` without what was removed between `then`, which is `whole` in the version `at`, and `pruned`.

        If that version can't represent everything, only the removed fields are taken from `whole`, and what conversion
        changes in their place is merged.
        """
        type_, version = self.types[whole.version], whole.version
        before, after = self.convert(then, at, version), self.convert(pruned, at, version)
        if compare(type_, whole.value, before).empty:
            return after
        changes = compare(type_, before, after)
        rest = remove(type_, whole.value, changes.removed, keep_empty=True)
        return merge(type_, rest, extract(type_, after, changes.changed)) if changes.changed else rest

    def _with_owned(
        self, merged: Versioned, pruned: Any, version: str, managers: Mapping[Manager, Owned], named: NamedFields
    ) -> tuple[Any, str]:
        """`pruned` with the fields that any manager owns put back, and its version.

        Its own version comes first: the converter may need what is put back.
        """
        owned: dict[str, FieldsV1] = {version: {}}
        for manager in managers.values():
            owned[manager.version] = union(owned.get(manager.version, {}), manager.fields)
        at = version
        for other, fields in owned.items():
            if other == version and not fields:
                continue
            try:
                whole = merged.at(other)
                here = pruned if at == other else self.convert(pruned, at, other)
            except UnknownVersion:
                continue
            type_ = self.types[other]
            missing = difference(named.of(type_, whole), named.of(type_, here))
            if at != other:
                missing = union(missing, compare(type_, whole, here).modified)
            pruned = remove(type_, whole, difference(missing, with_named_fields(type_, fields)), keep_empty=True)
            at = other
        return pruned, at
