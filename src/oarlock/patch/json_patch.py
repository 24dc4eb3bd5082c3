"""JSON patch: a list of operations, applied in order, all or none; and `difference`, which makes one of two trees.

Pure: neither the tree nor the patch is changed. Parts that no operation touches are shared between tree and result;
nothing is shared with the patch, so it can be applied again. Differences from RFC 6902 are those of the API server:
negative indices count from the end, the whole document can't be replaced or removed, and the size added by copies is
limited. See also: `merge_patch`.
Source: RFC 6902, RFC 6901; k8s.io/apiserver ``handlers/patch.go`` for the limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from oarlock.codec import duplicate_fields, json
from oarlock.codec.errors import DecodeError
from oarlock.meta.fielderrors import WrongType
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree, copy_json, same_json
from oarlock.patch.errors import PatchFailed, PatchFormatError, TestFailed, TooManyOperations

MAX_OPERATIONS = 10_000
COPY_BUDGET_BYTES = 3 * 1024 * 1024

_KNOWN_FIELDS = frozenset(("op", "path", "from", "value"))
_is_index = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII).fullmatch
_MISSING: Any = object()

JsonPointer = tuple[str, ...]
"""The unescaped segments of a JSON pointer."""


class PatchOperation(NamedTuple):
    """One operation. `path` and `source` are unescaped segments; `value` is the value of a test, add or replace."""

    op: str
    path: JsonPointer
    source: JsonPointer
    value: Any


Patch = tuple[PatchOperation, ...]
"""A patch that has been read; it can be applied any number of times."""


# Reading ------------------------------------------------------------------------------------------


def parse(data: bytes) -> Patch:
    """The operations in a request body. Raises PatchFormatError, TooManyOperations.

    Errors in a single operation (unknown ``op``, no ``path``) are found when it is applied.
    """
    try:
        listed = json.decode(data)
    except DecodeError as error:
        raise PatchFormatError(str(error)) from None
    return from_tree(listed)


def from_tree(listed: Any) -> Patch:
    """The operations of a patch that is decoded. Raises PatchFormatError, TooManyOperations."""
    if not isinstance(listed, list):
        if listed is None:
            return ()
        raise PatchFormatError(WrongType("", "an array of operations", listed).body)
    if len(listed) > MAX_OPERATIONS:
        raise TooManyOperations(len(listed), MAX_OPERATIONS)
    return tuple(_operation(at, tree) for at, tree in enumerate(listed))


def _operation(at: int, tree: Any) -> PatchOperation:
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise PatchFormatError(WrongType(f"[{at}]", "an object", tree).message)
    for field in ("op", "path", "from"):
        argument = tree.get(field)
        if argument is not None and not isinstance(argument, str):
            raise PatchFormatError(WrongType(f"[{at}].{field}", "a string", argument).message)
    value = tree.get("value", _MISSING)
    return PatchOperation(tree.get("op") or "", _segments(tree.get("path")), _segments(tree.get("from")), value)


def _segments(pointer: str | None) -> JsonPointer:
    """The unescaped segments of a JSON pointer. What stands before the first ``/`` is ignored."""
    if not pointer or "/" not in pointer:
        return ()
    steps = pointer.split("/")[1:]
    if "~" in pointer:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in steps]
    return tuple(steps)


def strict_errors(data: bytes) -> list[str]:
    """Errors of strict field validation in a valid patch: duplicate and unknown fields of its operations."""
    errors = [f"json patch duplicate field {quote(path)}" for path in json.duplicates(data)]
    for i, operation in enumerate(json.decode(data) or ()):
        unknown = [] if operation is None else [key for key in operation if key not in _KNOWN_FIELDS]
        errors.extend(f"json patch unknown field {quote(f'[{i}].{key}')}" for key in unknown)
        if len(errors) >= duplicate_fields.MAX_FOUND:
            break
    return errors[: duplicate_fields.MAX_FOUND]


# Applying -----------------------------------------------------------------------------------------


def apply(tree: Any, patch: Patch) -> Any:
    """The patched tree. Raises PatchFailed when an operation can't be applied."""
    if not patch:
        return tree
    work = _Work(tree)
    for operation in patch:
        carry_out = _OPERATIONS.get(operation.op)
        if carry_out is None:
            raise PatchFailed(f"unexpected kind: {operation.op or 'unknown'}")
        carry_out(work, operation)
    # Inserted trees can add up to more depth than a body may have; a scalar adds none.
    if any(_may_deepen(operation) for operation in patch) and json.depth_exceeds(work.root, json.MAX_DEPTH):
        raise PatchFailed("exceeded max depth")
    return work.root


