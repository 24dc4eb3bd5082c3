"""Validates the metadata of an object, and its changes in an update; and the objects that are embedded in a field.

The metadata must have the right JSON types (see `metadata`). Must not know: which fields the server sets.
Source: k8s.io/apimachinery ``api/validation`` of ObjectMeta; messages and order are Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required, TooLong
from oarlock.meta.go.gotext import quote
from oarlock.schema.passes.pruning import MAX_REPORTED, compile_clean, prune
from oarlock.schema.structural.merge_keys import OBJECT_META
from oarlock.schema.structural.nodes import Node
from oarlock.schema.validation.findings import MapKey, ValidationFindings, Where, render
from oarlock.schema.validation.typing_errors import compile_fits, type_errors

ObjectMetadata = dict[str, Any]

MAX_ANNOTATIONS_BYTES = 256 * 1024
LONGEST_KEY = 317  # prefix, slash and name of a valid one; longer ones aren't worth remembering
_MAX_SUBRESOURCE = 256
_MAX_MANAGER = 128
_EMPTY = "must not be empty"

_RULES: dict[str, Callable[[str], list[str]]] = {
    "dns-subdomain": names.dns1123_subdomain,
    "dns-label": names.dns1123_label,
    "dns1035-label": names.dns1035_label,
    "path-segment": names.path_segment_name,
}


def validate_object_meta(
    metadata: ObjectMetadata, *, namespaced: bool, name_rule: str, path: str = "metadata"
) -> list[FieldError]:
    """Every error in `metadata`. `name_rule` is one of `ResourceDefinition.name_rule`; KeyError for another.

    A trailing dash is allowed in a ``generateName``; the name itself has been generated before.
    """
    errors: list[FieldError] = []
    if name_rule != "none":
        _names(metadata, name_rule, path, errors)
    namespace = metadata.get("namespace") or ""
    if not namespaced or not 0 < len(namespace) <= 63 or _label_complaints(namespace):
        _namespace(namespace, namespaced, path, errors)
    generation = metadata.get("generation")
    if generation and generation < 0:
        errors.append(Invalid("metadata.generation", generation, "must be greater than or equal to 0"))
    for key, check in _CHECKS:
        value = metadata.get(key)
        if value:
            check(value, path, errors)
    return errors


def _names(metadata: ObjectMetadata, name_rule: str, path: str, errors: list[FieldError]) -> None:
    complaints = _RULES[name_rule]
    prefix = metadata.get("generateName")
    if prefix:
        masked = prefix if name_rule == "path-segment" else names.mask_trailing_dash(prefix)
        errors += [Invalid(f"{path}.generateName", prefix, text) for text in complaints(masked)]
    name = metadata.get("name")
    if not name:
        errors.append(Required(f"{path}.name", "name or generateName is required"))
    else:
        for text in complaints(name):
            errors.append(Invalid(f"{path}.name", name, text))


def _namespace(namespace: str, namespaced: bool, path: str, errors: list[FieldError]) -> None:
    if not namespaced:
        if namespace:
            errors.append(Forbidden(f"{path}.namespace", "not allowed on this type"))
    elif not namespace:
        errors.append(Required(f"{path}.namespace"))
    else:
        for text in names.dns1123_label(namespace):
            errors.append(Invalid(f"{path}.namespace", namespace, text))


# Results are cached for what is checked with every write and repeats between objects: of valid length, so that a
# hostile client can't fill the memory with it.

_label_complaints = lru_cache(maxsize=2048)(names.dns1123_label)
_value_complaints = lru_cache(maxsize=4096)(names.label_value)
_remembered_complaints = lru_cache(maxsize=2048)(names.qualified_name)


def _key_complaints(key: str) -> Sequence[str]:
    return _remembered_complaints(key) if len(key) <= LONGEST_KEY else names.qualified_name(key)


def _labels(labels: dict[str, str], path: str, errors: list[FieldError]) -> None:
    for key, value in labels.items():
        short = len(value) <= 63 and len(key) <= LONGEST_KEY
        if short and not _remembered_complaints(key) and not _value_complaints(value):
            continue
        for text in _key_complaints(key):
            errors.append(Invalid(f"{path}.labels", key, text))
        for text in names.label_value(value):
            errors.append(Invalid(f"{path}.labels", value, text))


def _annotations(annotations: dict[str, str], path: str, errors: list[FieldError]) -> None:
    size = 0
    for key, value in annotations.items():
        for text in _key_complaints(key.lower()):
            errors.append(Invalid(f"{path}.annotations", key, text))
        size += len(key) + len(value)
    # a character has at most four bytes in UTF-8; counting characters costs nothing
    if size * 4 > MAX_ANNOTATIONS_BYTES and _bytes(annotations) > MAX_ANNOTATIONS_BYTES:
        errors.append(TooLong(f"{path}.annotations", MAX_ANNOTATIONS_BYTES))


def _bytes(texts: dict[str, str]) -> int:
    return sum(
        len(key.encode("utf-8", "surrogatepass")) + len(value.encode("utf-8", "surrogatepass"))
        for key, value in texts.items()
    )


def _owner_references(references: list[ObjectMetadata], under: str, errors: list[FieldError]) -> None:
    path = f"{under}.ownerReferences"
    controller = ""
    for reference in references:
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        name = reference.get("name") or ""
        if not api_version.rpartition("/")[2] or api_version.count("/") > 1:
            errors.append(Invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        if not kind:
            errors.append(Invalid(f"{path}.kind", kind, _EMPTY))
        if not name:
            errors.append(Invalid(f"{path}.name", name, _EMPTY))
        if not reference.get("uid"):
            errors.append(Invalid(f"{path}.uid", "", _EMPTY))
        if (api_version, kind) == ("v1", "Event"):
            errors.append(Invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if reference.get("controller"):
            if controller:
                both = f"{controller} and {kind}/{name}"
                text = f'Only one reference can have Controller set to true. Found "true" in references for {both}'
                errors.append(Invalid(path, references, text))
            else:
                controller = f"{kind}/{name}"


def _finalizers(finalizers: list[str], under: str, errors: list[FieldError]) -> None:
    path = f"{under}.finalizers"
    for finalizer in finalizers:
        errors += [Invalid(path, finalizer, text) for text in names.qualified_name(finalizer)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(Invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))


def _managed_fields(entries: list[ObjectMetadata], under: str, errors: list[FieldError]) -> None:
    path = f"{under}.managedFields"
    for i, entry in enumerate(entries):
        operation = entry.get("operation") or ""
        if operation not in ("Apply", "Update"):
            errors.append(Invalid(f"{path}[{i}].operation", operation, "must be `Apply` or `Update`"))
        fields_type = entry.get("fieldsType") or ""
        if fields_type not in ("", "FieldsV1"):
            errors.append(Invalid(f"{path}[{i}].fieldsType", fields_type, "must be `FieldsV1`"))
        manager = entry.get("manager") or ""
        if len(manager) > _MAX_MANAGER:
            errors.append(TooLong(f"{path}[{i}].manager", _MAX_MANAGER))
        if not manager.isprintable():
            errors.append(Invalid(f"{path}[{i}].manager", manager, "should only contain printable characters"))
        if len(entry.get("subresource") or "") > _MAX_SUBRESOURCE:
            errors.append(TooLong(f"{path}[{i}].subresource", _MAX_SUBRESOURCE))


_CHECKS: tuple[tuple[str, Callable[[Any, str, list[FieldError]], None]], ...] = (
    ("labels", _labels),
    ("annotations", _annotations),
    ("ownerReferences", _owner_references),
    ("finalizers", _finalizers),
    ("managedFields", _managed_fields),
)

_IMMUTABLE: dict[str, Any] = {
    # field, and what it is when absent
    "name": "",
    "namespace": "",
    "uid": "",
    "creationTimestamp": None,
    "deletionTimestamp": None,
    "deletionGracePeriodSeconds": None,
}


def validate_object_meta_update(new: ObjectMetadata, old: ObjectMetadata) -> list[FieldError]:
    """Errors in changes: identity and times are immutable, and a deleted object may only lose finalizers.

    The store checks the resourceVersion. Fields that the server sets must have been restored before.
    """
    errors: list[FieldError] = []
    if old.get("deletionTimestamp") is not None:
        extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if extra:
            extra_names = ", ".join(map(quote, extra))
            text = "no new finalizers can be added if the object is being deleted, found new finalizers"
            errors.append(Forbidden("metadata.finalizers", f"{text} []string{{{extra_names}}}"))
    generation = new.get("generation") or 0
    if generation < (old.get("generation") or 0):
        errors.append(Invalid("metadata.generation", generation, "must not be decremented"))
    if [*map(new.get, _IMMUTABLE)] == [*map(old.get, _IMMUTABLE)]:
        return errors
    for key, absent in _IMMUTABLE.items():
        value = new.get(key, absent)
        if value != old.get(key, absent):
            errors.append(Invalid(f"metadata.{key}", value, "field is immutable"))
    return errors


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
