"""Strategic merge patch: like a JSON merge patch, but lists with a merge key are merged item by item, and directives.

The merge rules of a structural schema are compiled once per version, to a `MergeSchema`: a tree with one node for each
object and list. Other parts of the schema are ignored.

Neither the tree nor the patch is changed. Parts that the patch doesn't touch are shared with the old tree; nothing is
shared with the patch, so it can be applied again. New values contain no nulls and no directives.
Source: API conventions, "Strategic Merge Patch". Differences from k8s.io/apimachinery ``strategicpatch``: see
``apply``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import lt
from typing import Any, Final, NamedTuple, TypeVar

from oarlock.meta.go.gotext import plain
from oarlock.meta.json_trees import Tree
from oarlock.patch.errors import DirectiveError, PatchFailed
from oarlock.schema.structural.merge_keys import MERGE_KEY, OBJECT_META_SCHEMA, STRATEGY, merge_keys

SchemaTree = dict[str, Any]

MAX_DEPTH = 100
"""Below so many levels a schema is taken as saying nothing; `structural.parse` refuses deeper ones."""


class MergeSchema:
    """The merge rules of one object or list in a schema.

    `fields` are the nodes of declared fields, `rest` that of any other, `items` that of a list's items.
    `merges` says that items of a list are merged, by `key` or, without one, as values; `replaces` that an object is
    replaced whole; `retains` that a patch made for it lists the keys to keep.
    """

    __slots__ = ("fields", "items", "key", "merges", "replaces", "rest", "retains")

    fields: dict[str, MergeSchema]
    rest: MergeSchema
    items: MergeSchema

    def __init__(self, strategies: str = "", key: str = "") -> None:
        named = strategies.split(",")
        self.fields = {}
        self.rest = self.items = self
        self.key = key
        self.merges = "merge" in named
        self.replaces = "replace" in named
        self.retains = "retainKeys" in named

    def child(self, field: str) -> MergeSchema:
        """The node for a field."""
        return self.fields.get(field, self.rest)


FREE: Final = MergeSchema()
"""Where anything may be: objects merge, lists are replaced."""

UNDECLARED: Final = MergeSchema()
"""Where nothing is declared: applied like `FREE`, but nobody can make a patch for it."""


def compile_schema(schema: SchemaTree) -> MergeSchema:
    """Compile a structural schema.

    At the `root` of an object, apiVersion, kind and metadata have their standard schema.
    """
    node = _compile(schema, 0)
    whole = MergeSchema()
    whole.fields = {**node.fields, "apiVersion": FREE, "kind": FREE, "metadata": _compile(OBJECT_META_SCHEMA, 1)}
    whole.rest = node.rest
    return whole


def _compile(schema: SchemaTree, depth: int) -> MergeSchema:
    properties = schema.get("properties") or {}
    additional, items = schema.get("additionalProperties"), schema.get("items")
    keys = merge_keys(schema)
    if depth > MAX_DEPTH or not (properties or additional or items or keys):
        return FREE
    node = MergeSchema(keys.get(STRATEGY, ""), keys.get(MERGE_KEY, ""))
    node.fields = {name: _compile(field, depth + 1) for name, field in properties.items()}
    node.items = _compile(items, depth + 1) if isinstance(items, dict) else FREE
    if isinstance(additional, dict):
        node.rest = _compile(additional, depth + 1)
    elif additional or not properties or schema.get("x-kubernetes-preserve-unknown-fields"):
        node.rest = FREE
    else:
        node.rest = UNDECLARED
    return node


PATCH: Final = "$patch"
RETAIN: Final = "$retainKeys"
ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"
MERGE: Final = "merge"
REPLACE: Final = "replace"
DELETE: Final = "delete"
SHOWN_CHARS = 1024

Identity = Hashable
"""What two items have in common when they are the same item."""


def identity(value: Any) -> Identity:
    """The identity of a scalar: true isn't 1. A list or an object is only identical to itself."""
    kind = type(value)
    if kind is bool or kind is dict or kind is list:
        return (kind, value if kind is bool else id(value))
    return value  # type: ignore[no-any-return]


