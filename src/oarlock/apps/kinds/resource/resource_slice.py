"""ResourceSlices of resource.k8s.io."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.cells import values_at
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.go_values import go_value
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.values import check_qualified_name, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.placement import check_node_selector
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree

__all__ = ["RESOURCE_SLICE"]


_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_MOST_DEVICES: Final = 128
_MOST_TEXT: Final = 64
_C_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_BAD_C_NAME: Final = names.regex_complaint(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'",
    _C_NAME,
    "my_name",
    "MY_NAME",
    "MyName",
)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_csi_driver_name(spec.get("driver") or "", "spec.driver")
    yield from _check_pool(spec.get("pool") or {}, "spec.pool")
    given = [name for name in _PLACES if spec.get(name)]
    if spec.get("nodeName") is not None:
        yield from check_text(names.dns1123_subdomain, spec["nodeName"], "spec.nodeName")
    if spec.get("nodeSelector") is not None:
        yield from check_node_selector(spec["nodeSelector"], "spec.nodeSelector")
    if not given:
        yield Required("spec", f"exactly one of {', '.join(f'`{name}`' for name in _PLACES)} is required")
    elif len(given) > 1:
        listed = ", ".join(f"`{name}`" for name in _PLACES)
        yield Invalid("spec", given, f"exactly one of {listed} is required, but multiple fields are set")
    devices = spec.get("devices") or ()
    if spec.get("sharedCounters") and devices:
        yield Invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    if len(devices) > _MOST_DEVICES:
        yield TooMany("spec.devices", len(devices), _MOST_DEVICES)
        return
    known: set[str] = set()
    for i, device in enumerate(devices):
        name, path = device.get("name") or "", f"spec.devices[{i}]"
        yield from check_text(names.dns1123_label, name, f"{path}.name")
        yield from _check_device(device, path)
        if name in known:
            yield Duplicate(f"{path}.name", name)
        known.add(name)
    if old is not None:
        yield from unchanged(spec, old.get("spec") or {}, "spec", "driver", "nodeName")


def _check_pool(pool: Tree, path: str) -> Iterator[FieldError]:
    if not pool.get("name"):
        yield Required(f"{path}.name")
    else:
        for part in pool["name"].split("/"):
            yield from check_text(names.dns1123_subdomain, part, f"{path}.name")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        yield Invalid(f"{path}.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero")
    if (pool.get("generation") or 0) < 0:
        yield Invalid(f"{path}.generation", pool["generation"], "must be greater than or equal to zero")


def _check_device(device: Tree, path: str) -> Iterator[FieldError]:
    for name, attribute in sorted((device.get("attributes") or {}).items()):
        yield from _check_name(name, f"{path}.attributes")
        where, given = f"{path}.attributes[{name}]", [kind for kind in _VALUES if attribute.get(kind) is not None]
        if len(given) != 1:
            yield Invalid(
                where, go_value("DeviceAttribute", attribute) if given else "", "exactly one value must be specified"
            )
        elif given[0] in ("string", "version") and len(attribute[given[0]].encode()) > _MOST_TEXT:
            yield TooLong(f"{where}.{given[0]}", _MOST_TEXT)
    for name in sorted(device.get("capacity") or {}):
        yield from _check_name(name, f"{path}.capacity")
    for i, taint in enumerate(device.get("taints") or ()):
        yield from check_qualified_name(taint.get("key") or "", f"{path}.taints[{i}].key")
        effect = taint.get("effect") or ""
        if not effect:
            yield Required(f"{path}.taints[{i}].effect")
        elif effect not in ("NoExecute", "NoSchedule", "None"):
            yield NotSupported(f"{path}.taints[{i}].effect", effect, ("NoExecute", "NoSchedule", "None"))


def _check_name(name: str, path: str) -> Iterator[FieldError]:
    """An attribute's name, after its domain if it has one."""
    domain, slash, rest = name.rpartition("/")
    if slash:
        yield from check_text(names.dns1123_subdomain, domain, path)
    if not re.fullmatch(_C_NAME, rest, re.ASCII):
        yield Invalid(path, rest, _BAD_C_NAME)


RESOURCE_SLICE: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    "resourceslices",
    namespaced=False,
    generation=True,
    selectable=(".spec.nodeName", ".spec.driver"),
    columns=(text("Node"), text("Driver"), text("Pool"), age()),
    row=values_at("spec.nodeName", "spec.driver", "spec.pool.name"),
    validate=_validate,
)