def _may_deepen(operation: PatchOperation) -> bool:
    return operation.op in ("move", "copy") or isinstance(operation.value, (dict, list))


class _Work:
    """A tree being changed. Containers are copied on the first change; only the copies are changed in place."""

    __slots__ = ("copied_bytes", "own", "root")

    def __init__(self, root: Any) -> None:
        # The objects are kept, so that no id is reused while it is in this dict.
        self.own: dict[int, Any] = {}
        self.root = root
        self.copied_bytes = 0

    def owned(self, container: Any) -> Any:
        if id(container) in self.own:
            return container
        copy = container.copy()
        self.own[id(copy)] = copy
        return copy

    def parent(self, path: JsonPointer, operation: PatchOperation) -> Any:
        """The container at the end of `path`, copied so that it may be changed. Raises PatchFailed."""
        if not path or not isinstance(self.root, (dict, list)):
            raise _failed(operation, path, "doc is missing path")
        container = self.root = self.owned(self.root)
        for step in path[:-1]:
            key: Any = step
            if isinstance(container, list):
                key = _index(container, step)
                inner = _MISSING if key is None else container[key]
            else:
                inner = container.get(step, _MISSING)
            if not isinstance(inner, (dict, list)):
                raise _failed(operation, path, "doc is missing path")
            container[key] = container = self.owned(inner)
        return container

    def get(self, path: JsonPointer) -> Any:
        """The value at `path`, or _MISSING."""
        value = self.root
        for step in path:
            if isinstance(value, dict):
                value = value.get(step, _MISSING)
            elif isinstance(value, list):
                i = _index(value, step)
                value = _MISSING if i is None else value[i]
            else:
                return _MISSING
        return value


def _failed(operation: PatchOperation, path: JsonPointer, why: str) -> PatchFailed:
    pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)
    return PatchFailed(f"{operation.op} operation does not apply: {why}: {pointer}")


def _index(listed: list[Any], step: str) -> int | None:
    """The index that `step` refers to in `listed`; None when there is none."""
    if not _is_index(step):
        return None
    i = int(step)
    return (i if i >= 0 else i + len(listed)) if -len(listed) <= i < len(listed) else None


def _put(work: _Work, operation: PatchOperation, value: Any) -> None:
    container, last = work.parent(operation.path, operation), operation.path[-1]
    if isinstance(container, dict):
        container[last] = value
    elif last == "-":
        container.append(value)
    else:
        size = len(container)
        i = int(last) if _is_index(last) else None
        if i is None or not -size - 1 <= i <= size:
            raise _failed(operation, operation.path, "invalid index")
        container.insert(i if i >= 0 else i + size + 1, value)


def _take(work: _Work, operation: PatchOperation, path: JsonPointer) -> Any:
    container, last = work.parent(path, operation), path[-1]
    if isinstance(container, dict):
        if last not in container:
            raise _failed(operation, path, "missing value")
        return container.pop(last)
    i = _index(container, last)
    if i is None:
        raise _failed(operation, path, "invalid index")
    return container.pop(i)


def _add(work: _Work, operation: PatchOperation) -> None:
    _put(work, operation, _new_value(operation))


def _value(operation: PatchOperation) -> Any:
    # An add without a value adds null, as the API server does.
    return None if operation.value is _MISSING else operation.value