def key_of(item: Any, key: str) -> Identity:
    """The identity of an item of a patch by its merge key. Raises DirectiveError when it has none."""
    if type(item) is not dict:
        raise unlike(item)
    value = item.get(key)
    if type(value) is str:
        return value
    if value is None:
        raise DirectiveError(f"map: {shown(item)} does not contain declared merge key: {key}")
    if type(value) is dict or type(value) is list:
        raise DirectiveError(f"map: {shown(item)} has a merge key that is no scalar: {key}")
    return identity(value)


def shown(value: Any) -> str:
    """A value as Go prints it, cut: the error message repeats client input only up to a limit."""
    return plain(value, SHOWN_CHARS)


def unlike(item: Any) -> Exception:
    """The error for an item of the wrong type for its list."""
    if type(item) is list:
        return PatchFailed("lists of lists are not supported")
    return DirectiveError(f"list element types are not identical: {shown(item)}")


def wrong_type(directive: str, node: Any) -> DirectiveError:
    return DirectiveError(f"unknown patch type: {shown(directive)} in map: {shown(node)}")


class Directives(NamedTuple):
    """The directives of an object of a patch, and its other `fields`.

    `kind` is merge, replace or delete. `retain` are the keys to keep, None for all. By the name of a list field:
    `orders` are its ``$setElementOrder``, `removals` its ``$deleteFromPrimitiveList``.
    """

    kind: str
    retain: frozenset[str] | None
    orders: dict[str, list[Any]]
    removals: dict[str, set[Identity]]
    fields: Tree


def take_directives(node: Tree) -> Directives | None:
    """The directives of an object of a patch; None when it has none. Raises DirectiveError, PatchFailed."""
    kind, retain, any_directive = MERGE, None, False
    orders: dict[str, list[Any]] = {}
    removals: dict[str, set[Identity]] = {}
    fields: Tree = {}
    for key, value in node.items():
        if not key.startswith("$"):
            fields[key] = value
            continue
        if key == PATCH:
            if value not in (MERGE, REPLACE, DELETE):
                raise wrong_type(value, node)
            kind = value
        elif key == RETAIN:
            retain = _names(value)
        elif key.startswith(ORDER):
            orders[key[len(ORDER) :]] = _list(key, value, "setElementOrder list")
        elif key.startswith(DELETE_FROM):
            removals[key[len(DELETE_FROM) :]] = _scalars(key, value)
        else:
            fields[key] = value
            continue
        any_directive = True
    if not any_directive:
        return None
    if retain is not None:
        _check_retained(fields, retain)
    return Directives(kind, retain, orders, removals, fields)


