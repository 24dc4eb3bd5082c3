"""ResourceSlices of resource.k8s.io."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, text, values_at
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at, go_list, go_value
from oarlock.apps.kinds.common.values import check_qualified_name, check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.placement import check_node_selector
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.apps.kinds.resource.devices import check_attribute_name
from oarlock.meta import names, times
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_MOST_DEVICES: Final = 128
_MOST_TEXT: Final = 64


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_csi_driver_name(spec.get("driver") or "", "spec.driver")
    yield from _check_pool(spec.get("pool") or {}, "spec.pool")
    if old is not None:
        before = old.get("spec") or {}
        yield from unchanged(spec.get("pool") or {}, before.get("pool") or {}, "spec.pool", "name")
        yield from unchanged(spec, before, "spec", "driver", "nodeName")
    given = [name for name in _PLACES if spec.get(name)]
    if spec.get("nodeName") is not None:
        yield from check_text(names.dns1123_subdomain, spec["nodeName"], "spec.nodeName")
    if spec.get("nodeSelector") is not None:
        yield from _check_selector(spec["nodeSelector"], "spec.nodeSelector")
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
        if spec.get("perDeviceNodeSelection"):
            yield from _check_place(device, path)
        if name in known:
            yield Duplicate(f"{path}.name", name)
        known.add(name)


_NUMBER: Final = "(0|[1-9][0-9]*)"
_PART: Final = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_is_version: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
).fullmatch


def _check_selector(selector: Tree, path: str) -> Iterator[FieldError]:
    """A selector of nodes with one term, so that those of several devices can be joined."""
    yield from check_node_selector(selector, path)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        shown = go_list("NodeSelectorTerm", terms)
        yield Invalid(f"{path}.nodeSelectorTerms", shown, "must have exactly one node selector term")


_OWN_PLACES: Final = ("nodeName", "nodeSelector", "allNodes")


def _check_place(device: Tree, path: str) -> Iterator[FieldError]:
    """Where a device is that says so itself."""
    given = [name for name in _OWN_PLACES if device.get(name)]
    if device.get("nodeName") is not None:
        yield from check_text(names.dns1123_subdomain, device["nodeName"], f"{path}.nodeName")
    if device.get("nodeSelector") is not None:
        yield from _check_selector(device["nodeSelector"], f"{path}.nodeSelector")
    rule = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to"
    )
    if not given:
        yield Required(path, f"{rule} true in the ResourceSlice spec")
    elif len(given) > 1:
        yield Invalid(path, "", f"{rule} true in the ResourceSlice spec")


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
        yield from check_attribute_name(name, f"{path}.attributes")
        where, given = f"{path}.attributes[{name}]", [kind for kind in _VALUES if attribute.get(kind) is not None]
        if len(given) != 1:
            yield Invalid(
                where, go_value("DeviceAttribute", attribute) if given else "", "exactly one value must be specified"
            )
        elif given[0] in ("string", "version") and len(attribute[given[0]].encode()) > _MOST_TEXT:
            yield TooLong(f"{where}.{given[0]}", _MOST_TEXT)
        elif given[0] == "version" and not _is_version(attribute["version"]):
            yield Invalid(
                f"{where}.version", attribute["version"], "must be a string compatible with semver.org spec 2.0.0"
            )
    for name in sorted(device.get("capacity") or {}):
        yield from check_attribute_name(name, f"{path}.capacity")
    for i, taint in enumerate(device.get("taints") or ()):
        yield from check_qualified_name(taint.get("key") or "", f"{path}.taints[{i}].key")
        effect = taint.get("effect") or ""
        if not effect:
            yield Required(f"{path}.taints[{i}].effect")
        elif effect not in ("NoExecute", "NoSchedule", "None"):
            yield NotSupported(f"{path}.taints[{i}].effect", effect, ("NoExecute", "NoSchedule", "None"))


def _begin(new: Tree) -> None:
    _date_taints(new, new["metadata"]["creationTimestamp"])


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    _date_taints(new, times.rfc3339(ctx.clock.now()))


def _date_taints(new: Tree, now: str) -> None:
    """A taint is there since now, unless it says since when."""
    for device in at(new, "spec.devices", ()):
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now)


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
    prepare=_begin,
    update=_update,
    validate=_validate,
)
