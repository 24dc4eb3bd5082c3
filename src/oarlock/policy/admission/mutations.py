"""Policies in CEL that change what is written: their programs, and the patches they compute, applied to an object.

A patch is an apply configuration, applied by the object's schema, or a JSON patch. Pure: the object isn't changed;
parts that aren't touched are shared. What policies of both kinds have in common is in ``policies``.
Source: KEP-3962; k8s.io/apiserver ``admission/plugin/policy/mutating/patch``.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from oarlock.codec import json
from oarlock.meta.dataclass import dataclass
from oarlock.meta.go.gotext import quote
from oarlock.meta.json_trees import Tree
from oarlock.patch import json_patch
from oarlock.patch.apply import elements
from oarlock.patch.apply.merge import merge
from oarlock.patch.apply.schema import DEDUCED, ListType, MapType, ValueType, atom
from oarlock.patch.apply.validate import check
from oarlock.patch.errors import PatchError, TestFailed, TypedError
from oarlock.policy.admission.expressions import (
    CompiledExpression,
    FaultyExpression,
    check_expression,
    program_of,
)
from oarlock.policy.admission.policies.engine import CompiledPolicy, PolicyCompiler, common_parts
from oarlock.schema.cel import types
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.library.text import duration_text, timestamp_text
from oarlock.schema.cel.types import CelType
from oarlock.schema.cel.values import Duration, Obj, Optional, Timestamp, type_name

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


APPLY_CONFIGURATION, JSON_PATCH = "ApplyConfiguration", "JSONPatch"

_OPERATION = types.message(
    "JSONPatch", {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}
)
_FIELDS = {APPLY_CONFIGURATION: "applyConfiguration", JSON_PATCH: "jsonPatch"}
_RESULTS = {APPLY_CONFIGURATION: "Object", JSON_PATCH: "list(JSONPatch)"}


@dataclass(frozen=True, slots=True)
class CompiledMutation:
    """One mutation of a policy: `kind` is its patchType."""

    kind: str
    expression: CompiledExpression


@dataclass(slots=True)
class CompiledMutatingPolicy(CompiledPolicy):
    """All of a policy that admission needs. One with `faults` can't be run. `again`: it may be asked again."""

    mutations: list[CompiledMutation] = field(default_factory=list)
    again: bool = False


def compile_mutating_policy(tree: Mapping[str, Any]) -> CompiledMutatingPolicy:
    """Compile a MutatingAdmissionPolicy."""
    spec: Mapping[str, Any] = tree.get("spec") or {}
    policy = CompiledMutatingPolicy(**common_parts(tree), again=spec.get("reinvocationPolicy") == "IfNeeded")
    scope = PolicyCompiler(policy, spec, _message).scope
    given: Sequence[Mapping[str, Any]] = spec.get("mutations") or ()
    for at, mutation in enumerate(given):
        for kind, name in _FIELDS.items():
            source = (mutation.get(name) or {}).get("expression") or ""
            if not source.strip():
                continue
            try:
                made = _compile(source, f"spec.mutations[{at}].{name}.expression", scope, _RESULTS[kind])
            except FaultyExpression as error:
                policy.faults.append(error.fault)
                continue
            if kind == mutation.get("patchType"):
                policy.mutations.append(CompiledMutation(kind, made))
    return policy


def _compile(source: str, path: str, scope: Mapping[str, DeclaredVariable], result: str) -> CompiledExpression:
    checked = check_expression(source, path, scope, _message)
    if str(checked.type) != result:
        raise FaultyExpression(path, source, f"must evaluate to {result} but got {checked.type}")
    return program_of(checked, path)


def _message(name: str) -> CelType | None:
    """``Object``, ``Object.spec`` … may have any fields: an expression may be about several kinds."""
    if name == _OPERATION.name:
        return _OPERATION
    return types.message(name) if name == "Object" or name.startswith("Object.") else None


MAX_OBJECT_BYTES = 3 * 1024 * 1024
"""The most bytes an object may have after a mutation, as JSON."""

MOST_ATOMIC = 100
"""Nobody reads more."""

_does_not_apply = re.compile(r"(\w+) operation does not apply: (.*?): (/.*)?", re.DOTALL).fullmatch


def mutated(kind: str, value: Any, tree: Tree, type_: ValueType, limit: int = MAX_PATCH_BYTES) -> Tree:
    """The object with the patch of `kind` that an expression has computed; itself if that changes nothing.

    `type_` is that of the object. Raises MutationFailed, and `MutationTooLarge` for a patch of more than `limit` bytes.
    """
    if kind == APPLY_CONFIGURATION:
        made = _configured(tree, configuration_tree(value, limit), type_)
    else:
        made = _patched(tree, operations_tree(value, limit))
    if made is tree or made == tree:
        return tree
    if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
        raise MutationFailed("the patch makes something else of the object")
    made = {**made, **{name: tree[name] for name in ("apiVersion", "kind") if name in tree}}
    if json.depth_exceeds(made, json.MAX_DEPTH):
        raise MutationFailed("exceeded max depth")
    if len(json.encode(made)) > MAX_OBJECT_BYTES:
        raise MutationFailed(f"the object would have more than {MAX_OBJECT_BYTES} bytes")
    return made


def _configured(tree: Tree, configuration: Tree, type_: ValueType) -> Any:
    try:
        check(type_, configuration)
    except TypedError as error:
        raise _not_applied(f"failed to convert patch object to typed object: {error}") from None
    found: list[str] = []
    _find_atomic(type_, configuration, (), found)
    if found:
        places = ", ".join(found[:MOST_ATOMIC])
        why = f"may not mutate atomic arrays, maps or structs: {places}"
        raise _not_applied(f"invalid ApplyConfiguration: {why}")
    try:
        return merge(type_, tree, configuration)
    except TypedError as error:
        raise _not_applied(f"failed to merge patch: {error}") from None


def _not_applied(why: str) -> MutationFailed:
    return MutationFailed(f"error applying patch: {why}")


def _find_atomic(type_: ValueType, value: Any, place: tuple[str, ...], found: list[str]) -> None:
    """The places of lists and objects that can only be replaced as a whole."""
    form = atom(type_, value)
    if form is None or len(found) > MOST_ATOMIC:
        return
    if form.atomic and isinstance(value, dict | list):
        found.append(elements.path_text(place))
    if isinstance(form, MapType) and isinstance(value, dict):
        for name, inner in value.items():
            _find_atomic(form.child(name), inner, (*place, elements.field(name)), found)
    elif isinstance(form, ListType) and isinstance(value, list):
        for at, inner in enumerate(value):
            _find_atomic(form.element or DEDUCED, inner, (*place, elements.index(at)), found)


def _patched(tree: Tree, operations: list[Tree]) -> Any:
    try:
        return json_patch.apply(tree, json_patch.from_tree(operations))
    except TestFailed:
        return tree
    except PatchError as error:
        raise MutationFailed(f"JSON Patch: {_worded(str(error))}") from None


def _worded(text: str) -> str:
    """What is wrong with a patch, in the words of the library that Kubernetes uses."""
    parts = _does_not_apply(text)
    if parts is None:
        return text
    name, why, path = parts[1], parts[2], parts[3] or ""
    if why == "missing value" and name != "copy":
        last = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        return f"error in {name} for path: '{path}': Unable to remove nonexistent key: {last}: missing value"
    if why == "doc is missing path":
        return f"{name} operation does not apply: {why}: {quote(path)}: missing value"
    if why == "doc is missing key":
        return f"{name} operation does not apply: {why}: {path}: missing value"
    return text