def _list(key: str, value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise DirectiveError(f"invalid patch format of {what}: {key}")
    return value


def _scalars(key: str, value: Any) -> set[Identity]:
    listed = _list(key, value, "primitive list")
    if any(type(item) is dict or type(item) is list for item in listed):
        raise DirectiveError(f"invalid patch format of primitive list: {key}")
    return {identity(item) for item in listed}


def _names(value: Any) -> frozenset[str]:
    if type(value) is not list or not all(type(name) is str for name in value):
        raise DirectiveError("invalid patch format of retainKeys")
    return frozenset(value)


def _check_retained(fields: Tree, retain: frozenset[str]) -> None:
    """Every field of the patch must be among the retained keys."""
    for key, value in fields.items():
        if value is not None and key not in retain:
            raise PatchFailed(f"patch content doesn't match retainKeys list: {key}")


Item = TypeVar("Item")


def in_order(items: Sequence[tuple[Identity, Item]], order: Iterable[Identity], live: Iterable[Identity]) -> list[Item]:
    """Order the items: those in `order` in its order, the others in their own.

    The two sequences are interleaved by their order in `live`, the old list. An item of `order` that isn't in `live`
    comes before the next other item; another item that isn't in `live` comes after all of `order`.
    """
    rank: dict[Identity, int] = {}
    for value in order:
        rank.setdefault(value, len(rank))
    named = [pair for pair in items if pair[0] in rank]
    if len(named) == len(items):
        named.sort(key=lambda pair: rank[pair[0]])
        return [item for _, item in named]
    named.sort(key=lambda pair: rank[pair[0]])
    place: dict[Identity, int] = {}
    for value in live:
        place.setdefault(value, len(place))
    result: list[Item] = []
    waiting = iter(named)
    following = next(waiting, None)
    for value, item in items:
        if value in rank:
            continue
        here = place.get(value)
        while following is not None and (here is None or not here < place.get(following[0], -1)):
            result.append(following[1])
            following = next(waiting, None)
        result.append(item)
    while following is not None:
        result.append(following[1])
        following = next(waiting, None)
    return result


def check_order(patch: Sequence[Identity], order: Iterable[Identity], shown_patch: Any, shown_order: Any) -> None:
    """Check that the items of a patch are in the order that the patch asks for. Raises DirectiveError."""
    remaining = iter(order)
    if not all(value in remaining for value in patch):
        raise DirectiveError(
            f"The order in patch list:\n{shown(shown_patch)}\n doesn't match $setElementOrder list:\n"
            f"{shown(shown_order)}\n"
        )


def apply(tree: Tree, patch: Tree, schema: MergeSchema) -> Tree:
    """The patched tree. Raises DirectiveError, PatchFailed.

    Unlike the Go library: ``$patch: merge`` is allowed in an object and is the default; ``$patch: replace``
    in a new object keeps the object; directives inside a replaced or new value are executed
    instead of kept or dropped; live items without the merge key keep their place; undeclared objects are merged.
    """
    return _merge(tree, patch, schema) if patch else tree


def _merge(live: Tree, patch: Tree, schema: MergeSchema) -> Tree:
    for key in patch:
        if key[:1] == "$":
            directives = take_directives(patch)
            if directives is not None:
                return _directed(live, directives, schema)
            break
    return _merge_fields(live, patch, schema)


def _merge_fields(live: Tree, patch: Tree, schema: MergeSchema) -> Tree:
    fields, rest = schema.fields, schema.rest
    result = live.copy()
    for key, value in patch.items():
        kind = type(value)
        if kind is dict:
            old = result.get(key)
            child = fields.get(key, rest)
            if type(old) is dict and not child.replaces:
                result[key] = _merge(old, value, child)
            elif value.get(PATCH) == DELETE:
                result.pop(key, None)
            else:
                result[key] = _merge({}, value, child)
        elif kind is list:
            result[key] = _merge_list(result.get(key), value, fields.get(key, rest), None)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def _directed(live: Tree, directives: Directives, schema: MergeSchema) -> Tree:
    """Merge an object that has directives."""
    if directives.kind == DELETE:
        return {}
    if directives.kind == REPLACE:
        live = {}
    elif directives.retain is not None:
        live = {key: value for key, value in live.items() if key in directives.retain}
    if not (directives.orders or directives.removals):
        return _merge_fields(live, directives.fields, schema)
    listed = {**directives.orders, **directives.removals}
    plain = {key: value for key, value in directives.fields.items() if key not in listed}
    result = _merge_fields(live, plain, schema)
    for field in listed:
        child = schema.child(field)
        patch_value, order = directives.fields.get(field), directives.orders.get(field)
        if field in directives.fields and type(patch_value) is not list:
            if patch_value is not None and order is not None:
                raise DirectiveError(f"invalid patch format of setElementOrder list: {field} is no list")
            result.pop(field, None)
            if patch_value is not None:
                result[field] = _fresh(patch_value, child)
            continue
        old = result.get(field)
        if order is not None and patch_value is None and old is not None and type(old) is not list:
            raise _no_list(field)
        if patch_value is not None or (order is not None and type(old) is list):
            old = result[field] = _merge_list(old, patch_value, child, order)
        removed = directives.removals.get(field)
        if removed and type(old) is list:
            result[field] = [item for item in old if identity(item) not in removed]
    return result


def _no_list(field: str) -> DirectiveError:
    return DirectiveError(f"invalid patch format of setElementOrder list: {field} is no list")


def _fresh(value: Any, schema: MergeSchema) -> Any:
    """A value of the patch where the live object has none."""
    if type(value) is dict:
        return _merge({}, value, schema)
    if type(value) is list:
        return _merge_list(None, value, schema, None)
    return value


def _merge_list(live: Any, patch: list[Any] | None, schema: MergeSchema, order: list[Any] | None) -> list[Any]:
    """The merged list. `live` is the old list; `patch` is None when only the order changes."""
    old: list[Any] = live if type(live) is list else []
    if not schema.merges:
        if patch is not None:
            old = []
            for item in patch:
                if type(item) is not dict or not _is_directive(item):
                    old.append(_fresh(item, schema.items))
            if order is None:
                return old
        return _merge_values(old, None, order)
    if schema.key:
        return _merge_keyed(old, patch, schema, order)
    return _merge_values(old, patch, order)


def _is_directive(item: Tree) -> bool:
    """Whether an item of a list that is replaced is a directive (delete, or only replace) and so not an item."""
    kind = item.get(PATCH)
    return kind == DELETE or (kind == REPLACE and len(item) == 1)


def _merge_values(old: list[Any], patch: list[Any] | None, order: list[Any] | None) -> list[Any]:
    """The values of both lists, without duplicates. If only the order changes, the live values as they are."""
    items = live = [(identity(item), item) for item in old]
    sent = [(identity(item), item) for item in patch or ()]
    for _, item in sent:
        if type(item) is dict:
            raise DirectiveError(f"cannot merge lists without merge key: {shown(item)}")
        if type(item) is list:
            raise unlike(item)
    if patch is not None:
        merged: dict[Identity, Any] = {}
        for value, item in (*live, *sent):
            merged.setdefault(value, item)
        items = list(merged.items())
    positions = [value for value, _ in sent]
    if order is not None:
        if any(type(item) is dict or type(item) is list for item in order):
            raise DirectiveError(f"invalid patch format of setElementOrder list: {shown(order)}")
        in_patch, positions = positions, [identity(item) for item in order]
        check_order(in_patch, positions, patch, order)
    return in_order(items, positions, (value for value, _ in live))


def _merge_keyed(old: list[Any], patch: list[Any] | None, schema: MergeSchema, order: list[Any] | None) -> list[Any]:
    """Merge lists by merge key, item by item."""
    key, items = schema.key, schema.items
    sent, deleted, replaces = _sorted_out(patch or [], key)
    merged = [] if replaces else old.copy()
    live = _identities(merged, key)
    if deleted:
        merged = [item for item, value in zip(merged, live, strict=True) if value not in deleted]
        live = [value for value in live if value not in deleted]
    identities = live.copy()
    at: dict[Identity, int] = {}
    for i, value in enumerate(live):
        at.setdefault(value, i)
    for value, item in sent:
        here = at.get(value)
        if here is None:
            at[value] = len(merged)
            identities.append(value)
            merged.append(_merge({}, item, items))
        else:
            merged[here] = _merge(merged[here], item, items)
    positions = [value for value, _ in sent]
    room = 0
    if order is not None:
        in_patch, positions = positions, [key_of(item, key) for item in order]
        check_order(in_patch, positions, patch, order)
        # New items take the places of deleted ones, at the end of the list.
        room = len(old) - len(live)
    if len(identities) == len(live) == len(at) and _rising([at[value] for value in positions if value in at]):
        return merged  # as it was: nothing is new, and the order asked for is the one it has
    return in_order(list(zip(identities, merged, strict=True)), positions, identities[: len(live) + room])


def _rising(places: list[int]) -> bool:
    return all(map(lt, places, places[1:]))


def _identities(items: list[Any], key: str) -> list[Identity]:
    """The identities of live items. An item without the merge key is identical only to itself."""
    result: list[Identity] = []
    for item in items:
        value = item.get(key) if type(item) is dict else None
        if type(value) is str:
            result.append(value)
        else:
            result.append((None, id(item)) if value is None else identity(value))
    return result


def _sorted_out(patch: list[Any], key: str) -> tuple[list[tuple[Identity, Tree]], set[Identity], bool]:
    """From the items of the patch: the items to merge, the identities to delete, and whether the list is replaced."""
    merged: list[tuple[Identity, Tree]] = []
    deleted: set[Identity] = set()
    replaces = False
    for item in patch:
        if type(item) is not dict or PATCH not in item:
            merged.append((key_of(item, key), item))
            continue
        kind = item[PATCH]
        if kind == DELETE:
            deleted.add(key_of(item, key))
        elif kind == REPLACE:
            replaces = True
        elif kind == MERGE:
            raise DirectiveError("merging lists cannot yet be specified in the patch")
        else:
            raise wrong_type(kind, item)
    return merged, deleted, replaces
