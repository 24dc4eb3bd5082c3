"""Where values in a pod come from: environment variables, the downward API, keys of ConfigMaps and Secrets.

Source: Kubernetes' validation of core/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from oarlock.apps.kinds.common.values import (
    check_config_key,
    check_descending_path,
    check_env_name,
    check_mode,
    check_no_backsteps,
    check_qualified_name,
    check_required_name,
)
from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta import names
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity

_ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN_FIELDS: Final = frozenset((*_ENV_FIELDS, *_VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName"))
_SUBSCRIPT: Final = re.compile(r"(?P<path>[^\[]+)\['(?P<key>.*)'\]")
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_ENV_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE: Final = "may not have more than one field specified at a time"


def check_env(variables: Iterable[Tree], path: str) -> Iterator[FieldError]:
    """The environment variables of a container."""
    for i, variable in enumerate(variables):
        where, name = f"{path}[{i}]", variable.get("name") or ""
        if not name:
            yield Required(f"{where}.name")
        else:
            yield from check_env_name(name, f"{where}.name")
        source = variable.get("valueFrom")
        if source is None:
            continue
        given = [name for name in _ENV_SOURCES if source.get(name) is not None]
        for source_name in given:
            yield from _check_source(source_name, source[source_name], f"{where}.valueFrom.{source_name}")
        if not given:
            listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            yield Invalid(f"{where}.valueFrom", "", f"must specify one of: {listed}")
        elif variable.get("value"):
            yield Invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty")
        elif len(given) > 1:
            yield Invalid(f"{where}.valueFrom", "", _ONE_SOURCE)


def _check_source(kind: str, source: Tree, path: str) -> Iterator[FieldError]:
    if kind == "fieldRef":
        yield from _check_field(source, _ENV_FIELDS, path)
    elif kind == "resourceFieldRef":
        yield from _check_resource(source, path)
    elif kind == "fileKeyRef":
        yield from _check_file(source, path)
    else:
        yield from check_required_name(names.dns1123_subdomain, source.get("name"), f"{path}.name")
        if not source.get("key"):
            yield Required(f"{path}.key")
        else:
            yield from check_config_key(source["key"], f"{path}.key")


def _check_file(source: Tree, path: str) -> Iterator[FieldError]:
    if not source.get("key"):
        yield Required(f"{path}.key")
    else:
        yield from check_env_name(source["key"], f"{path}.key")
    yield from check_required_name(names.dns1123_label, source.get("volumeName"), f"{path}.volumeName")
    if not source.get("path"):
        yield Required(f"{path}.path")
    else:
        yield from check_no_backsteps(source["path"], f"{path}.path")


def _check_field(source: Tree, fields: Iterable[str], path: str) -> Iterator[FieldError]:
    """A field of the pod: one of `fields`, or one label or annotation."""
    version, field = source.get("apiVersion") or "", source.get("fieldPath") or ""
    if not version or not field:
        yield Required(f"{path}.fieldPath" if version else f"{path}.apiVersion")
        return
    subscript = _SUBSCRIPT.fullmatch(field)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif subscript and subscript["path"] not in ("metadata.annotations", "metadata.labels"):
        problem = f"field label does not support subscript: {field}"
    elif not subscript and field not in _KNOWN_FIELDS:
        problem = f"field label not supported: {field}"
    if problem:
        yield Invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")
    elif subscript:
        key = subscript["key"]
        yield from check_qualified_name(key.lower() if subscript["path"] == "metadata.annotations" else key, path)
    elif field not in fields:
        yield NotSupported(f"{path}.fieldPath", field, sorted(fields))


def _check_resource(source: Tree, path: str, *, of_volume: bool = False) -> Iterator[FieldError]:
    """What a container may have of a resource."""
    name = source.get("resource") or ""
    if of_volume and not source.get("containerName"):
        yield Required(f"{path}.containerName")
    elif not name:
        yield Required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(("requests.hugepages-", "limits.hugepages-")):
        yield NotSupported(f"{path}.resource", name, _RESOURCES)
    divisor = quantity(source.get("divisor"))
    if divisor is None or divisor == Quantity():
        return
    text, kind = str(divisor), name.partition(".")[2]
    if kind == "cpu" and text not in ("1m", "1"):
        yield Invalid(f"{path}.divisor", name, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif text not in _BYTES and (kind in ("memory", "ephemeral-storage") or kind.startswith("hugepages-")):
        called = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(kind, "hugepages")
        why = f"only divisor's values {', '.join(_BYTES)} are supported with the {called} resource"
        yield Invalid(f"{path}.divisor", name, why)


def check_env_from(sources: Iterable[Tree], path: str) -> Iterator[FieldError]:
    """The ConfigMaps and Secrets whose keys are environment variables."""
    for i, source in enumerate(sources):
        if source.get("prefix"):
            yield from check_env_name(source["prefix"], f"{path}[{i}].prefix")
        given = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in given:
            name, where = source[kind].get("name"), f"{path}[{i}].{kind}.name"
            yield from check_required_name(names.dns1123_subdomain, name, where)
        if not given:
            yield Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield Invalid(path, "", _ONE_SOURCE)


def check_local_path(text: str, path: str) -> Iterator[FieldError]:
    """A relative path without ``..``, which doesn't begin with two dots either."""
    yield from check_descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield Invalid(path, text, "must not start with '..'")


def check_keys(items: Iterable[Tree], path: str) -> Iterator[FieldError]:
    """Keys and the files that they become."""
    for i, item in enumerate(items):
        where = f"{path}[{i}]"
        if not item.get("key"):
            yield Required(f"{where}.key")
        if not item.get("path"):
            yield Required(f"{where}.path")
        yield from check_local_path(item.get("path") or "", f"{where}.path")
        yield from check_mode(item.get("mode"), f"{where}.mode")


def check_downward_file(file: Tree, path: str) -> Iterator[FieldError]:
    """A file with a field of the pod or a resource of a container."""
    if not file.get("path"):
        yield Required(f"{path}.path")
    yield from check_local_path(file.get("path") or "", f"{path}.path")
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        yield from _check_field(field, _VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            yield Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        yield from _check_resource(resource, f"{path}.resourceFieldRef", of_volume=True)
    else:
        yield Required(path, "one of fieldRef and resourceFieldRef is required")
    yield from check_mode(file.get("mode"), f"{path}.mode")
