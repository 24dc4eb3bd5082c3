"""Embedded Kubernetes objects in a field of an object: their apiVersion, kind and metadata.

The rest of them follows the schema as usual. For each one, undeclared metadata is pruned, metadata of wrong types
is refused, and the rest is validated.
Source: ``x-kubernetes-embedded-resource`` of structural schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, Required
from oarlock.schema.passes.pruning import MAX_REPORTED, compile_clean, prune
from oarlock.schema.structural.merge_keys import OBJECT_META
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import MapKey, ValidationFindings, Where, render
from oarlock.schema.validation.objectmeta import validate_object_meta
from oarlock.schema.validation.typing_errors import compile_fits, type_errors

Find = Callable[[Any, Where], Iterator[tuple[dict[str, Any], Where]]]

_clean = compile_clean(OBJECT_META)
_fits = compile_fits(OBJECT_META)
_EMPTY = "must not be empty"
_MOST = 10
"""So many parts of wrong types are named in one metadata."""


class Embedded:
    """Handles the embedded objects in an object; made by `compile_embedded`."""

    __slots__ = ("_find",)

    def __init__(self, find: Find) -> None:
        self._find = find

    def wrong_types(self, tree: Any) -> Iterator[FieldError]:
        """Errors for apiVersion, kind and metadata of wrong types."""
        for inner, where in self._find(tree, None):
            yield from _wrong_types(inner, where)

    def prune(self, tree: Any) -> list[str]:
        """Remove undeclared metadata fields in place; returns their paths, at most `MAX_REPORTED`."""
        unknown: list[str] = []
        for inner, where in self._find(tree, None):
            metadata = inner.get("metadata")
            if type(metadata) is dict and _clean is not None and not _clean(metadata):
                removed = prune(metadata, OBJECT_META)
                if len(unknown) < MAX_REPORTED:
                    path = render((where, "metadata"))
                    unknown += [f"{path}.{name}" for name in removed]
        return unknown[:MAX_REPORTED]

    def validate(self, tree: Any, findings: ValidationFindings) -> None:
        """Errors in apiVersion, kind and metadata."""
        for inner, where in self._find(tree, None):
            for error in object_errors(inner, where):
                findings.add(where, error)


def _wrong_types(inner: dict[str, Any], where: Where) -> Iterator[FieldError]:
    for key in ("apiVersion", "kind"):
        if key in inner and type(inner[key]) is not str:
            yield Invalid(render((where, key)), inner[key], "must be a string")
    metadata = inner.get("metadata")
    if metadata is not None and _fits is not None and not _fits(metadata):
        why = "; ".join(error.message for error in islice(type_errors(metadata, OBJECT_META), _MOST))
        yield Invalid(render((where, "metadata")), metadata, why)


def object_errors(inner: dict[str, Any], where: Where) -> Iterator[FieldError]:
    """Errors in the apiVersion, kind and metadata of one embedded object."""
    wrong = list(_wrong_types(inner, where))
    yield from wrong
    for key, complain in (("apiVersion", _api_version), ("kind", _kind)):
        path, value = render((where, key)), inner.get(key)
        if key not in inner:
            yield Required(path)
        elif value == "":
            yield Invalid(path, "", _EMPTY)
        elif type(value) is str and (complaint := complain(value)):
            yield Invalid(path, value, complaint)
    metadata = inner.get("metadata")
    if metadata is None or (_fits is not None and not _fits(metadata)):
        return
    path = render((where, "metadata"))
    named = metadata if metadata.get("name") else {**metadata, "name": "fakename"}
    namespaced = bool(metadata.get("namespace"))
    yield from validate_object_meta(named, namespaced=namespaced, name_rule="path-segment", path=path)


def _api_version(value: str) -> str:
    return f"unexpected GroupVersion string: {value}" if value.count("/") > 1 else ""


def _kind(value: str) -> str:
    complaints = names.dns1035_label(value.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(complaints) if complaints else ""


def compile_embedded(node: Node) -> Embedded | None:
    """None when the schema has no embedded objects. `node` itself never counts as one."""
    find = _compile_find(node)
    return None if find is None else Embedded(find)


def _compile_find(node: Node) -> Find | None:
    below = [(key, child.embedded, _compile_find(child)) for key, child in node.properties.items()]
    children = [(key, is_one, inner) for key, is_one, inner in below if is_one or inner is not None]
    additional = node.additional if isinstance(node.additional, Node) else None
    in_values = None if additional is None else _compile_find(additional)
    values_are = additional is not None and additional.embedded
    in_items = None if node.items is None else _compile_find(node.items)
    items_are = node.items is not None and node.items.embedded
    if not (children or in_values or values_are or in_items or items_are):
        return None

    def find(tree: Any, where: Where) -> Iterator[tuple[dict[str, Any], Where]]:
        if type(tree) is list:
            for i, item in enumerate(tree):
                yield from _of(item, items_are, in_items, (where, i))
        if type(tree) is not dict:
            return
        for key, is_one, inner in children:
            if key in tree:
                yield from _of(tree[key], is_one, inner, (where, key))
        if in_values or values_are:
            for key, value in tree.items():
                if key not in node.properties:
                    yield from _of(value, values_are, in_values, (where, MapKey(key)))

    return find


def _of(value: Any, is_one: bool, inner: Find | None, where: Where) -> Iterator[tuple[dict[str, Any], Where]]:
    if is_one and type(value) is dict:
        yield value, where
    if inner is not None and value:
        yield from inner(value, where)
