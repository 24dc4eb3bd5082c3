"""Validates the metadata of an object, and its changes in an update.

The metadata must have the right JSON types (see `metadata`). Must not know: which fields the server sets.
Source: k8s.io/apimachinery ``api/validation`` of ObjectMeta; messages and order are Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, Required, TooLong
from oarlock.meta.go.gotext import quote

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
