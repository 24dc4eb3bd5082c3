"""What an expression has computed as the tree of a patch, within bounds.

An expression can share one list in many places, so that a small program makes a tree of any size: bytes are counted
while the tree is made. Must not know: what becomes of it. See also: `applying`.
Source: k8s.io/apiserver ``pkg/cel/mutation/dynamic``.
"""

from __future__ import annotations

import base64
import math
from typing import Any

from oarlock.codec import json
from oarlock.meta.go.gotext import quote
from oarlock.schema.cel.library.texts import duration_text, timestamp_text
from oarlock.schema.cel.values import Duration, Obj, Optional, Timestamp, type_name

__all__ = ["MAX_PATCH_BYTES", "MutationFailed", "MutationTooLarge", "configuration_tree", "operations_tree"]

MAX_PATCH_BYTES = 3 * 1024 * 1024
"""The most bytes of one patch, as JSON: those of the largest request."""


class MutationFailed(Exception):
    """A mutation can't be made; the text says why."""


class MutationTooLarge(MutationFailed):
    """The patch has more bytes than it may have."""


def configuration_tree(value: Any, limit: int = MAX_PATCH_BYTES) -> dict[str, Any]:
    """The apply configuration that an ``Object{…}`` is.

    Raises MutationFailed, and MutationTooLarge beyond `limit`, in bytes.
    """
    if type(value) is not Obj:
        raise MutationFailed(f"unsupported return type from ApplyConfiguration expression: {type_name(value)}")
    tree: dict[str, Any] = _Making(limit).made(value, ("Object",), 1)
    return tree


def operations_tree(value: Any, limit: int = MAX_PATCH_BYTES) -> list[dict[str, Any]]:
    """The JSON patch that a list of ``JSONPatch{…}`` is.

    Raises MutationFailed, and MutationTooLarge beyond `limit`, in bytes.
    """
    making, operations = _Making(limit), []
    for operation in value if isinstance(value, list) else ():
        if type(operation) is not Obj:
            raise MutationFailed(f"type mismatch: JSONPatchType.ConvertToNative: {type_name(operation)}")
        tree = {}
        for name, part in operation.items():
            making.spend(len(name) + 4)
            tree[name] = making.made(part, None, 1)
            if name != "value" and not isinstance(tree[name], str):
                raise MutationFailed(f"the {name} of a JSONPatch is a {type_name(part)}, not a string")
        operations.append(tree)
    return operations


class _Making:
    """Makes trees of values; `left` bytes may still be made."""

    def __init__(self, left: int) -> None:
        self._limit = self._left = left

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise MutationTooLarge(f"the patch has more than {self._limit} bytes")

    def made(self, value: Any, path: tuple[str, ...] | None, depth: int) -> Any:
        """The tree of a value; `path` are the names that lead to it from the outermost object, if there is one."""
        if depth > json.MAX_DEPTH:
            raise MutationFailed("the patch nests too deeply")
        if type(value) is Obj:
            path = (value.type_name,) if path is None else path
            expected = ".".join(path)
            if value.type_name != expected:
                raise MutationFailed(
                    f"type mismatch: unexpected type name {quote(value.type_name)}, expected {quote(expected)}, "
                    "which matches field name path from root Object type"
                )
            self.spend(2 + sum(len(name) + 4 for name in value))
            return {name: self.made(part, (*path, name), depth + 1) for name, part in value.items()}
        if isinstance(value, dict):
            self.spend(2 + sum(len(name) + 4 for name in value if isinstance(name, str)))
            return {_key(name): self.made(part, path, depth + 1) for name, part in value.items()}
        if isinstance(value, list):
            self.spend(2 + len(value))
            return [self.made(part, path, depth + 1) for part in value]
        scalar = _scalar(value)
        self.spend(len(scalar) + 2 if isinstance(scalar, str) else 4)
        return scalar


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise MutationFailed(f"a map of a patch has a key of type {type_name(name)}, not string")
    return name


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MutationFailed(f"a patch can't have the number {value}")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Optional):
        raise MutationFailed("a patch can't have an optional value: write ?field, or orValue()")
    raise MutationFailed(f"a patch can't have a value of type {type_name(value)}")
