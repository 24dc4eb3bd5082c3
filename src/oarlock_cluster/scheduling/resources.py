"""What a pod requests and a node has, in integers: CPU in thousandths, everything else in whole units.

Source: k8s.io/component-helpers ``resource``, in behaviour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from oarlock import parse_quantity

__all__ = ["ResourceAmounts", "amounts", "pod_requests"]

ResourceAmounts = dict[str, int]

_POD_LEVEL = ("cpu", "memory")
"""What ``spec.resources`` of a pod may set, besides huge pages."""


@lru_cache(maxsize=4096)
def _amount(name: str, value: str | int) -> int:
    number = parse_quantity(value)
    return math.ceil(number * 1000) if name == "cpu" else math.ceil(number)


def amounts(tree: Mapping[str, Any] | None) -> ResourceAmounts:
    """A resource list, parsed."""
    return {name: _amount(name, value) for name, value in (tree or {}).items()}


def _requests(container: Mapping[str, Any]) -> ResourceAmounts:
    return amounts((container.get("resources") or {}).get("requests"))


def _added(first: ResourceAmounts, second: ResourceAmounts) -> ResourceAmounts:
    return {name: first.get(name, 0) + second.get(name, 0) for name in first.keys() | second.keys()}


def _largest(first: ResourceAmounts, second: ResourceAmounts) -> ResourceAmounts:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in first.keys() | second.keys()}


def _of_containers(containers: Iterable[Mapping[str, Any]], initial: Iterable[Mapping[str, Any]]) -> ResourceAmounts:
    """Containers run at the same time, with the sidecars; each init container runs with the sidecars before it."""
    total: ResourceAmounts = {}
    for container in containers:
        total = _added(total, _requests(container))
    sidecars: ResourceAmounts = {}
    starting: ResourceAmounts = {}
    for container in initial:
        if container.get("restartPolicy") == "Always":
            sidecars = _added(sidecars, _requests(container))
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, _added(sidecars, _requests(container)))
    return _largest(_added(total, sidecars), starting)


def pod_requests(pod: Mapping[str, Any]) -> ResourceAmounts:
    """What a node must have free for the pod: its containers' requests, or its own where it has some, and overhead."""
    spec = pod.get("spec") or {}
    total = _of_containers(spec.get("containers") or (), spec.get("initContainers") or ())
    own = amounts((spec.get("resources") or {}).get("requests"))
    total |= {name: value for name, value in own.items() if name in _POD_LEVEL or name.startswith("hugepages-")}
    return _added(total, amounts(spec.get("overhead")))
