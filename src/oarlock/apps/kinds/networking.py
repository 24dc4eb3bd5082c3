"""The kinds of networking.k8s.io: Ingresses and their classes, IPAddresses, NetworkPolicies, ServiceCIDRs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, age, age_of, first_few, selector_text, text
from oarlock.apps.kinds.common.first_status import check_load_balancer, empty_load_balancer, empty_status
from oarlock.apps.kinds.common.trees import at, go_value
from oarlock.apps.kinds.common.values import (
    IMMUTABLE,
    check_cidr,
    check_domain_path,
    check_ip,
    check_label_selector,
    check_port_name,
    check_port_number,
    check_required_name,
    check_text,
    unchanged,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required, TooLong
from oarlock.meta.json_trees import Tree

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_ANNOTATION: Final = "kubernetes.io/ingress.class"
_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_SUFFIXES: Final = ("/..", "/.")


def _validate_ingress(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec, annotations = new.get("spec") or {}, at(new, "metadata.annotations", {})
    annotated, name = annotations.get(_ANNOTATION), spec.get("ingressClassName")
    if old is None and annotated is not None and name is not None and annotated != name:
        why = "must match `ingressClassName` when both are specified"
        yield Invalid(f"annotations.{_ANNOTATION}", annotated, why)
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield Invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for i, rule in enumerate(spec.get("rules") or ()):
        yield from _check_rule(rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            yield from _check_host(host, f"spec.tls[{i}].hosts[{j}]")
        if tls.get("secretName"):
            yield from check_text(names.dns1123_subdomain, tls["secretName"], f"spec.tls[{i}].secretName")
    if name is not None:
        yield from check_text(names.dns1123_subdomain, name, "spec.ingressClassName")
    if _ANNOTATION in annotations:
        text = "please use 'spec.ingressClassName' instead"
        ctx.warn(f'annotation "{_ANNOTATION}" is deprecated, {text}')


def _check_host(host: str, path: str) -> Iterator[FieldError]:
    yield from check_text(names.wildcard_subdomain if "*" in host else names.dns1123_subdomain, host, path)


def _check_rule(rule: Tree, path: str) -> Iterator[FieldError]:
    host = rule.get("host") or ""
    if host:
        if not list(check_ip(host, "", strict=False)):
            yield Invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from _check_host(host, f"{path}.host")
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or ()
    if not paths:
        yield Required(f"{path}.http.paths")
    for i, path_tree in enumerate(paths):
        yield from _check_path(path_tree, f"{path}.http.paths[{i}]")


def _check_path(path_tree: Tree, path: str) -> Iterator[FieldError]:
    kind, text = path_tree.get("pathType"), path_tree.get("path") or ""
    if kind is None:
        yield Required(f"{path}.pathType", "pathType must be specified")
    elif kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            yield Invalid(f"{path}.path", text, "must be an absolute path")
        for part in _SEQUENCES if text else ():
            if part in text:
                yield Invalid(f"{path}.path", text, f"must not contain '{part}'")
        for suffix in _SUFFIXES:
            if text.endswith(suffix):
                yield Invalid(f"{path}.path", text, f"cannot end with '{suffix}'")
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            yield Invalid(f"{path}.path", text, "must be an absolute path")
    else:
        yield NotSupported(f"{path}.pathType", kind, _PATH_TYPES)
    yield from _check_backend(path_tree.get("backend") or {}, f"{path}.backend")


def _check_backend(backend: Tree, path: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield Invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for field in ("kind", "name"):
            if not resource.get(field):
                yield Required(f"{path}.resource.{field}")
    elif service is None:
        yield Invalid(path, "", "resource or service backend is required")
    else:
        yield from check_required_name(names.dns1123_label, service.get("name"), f"{path}.service.name")
        yield from _check_backend_port(service.get("port") or {}, path)


def _check_backend_port(port: Tree, path: str) -> Iterator[FieldError]:
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        yield Invalid(path, "", "cannot set both port name & port number")
    elif name:
        yield from check_port_name(name, f"{path}.service.port.name")
    elif number:
        yield from check_port_number(number, f"{path}.service.port.number")
    else:
        yield Required(path, "port name or number is required")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    yield from check_load_balancer(at(new, "status.loadBalancer", {}), "status.loadBalancer", modes=False)


def _row_ingress(tree: Tree, now: float) -> list[Any]:
    hosts = [rule["host"] for rule in at(tree, "spec.rules", []) if rule.get("host")]
    shown = [
        ingress.get("ip") or ingress.get("hostname", "") for ingress in at(tree, "status.loadBalancer.ingress", [])
    ]
    ports = "80, 443" if at(tree, "spec.tls") else "80"
    return [
        at(tree, "spec.ingressClassName", NONE),
        first_few(hosts) if hosts else "*",
        ",".join(shown),
        ports,
        age_of(tree, now),
    ]


INGRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "Ingress",
    "ingresses",
    short_names=("ing",),
    status=True,
    generation=True,
    columns=(text("Class"), text("Hosts"), text("Address"), text("Ports"), age()),
    complete=empty_load_balancer,
    row=_row_ingress,
    validate=_validate_ingress,
    validate_status=_check_status,
)


def _validate_ingress_class(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    controller, given = spec.get("controller") or "", spec.get("parameters")
    if len(controller) > 250:
        yield TooLong("spec.controller", 250)
    yield from check_domain_path(controller, "spec.controller")
    if given is not None:
        yield from _check_parameters(given, "spec.parameters")
    if old is not None:
        yield from unchanged(spec, old.get("spec") or {}, "spec", "controller")


def _check_parameters(given: Tree, path: str) -> Iterator[FieldError]:
    if given.get("apiGroup") is not None:
        yield from check_text(names.dns1123_subdomain, given["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        if not given.get(field):
            yield Required(f"{path}.{field}")
        else:
            yield from check_text(names.path_segment_name, given[field], f"{path}.{field}")
    scope, namespace = given.get("scope"), given.get("namespace")
    if scope is None:
        yield Required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        yield NotSupported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace":
        if not namespace:
            yield Required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            yield from check_text(names.dns1123_label, namespace, f"{path}.namespace")
    elif namespace is not None:
        yield Forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def _row_ingress_class(tree: Tree, now: float) -> list[Any]:
    given = at(tree, "spec.parameters")
    group = f".{given['apiGroup']}" if given and given.get("apiGroup") else ""
    parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}" if given else NONE
    return [at(tree, "spec.controller", ""), parameters, age_of(tree, now)]


INGRESS_CLASS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IngressClass",
    "ingressclasses",
    namespaced=False,
    generation=True,
    columns=(text("Controller"), text("Parameters"), age()),
    row=_row_ingress_class,
    validate=_validate_ingress_class,
)


def _validate_ip_address(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if old is not None:
        yield from unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "parentRef")
        return
    name, parent = at(new, "metadata.name", ""), at(new, "spec.parentRef")
    bad = list(check_ip(name, "metadata.name"))
    yield from bad
    canonical = name if bad else str(ipaddress.ip_address(name))
    if canonical != name:
        yield Invalid("metadata.name", name, f'must be in canonical form ("{canonical}")')
    if parent is None:
        yield Required("spec.parentRef")
        return
    if parent.get("group"):
        yield from check_text(names.dns1123_subdomain, parent["group"], "spec.parentRef.group")
    for field in ("resource", "name"):
        if not parent.get(field):
            yield Required(f"spec.parentRef.{field}")
        else:
            yield from check_text(names.path_segment_name, parent[field], f"spec.parentRef.{field}")
    if parent.get("namespace"):
        yield from check_text(names.path_segment_name, parent["namespace"], "spec.parentRef.namespace")


def _row_ip_address(tree: Tree, now: float) -> list[Any]:
    parent = at(tree, "spec.parentRef", {})
    return ["/".join(parent[key] for key in ("resource", "namespace", "name") if parent.get(key)), age_of(tree, now)]


IP_ADDRESS: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "IPAddress",
    "ipaddresses",
    short_names=("ip",),
    namespaced=False,
    name_rule="path-segment",
    selectable=(".spec.parentRef.group", ".spec.parentRef.name", ".spec.parentRef.namespace"),
    columns=(text("ParentRef"), age()),
    row=_row_ip_address,
    validate=_validate_ip_address,
)


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None:
        spec.setdefault("podSelector", {})
    if spec is not None and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def _validate_network_policy(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    yield from check_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                yield from _check_port(port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                yield from _check_peer(peer, f"{path}.{peers}[{j}]")
    kinds = spec.get("policyTypes") or ()
    if len(kinds) > 2:
        yield Invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for i, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            yield NotSupported(f"spec.policyTypes[{i}]", kind, ("Ingress", "Egress"))


def _check_port(port: Tree, path: str) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in ("TCP", "UDP", "SCTP"):
        yield NotSupported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP"))
    if number is None:
        if end is not None:
            yield Required(f"{path}.port", "must be specified when `endPort` is specified")
        return
    if isinstance(number, str):
        yield from check_port_name(number, f"{path}.port")
        if end is not None:
            yield Invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric")
        return
    yield from check_port_number(number, f"{path}.port")
    if end is not None:
        if end < number:
            yield Invalid(f"{path}.endPort", number, "must be greater than or equal to `port`")
        yield from check_port_number(end, f"{path}.endPort")


def _check_peer(peer: Tree, path: str) -> Iterator[FieldError]:
    given = 0
    for field in ("podSelector", "namespaceSelector"):
        if peer.get(field) is not None:
            given += 1
            yield from check_label_selector(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        given += 1
        yield from _check_block(block, f"{path}.ipBlock")
    if not given:
        yield Required(path, "must specify a peer")
    elif given > 1 and block is not None:
        yield Forbidden(path, "may not specify both ipBlock and another peer")


def _check_block(block: Tree, path: str) -> Iterator[FieldError]:
    text = block.get("cidr") or ""
    if not text:
        yield Required(f"{path}.cidr")
        return
    bad = list(check_cidr(text, f"{path}.cidr"))
    yield from bad
    for i, exception in enumerate(block.get("except") or ()):
        where = f"{path}.except[{i}]"
        wrong = list(check_cidr(exception, where))
        yield from wrong
        if bad or wrong:
            continue
        outer, inner = ipaddress.ip_network(text), ipaddress.ip_network(exception)
        if outer.version != inner.version or outer == inner or inner.network_address not in outer:
            yield Invalid(where, exception, "must be a strict subset of `cidr`")


NETWORK_POLICY: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    short_names=("netpol",),
    generation=True,
    columns=(text("Pod-Selector"), age()),
    default=_fill_in,
    row=lambda tree, now: [
        selector_text(at(tree, "spec.podSelector")),
        age_of(tree, now),
    ],
    validate=_validate_network_policy,
)


def _validate_service_cidr(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    ranges = at(new, "spec.cidrs", [])
    if old is not None:
        before = at(old, "spec.cidrs", [])
        if not len(before) <= len(ranges) <= 2:
            yield Invalid("spec.cidrs", ranges, IMMUTABLE)
            return
        for i, (text, was) in enumerate(zip(ranges, before, strict=False)):
            if text != was:
                yield Invalid(f"spec.cidrs[{i}]", text, IMMUTABLE)
                return
    if not ranges:
        yield Required("spec.cidrs", "at least one CIDR required")
        return
    if len(ranges) > 2:
        yield Invalid("spec.cidrs", go_value("ServiceCIDRSpec", new["spec"]), "may only hold up to 2 values")
    bad = [error for i, text in enumerate(ranges) for error in check_cidr(text, f"spec.cidrs[{i}]")]
    if len(ranges) == 2 and not bad and len({ipaddress.ip_network(text).version for text in ranges}) == 1:
        why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield Invalid("spec.cidrs", ranges, why)
    yield from bad


SERVICE_CIDR: Final = KindDeclaration(
    "networking.k8s.io",
    "v1",
    "ServiceCIDR",
    "servicecidrs",
    namespaced=False,
    status=True,
    status_metadata=(),
    columns=(text("CIDRs"), age()),
    complete=empty_status,
    row=lambda tree, now: [first_few(at(tree, "spec.cidrs", [])), age_of(tree, now)],
    validate=_validate_service_cidr,
)

KINDS: Final = (
    INGRESS,
    INGRESS_CLASS,
    IP_ADDRESS,
    NETWORK_POLICY,
    SERVICE_CIDR,
)
