"""Which class of service a pod has: by the CPU and the memory that it requests and is limited to. Pure.

Source: Kubernetes' computation of a pod's QoS class (``pkg/apis/core/v1/helper/qos``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from oarlock.apps.kinds.pods.resources import quantity
from oarlock.meta.quantities import Quantity

__all__ = ["pod_quality"]

_COUNTED = ("cpu", "memory")


def pod_quality(spec: Mapping[str, Any]) -> str:
    """``BestEffort``, ``Burstable`` or ``Guaranteed``. What a pod says as a whole comes before what containers say."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        parts = [whole]
    else:
        containers = chain(spec.get("containers") or (), spec.get("initContainers") or ())
        parts = [container.get("resources") or {} for container in containers]
    requests, limits = ([_amounts(part.get(name)) for part in parts] for name in ("requests", "limits"))
    asked, most = _total(requests), _total(limits)
    if not asked and not most:
        return "BestEffort"
    every_limit = all(len(limit) == len(_COUNTED) for limit in limits)
    return "Guaranteed" if every_limit and asked == most else "Burstable"


def _amounts(tree: Any) -> dict[str, Quantity]:
    """The CPU and the memory, where there is some of it."""
    found: dict[str, Quantity] = {}
    for name in _COUNTED:
        amount = quantity(tree[name]) if tree and name in tree else None
        if amount is not None and amount.unscaled > 0:
            found[name] = amount
    return found


def _total(parts: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total
