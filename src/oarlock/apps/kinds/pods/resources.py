"""What containers and pods may ask for: quantities, extended resources, huge pages, claims.

Source: Kubernetes' validation of core/v1, ``validateResourceRequirements``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from oarlock.apps.kinds.common.values import NON_NEGATIVE, check_qualified_name, check_text
from oarlock.meta import names
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotFoundValue, NotSupported, Required
from oarlock.meta.json_trees import Tree
from oarlock.meta.quantities import Quantity, QuantityError, from_json

CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")
STANDARD: Final = frozenset(
    (
        *CONTAINERS,
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_WHOLE: Final = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
"""Resources that are counted."""

_REMEMBERED_CHARS: Final = 64
_HUGE: Final = "hugepages-"

CheckName = Callable[[str, str], Iterator[FieldError]]


def quantity(value: Any) -> Quantity | None:
    """A quantity of an object; None for what is none, which its schema refuses."""
    if type(value) is str and len(value) <= _REMEMBERED_CHARS:
        return _remembered(value)
    return _read(value)


def _read(value: Any) -> Quantity | None:
    try:
        return from_json(value)
    except QuantityError:
        return None


_remembered = lru_cache(1024)(_read)  # the pods of a cluster ask for the same few amounts


def is_huge_pages(name: str) -> bool:
    return name.startswith(_HUGE)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is one of a device plugin: fully qualified, and not Kubernetes' own."""
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def check_resource_name(name: str, path: str) -> Iterator[FieldError]:
    """The name of any resource."""
    bad = list(check_qualified_name(name, path))
    yield from bad
    if not bad and "/" not in name and name not in STANDARD and not is_huge_pages(name):
        yield Invalid(path, name, "must be a standard resource type or fully qualified")


def _check_of_container(name: str, path: str) -> Iterator[FieldError]:
    yield from check_resource_name(name, path)
    if "/" not in name:
        if name not in CONTAINERS and not is_huge_pages(name):
            yield Invalid(path, name, "must be a standard resource for containers")
    elif not _is_native(name) and not is_extended(name):
        yield Invalid(path, name, "doesn't follow extended resource name standard")


def _check_of_pod(name: str, path: str) -> Iterator[FieldError]:
    yield from check_resource_name(name, path)
    if name not in ("cpu", "memory") and not is_huge_pages(name):
        yield NotSupported(path, name, ("cpu", _HUGE, "memory"))


def check_quantity(name: str, value: Any, path: str) -> Iterator[FieldError]:
    """The amount of a resource: not negative, and whole where parts mean nothing."""
    amount = quantity(value)
    if amount is None:
        return
    if amount.unscaled < 0:
        yield Invalid(path, str(value), NON_NEGATIVE)
    if not amount.is_whole() and (is_extended(name) or name in _WHOLE):
        yield Invalid(path, str(value), "must be an integer")


def check_container_resources(resources: Tree | None, claims: Collection[str], path: str) -> Iterator[FieldError]:
    """What a container asks for; `claims` are those of its pod."""
    yield from _check_requirements(resources or {}, _check_of_container, claims, path)


def check_pod_resources(spec: Tree, claims: Collection[str], path: str) -> Iterator[FieldError]:
    """What a pod asks for as a whole; `path` is that of its specification."""
    resources = spec.get("resources")
    if not resources:
        return
    if resources.get("claims"):
        yield Forbidden(f"{path}.resources.claims", "claims may not be set for Resources at pod-level")
    yield from _check_requirements(resources, _check_of_pod, claims, f"{path}.resources")
    yield from _check_sums(spec, resources, f"{path}.resources")


def _check_sums(spec: Tree, resources: Tree, path: str) -> Iterator[FieldError]:
    """What a pod asks for is at least what its containers ask for together."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name in sorted(requests):
        total, own = sum(_amounts(spec, "requests", name), start=Quantity()), quantity(requests[name])
        if own is not None and total > own:
            why = f"must be greater than or equal to aggregate container requests of {total}"
            yield Invalid(f"{path}.requests[{name}]", requests[name], why)
    for i, container in enumerate(spec.get("containers") or ()):
        for name, value in sorted(((container.get("resources") or {}).get("limits") or {}).items()):
            most, own = quantity(limits.get(name)), quantity(value)
            if name in limits and most is not None and own is not None and own > most:
                where = f"{path}.containers[{i}][{name}].limits"
                yield Invalid(where, value, f"must be less than or equal to pod limits of {limits[name]}")


def _amounts(spec: Tree, what: str, name: str) -> Iterator[Quantity]:
    for container in spec.get("containers") or ():
        amount = quantity(((container.get("resources") or {}).get(what) or {}).get(name))
        if amount is not None:
            yield amount


def _check_requirements(
    resources: Tree, check_name: CheckName, claims: Collection[str], path: str
) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    basic = huge = False
    for name, value in sorted(limits.items()):
        where = f"{path}.limits[{name}]"
        yield from check_name(name, where)
        yield from check_quantity(name, value, where)
        yield from _check_pages(name, value, where)
        basic, huge = basic or name in ("cpu", "memory"), huge or is_huge_pages(name)
    for name, value in sorted(requests.items()):
        where = f"{path}.requests[{name}]"
        yield from check_name(name, where)
        yield from check_quantity(name, value, where)
        yield from _check_against_limit(name, value, limits, path)
        yield from _check_pages(name, value, where)
        basic, huge = basic or name in ("cpu", "memory"), huge or is_huge_pages(name)
    if huge and not basic:
        yield Forbidden(path, "HugePages require cpu or memory")
    yield from _check_claims(resources.get("claims") or (), claims, f"{path}.claims")


def _check_against_limit(name: str, value: Any, limits: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    overcommits = _is_native(name) and not is_huge_pages(name)
    if name not in limits:
        if not overcommits:
            yield Required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, limit = quantity(value), quantity(limits[name])
    if asked is None or limit is None:
        return
    if not overcommits and asked != limit:
        yield Invalid(f"{path}.requests", value, f"must be equal to {name} limit of {limits[name]}")
    elif asked > limit:
        yield Invalid(f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}")


def _check_pages(name: str, value: Any, path: str) -> Iterator[FieldError]:
    if not is_huge_pages(name):
        return
    size, amount = quantity(name[len(_HUGE) :]), quantity(value)
    if size is None or size <= Quantity():
        yield Invalid(path, value, "failed to parse hugepages size")
    elif amount is not None and amount.scaled(0) % size.scaled(0):
        yield Invalid(path, value, f"{value} is not positive integer multiple of {name}")


def _check_claims(claims: Any, known: Collection[str], path: str) -> Iterator[FieldError]:
    used: set[str] = set()
    for i, claim in enumerate(claims):
        name, request, where = claim.get("name") or "", claim.get("request") or "", f"{path}[{i}]"
        if not name:
            yield Required(where)
            continue
        if name in used:
            yield Duplicate(where, name)
        else:
            if request:
                yield from check_text(names.dns1123_label, request, f"{where}.request")
            key = f"{name}/{request}" if request else name
            if key in used or (not request and any(known.startswith(f"{name}/") for known in used)):
                yield Duplicate(where, key)
            used.add(key)
        if name not in known:
            missing = NotFoundValue(where, name)
            missing.detail = "must be one of the names in pod.spec.resourceClaims"
            missing.detail += f": {', '.join(sorted(known))}" if known else " which is empty"
            yield missing
