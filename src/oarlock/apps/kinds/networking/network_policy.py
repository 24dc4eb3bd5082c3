"""NetworkPolicies of networking.k8s.io."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

from oarlock.apps.kinds.common.columns import age, age_of, selector_text, text
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_cidr, check_label_selector, check_port_name, check_port_number
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.json_trees import Tree


def _fill_in(tree: Tree) -> None:
    spec = tree.get("spec")
    if spec is not None:
        spec.setdefault("podSelector", {})
    if spec is not None and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
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
    validate=_validate,
)
