"""EndpointSlices of discovery.k8s.io."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Set
from typing import Any, Final

from oarlock.apps.kinds.common.columns import UNSET, age, age_of, first_few, text
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import (
    IMMUTABLE,
    check_ip,
    check_labels,
    check_ordinary_ip,
    check_port_number,
    check_qualified_name,
    check_text,
    check_whether_supported,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, Required, TooMany
from oarlock.meta.json_trees import Tree

_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_ZONES = 1000, 100, 20000, 8


def _fill_in(tree: Tree) -> None:
    for endpoint in tree.get("endpoints") or ():
        endpoint.setdefault("conditions", {})


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    kind, endpoints, ports = new.get("addressType") or "", new.get("endpoints") or (), new.get("ports") or ()
    yield from check_whether_supported(kind, _TYPES, "addressType")
    if len(endpoints) > _MOST_ENDPOINTS:
        yield TooMany("endpoints", len(endpoints), _MOST_ENDPOINTS)
    before = {address for endpoint in (old or {}).get("endpoints") or () for address in endpoint.get("addresses") or ()}
    for i, endpoint in enumerate(endpoints):
        yield from _check_endpoint(endpoint, kind, before, f"endpoints[{i}]")
    if len(ports) > _MOST_PORTS:
        yield TooMany("ports", len(ports), _MOST_PORTS)
    known: set[str] = set()
    for i, port in enumerate(ports):
        yield from _check_port(port, f"ports[{i}]", known)
    if old is not None and kind != (old.get("addressType") or ""):
        yield Invalid("addressType", kind, IMMUTABLE)
    if old is None and kind == "FQDN":
        ctx.warn("spec.addressType: FQDN endpoints are deprecated")


def _check_endpoint(endpoint: Tree, kind: str, before: Set[str], path: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield Required(f"{path}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield TooMany(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
    for i, address in enumerate(addresses):
        if address in before:
            continue
        yield from _check_address(address, kind, f"{path}.addresses", i)
    if endpoint.get("nodeName") is not None:
        yield from check_text(names.dns1123_subdomain, endpoint["nodeName"], f"{path}.nodeName")
    yield from check_labels(endpoint.get("deprecatedTopology"), f"{path}.deprecatedTopology")
    if endpoint.get("hostname") is not None:
        yield from check_text(names.dns1123_label, endpoint["hostname"], f"{path}.hostname")
    for field in ("forZones", "forNodes"):
        hints: list[Tree] = at(endpoint, f"hints.{field}", [])
        known: set[str] = set()
        if len(hints) > _MOST_ZONES:
            yield TooMany(f"{path}.hints.{field}", len(hints), _MOST_ZONES)
            continue
        for i, hint in enumerate(hints):
            name, where = hint.get("name") or "", f"{path}.hints.{field}[{i}].name"
            if name in known:
                yield Duplicate(where, name)
            known.add(name)
            yield from check_text(names.label_value if field == "forZones" else names.dns1123_subdomain, name, where)


def _check_address(address: str, kind: str, path: str, place: int) -> Iterator[FieldError]:
    if kind == "FQDN":
        yield from check_text(names.dns1123_subdomain, address, f"{path}[{place}]")
    elif kind in ("IPv4", "IPv6"):
        bad = list(check_ip(address, f"{path}[{place}]"))
        yield from bad
        if not bad and f"IPv{ipaddress.ip_address(address).version}" != kind:
            yield Invalid(path, address, f"must be an {kind} address")
        elif not bad:
            yield from check_ordinary_ip(address, f"{path}[{place}]")


def _check_port(port: Tree, path: str, known: set[str]) -> Iterator[FieldError]:
    name = port.get("name") or ""
    if name:
        yield from check_text(names.dns1123_label, name, f"{path}.name")
    if name in known:
        yield Duplicate(f"{path}.name", name)
    known.add(name)
    yield from check_whether_supported(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{path}.protocol")
    if port.get("port") is not None:
        yield from check_port_number(port["port"], f"{path}.port")
    if port.get("appProtocol") is not None:
        yield from check_qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _row(tree: Tree, now: float) -> list[Any]:
    ports = [str(port["port"]) if port.get("port") is not None else "*" for port in tree.get("ports") or ()]
    addresses = [address for endpoint in tree.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    shown = [first_few(ports) if ports else UNSET, first_few(addresses) if addresses else UNSET]
    return [tree.get("addressType", ""), *shown, age_of(tree, now)]


ENDPOINT_SLICE: Final = KindDeclaration(
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices",
    generation=True,
    columns=(text("AddressType"), text("Ports"), text("Endpoints"), age()),
    default=_fill_in,
    validate=_validate,
    row=_row,
)

KINDS: Final = (ENDPOINT_SLICE,)
