"""The kinds of resource.k8s.io: DeviceClasses, ResourceClaims, their templates, ResourceSlices, CEL selectors.

Source: Kubernetes' registry of resource; ``dynamic-resource-allocation/cel``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, text, values_at
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.trees import at, go_list, go_value
from oarlock.apps.kinds.common.values import check_qualified_name, check_text, unchanged
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.placement import check_node_selector
from oarlock.apps.kinds.pods.resources import is_extended
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.meta import names, times
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required, TooLong, TooMany
from oarlock.meta.json_trees import Tree
from oarlock.schema.cel import types
from oarlock.schema.cel.declared import Decl
from oarlock.schema.cel.expression import DeclaredVariable
from oarlock.schema.cel.expression import check_text as check_cel_text
from oarlock.schema.cel.problems import CompileError
from oarlock.schema.cel.types import CelType
from oarlock.schema.structural.nodes import Node

_MOST: Final = 32
_MOST_BYTES: Final = 10 * 1024
_ANY: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.DYN))
_AMOUNTS: Final = types.map_of(types.STRING, types.map_of(types.STRING, types.opaque("kubernetes.Quantity")))
_FIELDS: Final = {
    "driver": types.STRING,
    "attributes": _ANY,
    "capacity": _AMOUNTS,
    "allowMultipleAllocations": types.BOOL,
}


def _device() -> DeclaredVariable:
    decl = Decl(CelType("object", (), "kubernetes.DRADevice"), Node(type="object"), computed=True)
    decl.type.node = decl
    decl.fields = {name: (name, Decl(kind, Node())) for name, kind in _FIELDS.items()}
    return DeclaredVariable(decl.type, decl)


_VARIABLES: Final = {"device": _device()}


def check_selectors(selectors: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """Conditions of devices: at most 32, of at most 10 KiB, each true or false."""
    if len(selectors) > _MOST:
        yield TooMany(path, len(selectors), _MOST)
        return
    for i, selector in enumerate(selectors):
        if selector.get("cel") is None:
            yield Required(f"{path}[{i}].cel")
        else:
            yield from _check_expression(selector["cel"].get("expression") or "", f"{path}[{i}].cel.expression")


def _check_expression(text: str, path: str) -> Iterator[FieldError]:
    if len(text.encode()) > _MOST_BYTES:
        yield TooLong(path, _MOST_BYTES)
        return
    try:
        kind = check_cel_text(text, _VARIABLES).type
    except CompileError as error:
        yield Invalid(path, text, f"compilation failed: {error}")
        return
    if kind.kind not in ("bool", "dyn"):
        yield Invalid(path, text, f"must evaluate to bool or the unknown type, not {kind}")


_MOST_ALTERNATIVES: Final = 8
_MODES: Final = ("All", "ExactCount")
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_ONE: Final = "exactly one of `exactly` or `firstAvailable` is required"
UNKNOWN_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def fill_in_claim(spec: Tree | None) -> None:
    """A request is for exactly one device unless it says otherwise."""
    for request in at(spec, "devices.requests", ()):
        for alternative in _alternatives(request):
            alternative.setdefault("allocationMode", "ExactCount")
            if alternative["allocationMode"] == "ExactCount" and not alternative.get("count"):
                alternative["count"] = 1
            for toleration in alternative.get("tolerations") or ():
                toleration.setdefault("operator", "Equal")


def _alternatives(request: Tree) -> Iterator[Tree]:
    if request.get("exactly") is not None:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def check_claim(spec: Tree, path: str) -> Iterator[FieldError]:
    """The specification of a claim."""
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    requests, known = devices.get("requests") or (), set()
    if len(requests) > _MOST:
        yield TooMany(f"{path}.requests", len(requests), _MOST)
        return
    for i, request in enumerate(requests):
        where, name = f"{path}.requests[{i}]", request.get("name") or ""
        yield from check_text(names.dns1123_label, name, f"{where}.name")
        yield from _check_request(request, where)
        if name in known:
            yield Duplicate(where, name)
        known.add(name)
    places = requests_of(requests)
    for kind, check in (("constraints", _check_constraint), ("config", _check_configuration)):
        given = devices.get(kind) or ()
        if len(given) > _MOST:
            yield TooMany(f"{path}.{kind}", len(given), _MOST)
            continue
        for i, item in enumerate(given):
            yield from _check_names(item.get("requests") or (), places, f"{path}.{kind}[{i}].requests")
            yield from check(item, f"{path}.{kind}[{i}]")


def requests_of(requests: Sequence[Tree]) -> set[str]:
    """What the requests of a claim are called elsewhere in it: those with alternatives by each of them too."""
    names = {request.get("name") or "" for request in requests}
    return names | {
        f"{request.get('name')}/{alternative.get('name')}"
        for request in requests
        for alternative in request.get("firstAvailable") or ()
    }


def _check_request(request: Tree, path: str) -> Iterator[FieldError]:
    exactly, first = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is not None and first:
        yield Invalid(path, None, f"{_ONE}, but multiple fields are set")
    elif exactly is None and not first:
        yield Required(path, _ONE)
    if exactly is not None:
        yield from _check_devices(exactly, f"{path}.exactly")
    if len(first) > _MOST_ALTERNATIVES:
        yield TooMany(f"{path}.firstAvailable", len(first), _MOST_ALTERNATIVES)
        return
    known: set[str] = set()
    for i, alternative in enumerate(first):
        where, name = f"{path}.firstAvailable[{i}]", alternative.get("name") or ""
        yield from check_text(names.dns1123_label, name, f"{where}.name")
        yield from _check_devices(alternative, where)
        if name in known:
            yield Duplicate(where, name)
        known.add(name)


def _check_devices(request: Tree, path: str) -> Iterator[FieldError]:
    """Of which class devices are to be, how many, and what they have to have."""
    kind, mode, count = request.get("deviceClassName") or "", request.get("allocationMode") or "", request.get("count")
    if not kind:
        yield Required(f"{path}.deviceClassName")
    else:
        yield from check_text(names.dns1123_subdomain, kind, f"{path}.deviceClassName")
    yield from check_selectors(request.get("selectors") or (), f"{path}.selectors")
    if mode == "All":
        if count:
            yield Invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount":
        if (count or 0) <= 0:
            yield Invalid(f"{path}.count", count or 0, "must be greater than zero")
    else:
        yield NotSupported(f"{path}.allocationMode", mode, _MODES)
    for i, toleration in enumerate(request.get("tolerations") or ()):
        yield from _check_toleration(toleration, f"{path}.tolerations[{i}]")


def _check_toleration(toleration: Tree, path: str) -> Iterator[FieldError]:
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    if key:
        yield from check_qualified_name(key, f"{path}.key")
    if operator == "Exists":
        if value:
            yield Invalid(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        if not key:
            yield Required(f"{path}.key", "must be set for operator `Equal`")
        yield from check_text(names.label_value, value, f"{path}.value")
    else:
        yield NotSupported(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    if effect and effect not in _EFFECTS:
        yield NotSupported(f"{path}.effect", effect, _EFFECTS)


def _check_names(given: Sequence[str], known: set[str], path: str) -> Iterator[FieldError]:
    used: set[str] = set()
    for i, name in enumerate(given):
        if name in used:
            yield Duplicate(f"{path}[{i}]", name)
        used.add(name)
        if name not in known:
            yield Invalid(f"{path}[{i}]", name, UNKNOWN_REQUEST)


def _check_constraint(constraint: Tree, path: str) -> Iterator[FieldError]:
    given = [name for name in ("matchAttribute", "distinctAttribute") if constraint.get(name) is not None]
    if len(given) != 1:
        why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        yield Required(path, why)
    for name in given:
        attribute = constraint[name]
        yield from check_attribute_name(attribute, f"{path}.{name}")
        if attribute and "/" not in attribute:
            yield Invalid(f"{path}.{name}", attribute, "must include a domain")


_LONGEST_NAME: Final = 32
_C_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_BAD_C_NAME: Final = names.regex_complaint(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'",
    _C_NAME,
    "my_name",
    "MY_NAME",
    "MyName",
)


def check_attribute_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of an attribute or a capacity of devices, after its domain if it has one."""
    if not name:
        yield Required(path, "name required")
        return
    domain, slash, rest = name.rpartition("/")
    if slash and not domain:
        yield Required(path, "the domain must not be empty")
    elif slash:
        yield from check_text(names.dns1123_subdomain, domain, path)
    if slash and not rest:
        yield Required(path, "the name must not be empty")
        return
    if len(rest.encode()) > _LONGEST_NAME:
        yield TooLong(path, _LONGEST_NAME)
    if not re.fullmatch(_C_NAME, rest, re.ASCII):
        yield Invalid(path, rest, _BAD_C_NAME)


