"""Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.cells import NONE, age_of, pairs
from oarlock.apps.kinds.common.columns import age, text
from oarlock.apps.kinds.common.first_status import empty_load_balancer
from oarlock.apps.kinds.common.trees import Tree, at, below
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required

__all__ = ["SERVICE"]

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PORT: Final = "must be between 1 and 65535, inclusive"


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    """The errors in a service."""
    spec = new.get("spec") or {}
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield Required("spec.ports")
    if kind not in _TYPES:
        yield NotSupported("spec.type", kind or "", _TYPES)
    if kind == "ExternalName":
        yield from _check_external(spec)
    used: set[str] = set()
    for i, port in enumerate(ports):
        yield from _check_port(port, f"spec.ports[{i}]", used, many=len(ports) > 1)
    places: set[tuple[object, ...]] = set()
    for i, port in enumerate(ports):
        place = port.get("port"), port.get("protocol")
        if place in places:
            yield Duplicate(f"spec.ports[{i}]", {"port": port.get("port"), "protocol": port.get("protocol")})
        places.add(place)
    if spec.get("sessionAffinity") not in _AFFINITIES:
        yield NotSupported("spec.sessionAffinity", spec.get("sessionAffinity", ""), _AFFINITIES)
    yield from _check_addresses(spec)
    if old is not None:
        yield from _check_update(spec, old.get("spec") or {})


def _check_external(spec: Tree) -> Iterator[FieldError]:
    name = (spec.get("externalName") or "").rstrip(".")
    if not name:
        yield Required("spec.externalName")
        return
    for complaint in names.dns1123_subdomain(name):
        yield Invalid("spec.externalName", spec["externalName"], complaint)
    if spec.get("clusterIP"):
        yield Forbidden("spec.clusterIPs[0]", "may not be set for ExternalName services")


def _check_port(port: Tree, path: str, used: set[str], *, many: bool) -> Iterator[FieldError]:
    name, number = port.get("name", ""), port.get("port", 0)
    if many and not name:
        yield Required(f"{path}.name")
    elif name:
        yield from (Invalid(f"{path}.name", name, one) for one in names.dns1123_label(name))
        if name in used:
            yield Duplicate(f"{path}.name", name)
        used.add(name)
    if not 1 <= number <= 65535:
        yield Invalid(f"{path}.port", number, _PORT)
    if port.get("protocol") not in _PROTOCOLS:
        yield NotSupported(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)
    target = port.get("targetPort")
    if type(target) is int and not 1 <= target <= 65535:
        yield Invalid(f"{path}.targetPort", target, _PORT)


def _check_addresses(spec: Tree) -> Iterator[FieldError]:
    first, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if first and addresses and addresses[0] != first:
        yield Invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    for i, address in enumerate(addresses or ([first] if first else [])):
        if address == "None" and len(addresses) < 2:
            continue
        try:
            ipaddress.ip_address(address)
        except ValueError:
            yield Invalid(
                f"spec.clusterIPs[{i}]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            )


def _check_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    has = before.get("clusterIPs") or []
    if has and "ExternalName" not in (spec.get("type"), before.get("type")):
        now = spec.get("clusterIPs") or []
        if now[:1] != has[:1]:
            yield Invalid("spec.clusterIPs[0]", now or None, "may not change once set")


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is None:
        spec = tree["spec"] = {"type": "ClusterIP", "sessionAffinity": "None"}
    kind = spec.get("type")
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, "") and port.get("port"):
            port["targetPort"] = port["port"]
        if not port.get("nodePort"):
            port.pop("nodePort", None)
    if spec.get("sessionAffinity") == "ClientIP":
        below(below(spec, "sessionAffinityConfig"), "clientIP").setdefault("timeoutSeconds", 10800)
    else:
        spec.pop("sessionAffinityConfig", None)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _row(tree: Tree, now: float) -> list[Any]:
    addresses = at(tree, "spec.clusterIPs", [])
    ports = [
        f"{one.get('port', '')}:{one['nodePort']}/{one.get('protocol', 'TCP')}"
        if one.get("nodePort")
        else f"{one.get('port', '')}/{one.get('protocol', 'TCP')}"
        for one in at(tree, "spec.ports", [])
    ]
    return [
        at(tree, "spec.type", ""),
        addresses[0] if addresses else at(tree, "spec.clusterIP", NONE),
        _external_addresses(tree),
        ",".join(ports) or NONE,
        age_of(tree, now),
        pairs(at(tree, "spec.selector")),
    ]


def _external_addresses(tree: Tree) -> str:
    kind, own = at(tree, "spec.type", ""), at(tree, "spec.externalIPs", [])
    if kind == "ExternalName":
        return str(at(tree, "spec.externalName", NONE))
    if kind == "LoadBalancer":
        balanced = [one.get("ip") or one.get("hostname", "") for one in at(tree, "status.loadBalancer.ingress", [])]
        return ",".join([*balanced, *own]) or "<pending>"
    return ",".join(own) or NONE


SERVICE: Final = KindDeclaration(
    "",
    "v1",
    "Service",
    "services",
    short_names=("svc",),
    categories=("all",),
    status=True,
    create_on_update=True,
    delete_returns="object",
    name_rule="dns1035-label",
    selectable=(".spec.clusterIP", ".spec.type"),
    columns=(
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        age(),
        text("Selector", wide=True),
    ),
    validate=_validate,
    default=_fill_in,
    complete=empty_load_balancer,
    row=_row,
)
