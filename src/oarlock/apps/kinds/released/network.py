"""Facts about networking.k8s.io and discovery.k8s.io."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.released.facts import KindFacts
from oarlock.apps.kinds.released.tables import age, text

__all__ = ["NETWORK"]

_GROUP = "networking.k8s.io"

NETWORK: Final = (
    KindFacts(
        _GROUP,
        "v1",
        "Ingress",
        "ingresses",
        short_names=("ing",),
        status=True,
        generation=True,
        columns=(text("Class"), text("Hosts"), text("Address"), text("Ports"), age()),
    ),
    KindFacts(
        _GROUP,
        "v1",
        "IngressClass",
        "ingressclasses",
        namespaced=False,
        generation=True,
        columns=(text("Controller"), text("Parameters"), age()),
    ),
    KindFacts(
        _GROUP,
        "v1",
        "IPAddress",
        "ipaddresses",
        short_names=("ip",),
        namespaced=False,
        selectable=(".spec.parentRef.group", ".spec.parentRef.name", ".spec.parentRef.namespace"),
        columns=(text("ParentRef"), age()),
    ),
    KindFacts(
        _GROUP,
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        short_names=("netpol",),
        generation=True,
        columns=(text("Pod-Selector"), age()),
    ),
    KindFacts(
        _GROUP,
        "v1",
        "ServiceCIDR",
        "servicecidrs",
        namespaced=False,
        status=True,
        columns=(text("CIDRs"), age()),
    ),
    KindFacts(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        generation=True,
        columns=(text("AddressType"), text("Ports"), text("Endpoints"), age()),
    ),
)
