"""Nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from oarlock.apps.kinds.common.cells import NONE, UNKNOWN, age_of
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration

__all__ = ["NODE"]


def _fill_in(tree: Tree) -> None:
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
    below(new, "spec")


def _row(tree: Tree, now: float) -> list[Any]:
    ready = next((one for one in at(tree, "status.conditions", []) if one.get("type") == "Ready"), None)
    status = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if at(tree, "spec.unschedulable"):
        status.append("SchedulingDisabled")
    addresses = {one.get("type"): one.get("address") for one in reversed(at(tree, "status.addresses", []))}
    info = at(tree, "status.nodeInfo", {})
    told = [info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        ",".join(status),
        ",".join(sorted(set(_roles(tree)))) or NONE,
        age_of(tree, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        *told,
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
)
