"""Endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, first_few, text
from oarlock.apps.kinds.common.values import (
    check_ip,
    check_ordinary_ip,
    check_port_number,
    check_qualified_name,
    check_text,
    check_whether_supported,
)
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Required
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    subsets = new.get("subsets") or ()
    if old is not None and subsets == (old.get("subsets") or ()):
        return
    for i, subset in enumerate(subsets):
        path, ports = f"subsets[{i}]", subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield Required(path, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(kind) or ()):
                yield from _check_address(address, f"{path}.{kind}[{j}]")
        for j, port in enumerate(ports):
            yield from _check_port(port, f"{path}.ports[{j}]", many=len(ports) > 1)


def _check_address(address: Tree, path: str) -> Iterator[FieldError]:
    yield from check_ip(address.get("ip") or "", f"{path}.ip")
    if address.get("hostname"):
        yield from check_text(names.dns1123_label, address["hostname"], f"{path}.hostname")
    if address.get("nodeName") is not None:
        yield from check_text(names.dns1123_subdomain, address["nodeName"], f"{path}.nodeName")
    yield from check_ordinary_ip(address.get("ip") or "", f"{path}.ip")


def _check_port(port: Tree, path: str, *, many: bool) -> Iterator[FieldError]:
    if many and not port.get("name"):
        yield Required(f"{path}.name")
    elif port.get("name"):
        yield from check_text(names.dns1123_label, port["name"], f"{path}.name")
    yield from check_port_number(port.get("port") or 0, f"{path}.port")
    yield from check_whether_supported(port.get("protocol"), ("SCTP", "TCP", "UDP"), f"{path}.protocol")
    if port.get("appProtocol") is not None:
        yield from check_qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _row(tree: Tree, now: float) -> list[Any]:
    places = []
    for subset in tree.get("subsets") or ():
        ports = subset.get("ports") or [None]
        for port in ports:
            for address in subset.get("addresses") or ():
                places.append(
                    address.get("ip", "") if port is None else f"{address.get('ip', '')}:{port.get('port', '')}"
                )
    return [first_few(places), age_of(tree, now)]


ENDPOINTS: Final = KindDeclaration(
    "",
    "v1",
    "Endpoints",
    "endpoints",
    short_names=("ep",),
    create_on_update=True,
    columns=(text("Endpoints"), age()),
    deprecation_warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    validate=_validate,
    row=_row,
)
