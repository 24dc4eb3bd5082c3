"""The names of API types: groups, versions, kinds and resources.

Plain values that print themselves as Kubernetes does. Knows nothing of objects or schemas.
See also: `context`, the context of a request for one of these.
"""

from __future__ import annotations

import re

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
