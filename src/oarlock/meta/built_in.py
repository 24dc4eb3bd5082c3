"""Kubernetes' own API groups, which it names, orders and stores otherwise than those of extensions.

Facts only: whoever serves such a group, Kubernetes' clients and tools expect these. See also: `kinds`.
Source: kube-apiserver, its storage factory, its aggregator's priorities and its OpenAPI definition names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class BuiltInGroup(NamedTuple):
    """A group of Kubernetes. `package` is what the names of its OpenAPI definitions begin with.

    Groups with a higher `priority` come first in discovery. `stored_by_name` says that the keys of its objects have no
    group: ``/registry/leases/…``.
    """

    package: str
    priority: int
    stored_by_name: bool = True


_API: Final = "io.k8s.api."

BUILT_IN_GROUPS: Final[Mapping[str, BuiltInGroup]] = {
    "": BuiltInGroup(f"{_API}core", 18000),
    "admissionregistration.k8s.io": BuiltInGroup(f"{_API}admissionregistration", 16700),
    "apiextensions.k8s.io": BuiltInGroup("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions", 16700, False),
    "apiregistration.k8s.io": BuiltInGroup("io.k8s.kube-aggregator.pkg.apis.apiregistration", 20000, False),
    "apps": BuiltInGroup(f"{_API}apps", 17800),
    "authentication.k8s.io": BuiltInGroup(f"{_API}authentication", 17700),
    "authorization.k8s.io": BuiltInGroup(f"{_API}authorization", 17600),
    "autoscaling": BuiltInGroup(f"{_API}autoscaling", 17500),
    "batch": BuiltInGroup(f"{_API}batch", 17400),
    "certificates.k8s.io": BuiltInGroup(f"{_API}certificates", 17300),
    "coordination.k8s.io": BuiltInGroup(f"{_API}coordination", 16500),
    "discovery.k8s.io": BuiltInGroup(f"{_API}discovery", 16200),
    "events.k8s.io": BuiltInGroup(f"{_API}events", 17750),
    "extensions": BuiltInGroup(f"{_API}extensions", 17900),
    "flowcontrol.apiserver.k8s.io": BuiltInGroup(f"{_API}flowcontrol", 16100),
    "internal.apiserver.k8s.io": BuiltInGroup(f"{_API}apiserverinternal", 16000),
    "networking.k8s.io": BuiltInGroup(f"{_API}networking", 17200),
    "node.k8s.io": BuiltInGroup(f"{_API}node", 16300),
    "policy": BuiltInGroup(f"{_API}policy", 17100),
    "rbac.authorization.k8s.io": BuiltInGroup(f"{_API}rbac", 17000),
    "resource.k8s.io": BuiltInGroup(f"{_API}resource", 16200),
    "scheduling.k8s.io": BuiltInGroup(f"{_API}scheduling", 16600),
    "storage.k8s.io": BuiltInGroup(f"{_API}storage", 16800),
    "storagemigration.k8s.io": BuiltInGroup(f"{_API}storagemigration", 15800),
}
"""By name."""