def _new_value(operation: PatchOperation) -> Any:
    """The value of an add or replace, copied, because the result may be changed."""
    return copy_json(_value(operation))


def _remove(work: _Work, operation: PatchOperation) -> None:
    _take(work, operation, operation.path)


def _replace(work: _Work, operation: PatchOperation) -> None:
    container, last = work.parent(operation.path, operation), operation.path[-1]
    key: Any = last
    if isinstance(container, list):
        key = _index(container, last)
        if key is None:
            raise _failed(operation, operation.path, "doc is missing key")
    # Not in RFC 6902: replace may also add a new field to an object; clients rely on it.
    container[key] = _new_value(operation)


def _move(work: _Work, operation: PatchOperation) -> None:
    source = operation.source
    if operation.path[: len(source)] == source and operation.path != source:
        raise _failed(operation, source, "a value can't be moved into itself")
    _put(work, operation, _take(work, operation, source))


def _copy(work: _Work, operation: PatchOperation) -> None:
    value = work.get(operation.source) if operation.source else _MISSING
    if value is _MISSING:
        raise _failed(operation, operation.source, "missing value")
    if isinstance(value, (dict, list)) and json.depth_exceeds(value, json.MAX_DEPTH):
        raise PatchFailed("exceeded max depth")
    data = json.encode(value)
    work.copied_bytes += len(data)
    if work.copied_bytes > COPY_BUDGET_BYTES:
        raise PatchFailed(
            f"Unable to complete the copy, the accumulated size increase of copy is {work.copied_bytes}, "
            f"exceeding the limit {COPY_BUDGET_BYTES}"
        )
    # A real copy: later operations may change one and not the other.
    _put(work, operation, copy_json(value))


def _test(work: _Work, operation: PatchOperation) -> None:
    path = operation.path
    value = work.get(path)
    if value is _MISSING and path and isinstance(work.get(path[:-1]), dict):
        # A missing field counts as null.
        value = None
    if not path or value is _MISSING or not same_json(value, _value(operation)):
        raise TestFailed(str(_failed(operation, path, "testing value failed")))


_OPERATIONS = {"add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test}


MOST_OPERATIONS = 1000
"""A patch with more is made of whole fields of the object instead."""


def difference(before: Tree, after: Tree) -> list[Tree]:
    """The operations, as they are sent. Neither tree is changed; values are shared with `after`."""
    operations: list[Tree] = []
    for operation in _of_objects(before, after, ""):
        operations.append(operation)
        if len(operations) > MOST_OPERATIONS:
            return [
                change
                for name in dict.fromkeys((*before, *after))
                for change in _of_field(before, after, name, "", whole=True)
            ]
    return operations


def _of_objects(before: Tree, after: Tree, path: str) -> Iterator[Tree]:
    for name in before:
        yield from _of_field(before, after, name, path)
    for name in after:
        if name not in before:
            yield from _of_field(before, after, name, path)


def _of_field(before: Tree, after: Tree, name: str, path: str, *, whole: bool = False) -> Iterator[Tree]:
    there = f"{path}/{_escaped(name)}"
    if name not in after:
        yield {"op": "remove", "path": there}
    elif name not in before:
        yield {"op": "add", "path": there, "value": after[name]}
    elif whole:
        if not same_json(before[name], after[name]):
            yield {"op": "replace", "path": there, "value": after[name]}
    else:
        yield from _of_values(before[name], after[name], there)


def _of_values(before: Any, after: Any, path: str) -> Iterator[Tree]:
    # most of an object stays as it is, and to write it is quicker than to walk through it
    if before is after or (type(before) in (dict, list) and json.encode(before) == json.encode(after)):
        return
    if type(before) is dict and type(after) is dict:
        yield from _of_objects(before, after, path)
    elif type(before) is list and type(after) is list and len(before) == len(after):
        for at, value in enumerate(after):
            yield from _of_values(before[at], value, f"{path}/{at}")
    elif not same_json(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name