def _check_configuration(configuration: Tree, path: str) -> Iterator[FieldError]:
    opaque = configuration.get("opaque")
    if opaque is None:
        yield Required(f"{path}.opaque")
        return
    yield from check_csi_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    if opaque.get("parameters") is None:
        yield Required(f"{path}.opaque.parameters")


def check_configurations(configurations: Sequence[Tree], path: str) -> Iterator[FieldError]:
    """Check the configuration that is passed to the drivers of devices."""
    if len(configurations) > _MOST:
        yield TooMany(path, len(configurations), _MOST)
        return
    for i, configuration in enumerate(configurations):
        yield from _check_configuration(configuration, f"{path}[{i}]")


def _validate_device_class(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_selectors(spec.get("selectors") or (), "spec.selectors")
    yield from check_configurations(spec.get("config") or (), "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield Invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


DEVICE_CLASS: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses",
    namespaced=False,
    generation=True,
    columns=(age(),),
    row=values_at(),
    validate=_validate_device_class,
)


def _fill_in_resource_claim(tree: Tree) -> None:
    fill_in_claim(tree.get("spec"))


def _validate_resource_claim(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_claim(new.get("spec") or {}, "spec")
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="ResourceClaimSpec")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    if status.get("reservedFor") and status.get("allocation") is None:
        yield Forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    known: set[str] = set()
    for i, user in enumerate(status.get("reservedFor") or ()):
        path = f"status.reservedFor[{i}]"
        for field in ("resource", "name", "uid"):
            if not user.get(field):
                yield Required(f"{path}.{field}")
        if user.get("uid") in known:
            yield Duplicate(f"{path}.uid", user["uid"])
        known.add(user.get("uid", ""))
    allocation = status.get("allocation")
    if allocation is None:
        return
    if before.get("allocation") is not None:
        yield from unchanged(status, before, "status", "allocation")
        return
    requests = requests_of(at(new, "spec.devices.requests", ()))
    results = at(allocation, "devices.results", ())
    if len(results) > _MOST_RESULTS:
        yield TooMany("status.allocation.devices.results", len(results), _MOST_RESULTS)
    for i, result in enumerate(results):
        yield from _check_result(result, requests, f"status.allocation.devices.results[{i}]")
    if allocation.get("nodeSelector") is not None:
        yield from check_node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector")


_MOST_RESULTS: Final = 32


def _check_result(result: Tree, requests: Set[str], path: str) -> Iterator[FieldError]:
    """A device that was given to a claim."""
    request, pool = result.get("request") or "", result.get("pool") or ""
    if request not in requests:
        yield Invalid(f"{path}.request", request, UNKNOWN_REQUEST)
    yield from check_csi_driver_name(result.get("driver") or "", f"{path}.driver")
    if not pool:
        yield Required(f"{path}.pool")
    else:
        for part in pool.split("/"):
            yield from check_text(names.dns1123_subdomain, part, f"{path}.pool")
    yield from check_text(names.dns1123_label, result.get("device") or "", f"{path}.device")


def _row(tree: Tree, now: float) -> list[Any]:
    states = []
    if at(tree, "metadata.deletionTimestamp"):
        states.append("deleted")
    if at(tree, "status.allocation") is not None:
        states.append("allocated")
    if at(tree, "status.reservedFor"):
        states.append("reserved")
    return [",".join(states) or "pending", age_of(tree, now)]


RESOURCE_CLAIM: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims",
    status=True,
    status_metadata=(),
    columns=(text("State"), age()),
    complete=empty_status,
    row=_row,
    default=_fill_in_resource_claim,
    validate=_validate_resource_claim,
    validate_status=_check_status,
)


def _fill_in_resource_claim_template(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None:
        spec.setdefault("metadata", {})
        fill_in_claim(spec.get("spec"))


def _validate_resource_claim_template(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_claim(at(new, "spec.spec", {}), "spec.spec")
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="ResourceClaimTemplateSpec")


RESOURCE_CLAIM_TEMPLATE: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    columns=(age(),),
    row=values_at(),
    default=_fill_in_resource_claim_template,
    validate=_validate_resource_claim_template,
)

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_MOST_DEVICES: Final = 128
_MOST_TEXT: Final = 64


def _validate_resource_slice(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
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
    validate=_validate_resource_slice,
)

KINDS: Final = (
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
