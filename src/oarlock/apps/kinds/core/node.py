"""Nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, UNKNOWN, age, age_of, text
from oarlock.apps.kinds.common.trees import at, below, go_value
from oarlock.apps.kinds.common.values import check_cidr, check_qualified_name
from oarlock.apps.kinds.declaration import KindDeclaration, proxy_declaration
from oarlock.apps.kinds.pods.resources import check_quantity
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.go.gotext import syntax_error
from oarlock.meta.json_trees import Tree


def _fill_in(tree: Tree) -> None:
    _fill_in_ranges(tree)
    status = tree.get("status")
    if status and status.get("capacity"):
        allocatable = below(status, "allocatable")
        for name, amount in status["capacity"].items():
            allocatable.setdefault(name, amount)


_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _complete(new: Tree) -> None:
    status = below(new, "status")
    below(below(status, "daemonEndpoints"), "kubeletEndpoint").setdefault("Port", 0)
    info = below(status, "nodeInfo")
    for name in _NODE_INFO:
        info.setdefault(name, "")
    below(new, "spec").pop("configSource", None)


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from _check_avoided(at(new, "metadata.annotations", {}))
    for _ in range(1 if old is None else 2):  # the update checks them once more
        yield from _check_taints(spec.get("taints") or (), "metadata.taints")
    ranges = spec.get("podCIDRs") or []
    bad = [error for i, text in enumerate(ranges) for error in check_cidr(text, f"spec.podCIDRs[{i}]")]
    yield from bad
    if len(ranges) > 1 and not bad:
        versions = {ipaddress.ip_network(text).version for text in ranges}
        if len(ranges) > 2 or len(versions) == 1:
            why = "may specify no more than one CIDR for each IP family"
            yield Invalid("spec.podCIDRs", ranges, why)
    if old is not None:
        before = old.get("spec") or {}
        if before.get("podCIDRs") and ranges != before["podCIDRs"]:
            yield Forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            yield Forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    yield from _check_amounts(new)


def _check_avoided(annotations: Tree) -> Iterator[FieldError]:
    """The annotation that names pods to avoid holds JSON."""
    text = annotations.get(_AVOIDED)
    if text is not None:
        why = syntax_error(text.encode())
        if why:
            yield Invalid("metadata.annotations.AvoidPods", _AVOIDED, why)


_AVOIDED: Final = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def _check_taints(taints: Sequence[Tree], path: str) -> Iterator[FieldError]:
    known: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        where, key, effect = f"{path}[{i}]", taint.get("key") or "", taint.get("effect") or ""
        yield from check_qualified_name(key, f"{where}.key")
        complaints = names.label_value(taint.get("value") or "")
        if complaints:
            yield Invalid(f"{where}.value", taint["value"], ";".join(complaints))
        if not effect:
            yield Required(f"{where}.effect")
        elif effect not in _EFFECTS:
            yield NotSupported(f"{where}.effect", effect, _EFFECTS)
        if (key, effect) in known:
            duplicate = Duplicate(where, go_value("Taint", taint))
            duplicate.detail = "taints must be unique by key and effect pair"
            yield duplicate
        known.add((key, effect))


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _check_amounts(node: Tree) -> Iterator[FieldError]:
    for field in ("capacity", "allocatable"):
        for name, value in sorted(at(node, f"status.{field}", {}).items()):
            yield from check_quantity(name, value, f"status.{field}.{name}")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    yield from _check_amounts(new)
    known: set[tuple[str, str]] = set()
    for i, address in enumerate(at(new, "status.addresses", ())):
        key = address.get("type") or "", address.get("address") or ""
        if key in known:
            yield Duplicate(f"status.addresses[{i}]", go_value("NodeAddress", address))
        known.add(key)


def _fill_in_ranges(tree: Tree) -> None:
    """The first range of addresses stands in two fields."""
    spec = tree.get("spec") or {}
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _row(tree: Tree, now: float) -> list[Any]:
    ready = next(
        (condition for condition in at(tree, "status.conditions", []) if condition.get("type") == "Ready"), None
    )
    status = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if at(tree, "spec.unschedulable"):
        status.append("SchedulingDisabled")
    addresses = {address.get("type"): address.get("address") for address in reversed(at(tree, "status.addresses", []))}
    info = at(tree, "status.nodeInfo", {})
    system = [info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        ",".join(status),
        ",".join(sorted(set(_roles(tree)))) or NONE,
        age_of(tree, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        *system,
    ]


def _roles(tree: Tree) -> Iterable[str]:
    for key, value in at(tree, "metadata.labels", {}).items():
        if key.startswith("node-role.kubernetes.io/") and len(key) > 24:
            yield key[24:]
        elif key == "kubernetes.io/role" and value:
            yield value


NODE: Final = KindDeclaration(
    "",
    "v1",
    "Node",
    "nodes",
    short_names=("no",),
    namespaced=False,
    status=True,
    status_at_creation=True,
    parts=(proxy_declaration("NodeProxyOptions"),),
    selectable=(".spec.unschedulable",),
    columns=(
        text("Status", "The status of the node"),
        text("Roles", "The roles of the node"),
        age(),
        text("Version", "Kubelet Version reported by the node."),
        text("Internal-IP", wide=True),
        text("External-IP", wide=True),
        text("OS-Image", wide=True),
        text("Kernel-Version", wide=True),
        text("Container-Runtime", wide=True),
    ),
    default=_fill_in,
    complete=_complete,
    row=_row,
    validate=_validate,
    validate_status=_check_status,
)
