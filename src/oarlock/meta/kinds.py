"""The names of API types: groups, versions, kinds and resources; and Kubernetes' own groups.

Plain values that print themselves as Kubernetes does. Knows nothing of objects or schemas. Its own groups are named,
ordered and stored otherwise than those of extensions; clients expect that of any server of such a group.
See also: `context`, the context of a request for one of these.
Source: kube-apiserver, its storage factory, its aggregator's priorities and its OpenAPI definition names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from oarlock.meta.dataclass import dataclass

NamespacedName = tuple[str, str]
"""The namespace of an object, ``""`` for one of the cluster, and its name."""


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """An API group and a version; the core group is ``""``."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, text: str) -> GroupVersion:
        """Parse an ``apiVersion``: ``"v1"`` or ``"group/version"``. ValueError with more than one slash."""
        match text.split("/"):
            case [version]:
                return cls("", version)
            case [group, version]:
                return cls(group, version)
            case _:
                raise ValueError(f"unexpected GroupVersion string: {text}")


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind in a group, as 422 responses print it: ``Flunder.wardle.example.com``."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class GroupResource:
    """A resource in a group, as most error messages print it: ``flunders.wardle.example.com``."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """The type that the ``apiVersion`` and ``kind`` of an object name."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)


_KUBE_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", re.ASCII)


def version_priority(version: str) -> tuple[int, int, int, int, tuple[int, ...]]:
    """A sort key that puts the preferred version first.

    GA before beta before alpha, higher numbers first within each, and names that don't look
    like a Kubernetes version last, in alphabetical order:
    ``v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > foo1 > foo10``.
    Source: CustomResourceDefinition version priority.
    """
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, tuple(version.encode()))
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (0, rank, -int(major), -int(minor or 0), ())


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
