"""Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, age, age_of, pairs, text
from oarlock.apps.kinds.common.first_status import check_load_balancer, empty_load_balancer
from oarlock.apps.kinds.common.trees import at, below
from oarlock.apps.kinds.common.values import (
    check_cidr,
    check_ip,
    check_labels,
    check_ordinary_ip,
    check_port,
    check_port_number,
    check_qualified_name,
    check_text,
    check_whether_supported,
)
from oarlock.apps.kinds.declaration import KindDeclaration, proxy_declaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_POLICIES: Final = ("Cluster", "Local")
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_NOT_EXTERNAL: Final = "may not be set for ExternalName services"


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    """The errors in a service."""
    spec = new.get("spec") or {}
    if old is not None:
        yield from _check_update(spec, old.get("spec") or {})
    kind, headless = spec.get("type") or "", spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield Required("spec.ports")
    yield from _check_type(spec, kind, headless)
    used: set[str] = set()
    for i, port in enumerate(ports):
        yield from _check_port(port, f"spec.ports[{i}]", used, many=len(ports) > 1)
    yield from check_labels(spec.get("selector"), "spec.selector")
    yield from _check_affinity(spec)
    if kind != "ExternalName":
        yield from _check_addresses(spec, headless=headless)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        bad = list(check_ip(address, f"spec.externalIPs[{i}]"))
        yield from bad or check_ordinary_ip(address, f"spec.externalIPs[{i}]")
    yield from check_whether_supported(kind, _TYPES, "spec.type")
    yield from _check_repeats(kind, ports)
    yield from _check_balancing(new, spec, kind)
    yield from _check_traffic(spec, kind)
    _warn(new, spec, kind, ctx)


def _check_type(spec: Tree, kind: str, headless: bool) -> Iterator[FieldError]:
    """What goes with a type of services."""
    if kind in ("LoadBalancer", "NodePort") and headless:
        yield Invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "LoadBalancer":
        for i, port in enumerate(spec.get("ports") or ()):
            if port.get("port") == 10250:
                why = "may not expose port 10250 externally since it is used by kubelet"
                yield Invalid(f"spec.ports[{i}]", port["port"], why)
    if kind != "ExternalName":
        return
    if spec.get("clusterIPs") or spec.get("clusterIP"):
        yield Forbidden("spec.clusterIPs", _NOT_EXTERNAL)
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield Forbidden(f"spec.{name}", _NOT_EXTERNAL)
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield Required("spec.externalName")
    else:
        yield from check_text(names.dns1123_subdomain, name, "spec.externalName")


def _check_port(port: Tree, path: str, used: set[str], *, many: bool) -> Iterator[FieldError]:
    name = port.get("name", "")
    if many and not name:
        yield Required(f"{path}.name")
    elif name:
        yield from check_text(names.dns1123_label, name, f"{path}.name")
        if name in used:
            yield Duplicate(f"{path}.name", name)
        used.add(name)
    yield from check_port_number(port.get("port") or 0, f"{path}.port")
    yield from check_whether_supported(port.get("protocol"), _PROTOCOLS, f"{path}.protocol")
    yield from check_port(port.get("targetPort") or 0, f"{path}.targetPort")
    if port.get("appProtocol") is not None:
        yield from check_qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _check_affinity(spec: Tree) -> Iterator[FieldError]:
    affinity = spec.get("sessionAffinity") or ""
    yield from check_whether_supported(affinity, _AFFINITIES, "spec.sessionAffinity")
    seconds = at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds")
    if affinity == "ClientIP" and seconds is not None and not 0 < seconds <= 86400:
        why = "must be greater than 0 and less than 86400"
        yield Invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why)


def _check_addresses(spec: Tree, *, headless: bool) -> Iterator[FieldError]:
    first, addresses, families = (spec.get(name) or default for name, default in _ADDRESS_FIELDS)
    if first and addresses and addresses[0] != first:
        yield Invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    elif not first and addresses:
        yield Invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
    known: set[str] = set()
    for i, family in enumerate(families):
        if family not in _FAMILIES:
            yield NotSupported(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if family in known:
            yield Duplicate(f"spec.ipFamilies[{i}]", family)
        known.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        yield NotSupported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    given = addresses or ([first] if first else [])
    bad: list[FieldError] = []
    if given[:1] == ["None"] and len(given) > 1:
        bad.append(Invalid("spec.clusterIPs", given, "'None' must be the first and only value"))
    for i, address in enumerate(given):
        if i or address != "None":
            bad += check_ip(address, f"spec.clusterIPs[{i}]")
    yield from bad
    if len(given) > 2:
        yield Invalid("spec.clusterIPs", given, "may only hold up to 2 values")
    if bad:
        return
    versions = [ipaddress.ip_address(address).version for address in given if address != "None"]
    if len(versions) > 1 and len(set(versions)) == 1:
        yield Invalid("spec.clusterIPs", given, "may specify no more than one IP for each IP family")
    for i, (version, family) in enumerate(zip(versions, families, strict=False) if not headless else ()):
        if family in _FAMILIES and family != f"IPv{version}":
            why = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            yield Invalid(f"spec.clusterIPs[{i}]", given[i], why)


_ADDRESS_FIELDS: Final[tuple[tuple[str, Any], ...]] = (("clusterIP", ""), ("clusterIPs", []), ("ipFamilies", []))


def _check_repeats(kind: str, ports: Sequence[Tree]) -> Iterator[FieldError]:
    node_ports: set[tuple[object, ...]] = set()
    places: set[tuple[object, ...]] = set()
    for i, port in enumerate(ports):
        number = port.get("nodePort")
        if number and kind == "ClusterIP":
            yield Forbidden(f"spec.ports[{i}].nodePort", "may not be used when `type` is 'ClusterIP'")
        if number and (port.get("protocol"), number) in node_ports:
            yield Duplicate(f"spec.ports[{i}].nodePort", number)
        node_ports.add((port.get("protocol"), number))
    for i, port in enumerate(ports):
        place = port.get("port"), port.get("protocol")
        if place in places:
            yield Duplicate(f"spec.ports[{i}]", {"port": port.get("port"), "protocol": port.get("protocol")})
        places.add(place)


def _check_balancing(service: Tree, spec: Tree, kind: str) -> Iterator[FieldError]:
    """What only services with a load balancer have."""
    balanced, ranges = kind == "LoadBalancer", spec.get("loadBalancerSourceRanges") or ()
    annotated = at(service, "metadata.annotations", {}).get(_RANGES)
    if ranges and not balanced:
        yield Forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED)
    elif ranges:
        for i, text in enumerate(ranges):
            yield from check_cidr(text.strip(), f"spec.LoadBalancerSourceRanges[{i}]")
    elif annotated is not None and not balanced:
        yield Forbidden(f"metadata.annotations[{_RANGES}]", _ONLY_BALANCED)
    elif annotated:
        for text in annotated.split(","):
            for error in check_cidr(text.strip(), f"metadata.annotations[{_RANGES}]"):
                yield Invalid(error.path, annotated, error.detail)
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        yield Forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED)
    name = spec.get("loadBalancerClass")
    if name is not None and balanced:
        yield from check_qualified_name(name, "spec.loadBalancerClass")
    elif name is not None:
        yield Forbidden("spec.loadBalancerClass", _ONLY_BALANCED)


def _is_external(spec: Tree) -> bool:
    """Whether a service can be reached from outside."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _check_traffic(spec: Tree, kind: str) -> Iterator[FieldError]:
    external, internal = spec.get("externalTrafficPolicy") or "", spec.get("internalTrafficPolicy")
    if _is_external(spec):
        yield from check_whether_supported(external, _POLICIES, "spec.externalTrafficPolicy")
    elif external:
        why = "may only be set for externally-accessible services"
        yield Invalid("spec.externalTrafficPolicy", external, why)
    health = spec.get("healthCheckNodePort")
    if health and (kind, external) != ("LoadBalancer", "Local"):
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield Invalid("spec.healthCheckNodePort", health, why)
    elif health:
        yield from check_port_number(health, "spec.healthCheckNodePort")
    if internal is not None and internal not in _POLICIES:
        yield NotSupported("spec.internalTrafficPolicy", internal, _POLICIES)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        yield NotSupported("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def _warn(service: Tree, spec: Tree, kind: str, ctx: Context) -> None:
    if _HINTS in at(service, "metadata.annotations", {}):
        ctx.warn(f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead")
    if spec.get("externalIPs"):
        ctx.warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("externalName") and kind != "ExternalName":
        ctx.warn('spec.externalName is ignored when spec.type is not "ExternalName"')


def _check_update(spec: Tree, before: Tree) -> Iterator[FieldError]:
    has, kinds = before.get("clusterIPs") or [], (spec.get("type"), before.get("type"))
    if has and "ExternalName" not in kinds:
        now = spec.get("clusterIPs") or []
        if now[:1] != has[:1] and (not spec.get("clusterIP") or now[:1] == [spec["clusterIP"]]):
            yield Invalid("spec.clusterIPs[0]", now or None, "may not change once set")
    if kinds == ("LoadBalancer", "LoadBalancer"):
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            yield Invalid("spec.loadBalancerClass", name, "may not change once set")


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    """What a change of the type leaves without meaning goes, unless the request changes it too."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    gone = []
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        gone += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if _is_external(before) and not _is_external(spec):
        gone.append("externalTrafficPolicy")
    for name in gone:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    balancer, path = at(new, "status.loadBalancer", {}), "status.loadBalancer"
    if at(new, "spec.type") != "LoadBalancer" and balancer.get("ingress"):
        yield Forbidden(f"{path}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
    else:
        yield from check_load_balancer(balancer, path)


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
    if _is_external(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _row(tree: Tree, now: float) -> list[Any]:
    addresses = at(tree, "spec.clusterIPs", [])
    ports = [
        f"{port.get('port', '')}:{port['nodePort']}/{port.get('protocol', 'TCP')}"
        if port.get("nodePort")
        else f"{port.get('port', '')}/{port.get('protocol', 'TCP')}"
        for port in at(tree, "spec.ports", [])
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
        balanced = [
            ingress.get("ip") or ingress.get("hostname", "") for ingress in at(tree, "status.loadBalancer.ingress", [])
        ]
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
    name_rule="dns-label",
    selectable=(".spec.clusterIP", ".spec.type"),
    columns=(
        text("Type"),
        text("Cluster-IP"),
        text("External-IP"),
        text("Port(s)"),
        age(),
        text("Selector", wide=True),
    ),
    parts=(proxy_declaration("ServiceProxyOptions"),),
    update=_update,
    validate=_validate,
    validate_status=_check_status,
    default=_fill_in,
    complete=empty_load_balancer,
    row=_row,
)
