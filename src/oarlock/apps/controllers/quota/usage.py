"""What an object uses of a quota, and which scopes it is in. Pure: trees in, amounts out.

Everything counts as ``count/resource.group``; some kinds have older names, and pods, claims and services have amounts.
Source: Kubernetes' quota evaluators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from oarlock.apps.kinds.pods.updates import pod_quality
from oarlock.meta.json_trees import ReadOnlyTree
from oarlock.meta.kinds import GroupResource
from oarlock.meta.quantities import Quantity, QuantityError, from_json

Amounts = Mapping[str, Quantity]


def amounts_of(tree: Any) -> dict[str, Quantity]:
    """The amounts in a tree. Quantities that can't be parsed are skipped."""
    amounts: dict[str, Quantity] = {}
    for name, value in (tree or {}).items():
        try:
            amounts[name] = from_json(value)
        except QuantityError:
            continue
    return amounts


def summed(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    """All parts together."""
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def only(amounts: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    """The amounts that have one of these names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def exceeded(amounts: Amounts, hard: Amounts) -> list[str]:
    """The names of which there is more than there may be."""
    return [name for name, amount in amounts.items() if name in hard and hard[name] < amount]


def shown(amounts: Amounts) -> str:
    """The text of amounts in a refusal: ``count/configmaps=3,pods=1``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def wire(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


ONE = Quantity(1)
PODS, CLAIMS, SERVICES = (GroupResource("", name) for name in ("pods", "persistentvolumeclaims", "services"))
WITH_AMOUNTS = frozenset((PODS, CLAIMS, SERVICES))
"""The resources of which an object uses more than one of something."""

OLD_NAMES = frozenset(
    ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services")
)
"""Resources of the core group that are counted by their name alone, too."""

_COMPUTE = frozenset(("cpu", "memory", "ephemeral-storage"))
_MUST_BE_SAID = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def count_name(resource: GroupResource) -> str:
    """What a quota calls the number of these objects."""
    return f"count/{resource}"


def counted_resource(name: str) -> GroupResource | None:
    """The resource of which `name` is a number or an amount; None for what nothing here counts."""
    if name.startswith("count/"):
        resource, _, group = name.removeprefix("count/").partition(".")
        return GroupResource(group, resource)
    if name in OLD_NAMES:
        return GroupResource("", name)
    if name.startswith("services."):
        return SERVICES
    if name == "requests.storage" or _STORAGE_CLASS in name:
        return CLAIMS
    if name == "pods" or name in _COMPUTE or name.startswith(("requests.", "limits.", "hugepages-")):
        return PODS
    return None


def usage_of(resource: GroupResource, tree: ReadOnlyTree) -> dict[str, Quantity]:
    """What one object uses, by every name that a quota may give to it."""
    used = {count_name(resource): ONE}
    if not resource.group and resource.resource in OLD_NAMES:
        used[resource.resource] = ONE
    if resource == PODS:
        if (tree.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            used.update({"pods": ONE, **_compute(tree)})
    elif resource == CLAIMS:
        used.update(_storage(tree))
    elif resource == SERVICES:
        used.update(_ports(tree))
    return used


def is_in_scopes(resource: GroupResource, tree: ReadOnlyTree, quota: ReadOnlyTree) -> bool:
    """Whether a quota (its spec) counts an object."""
    wanted = list(_scopes(quota))
    return not wanted or (resource == PODS and all(_matches(tree, *requirement) for requirement in wanted))


def unsaid(tree: ReadOnlyTree, names: Iterable[str]) -> str:
    """What a pod must say and doesn't, for a quota that limits `names`; empty if nothing."""
    needed = _MUST_BE_SAID.intersection(names)
    missing: dict[str, set[str]] = {}
    spec = tree.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for name in needed - _of_container(container).keys():
            missing.setdefault(name, set()).add(container.get("name", ""))
    parts = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return f"must specify {'; '.join(parts)}" if parts else ""


def _compute(pod: ReadOnlyTree) -> dict[str, Quantity]:
    """Containers run together; those that prepare run before them, one after the other, or beside them for good."""
    spec = pod.get("spec") or {}
    running = summed(_of_container(container) for container in spec.get("containers") or ())
    beside: dict[str, Quantity] = {}
    before: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        used = _of_container(container)
        if container.get("restartPolicy") == "Always":
            beside = summed((beside, used))
            used = beside
        else:
            used = summed((used, beside))
        before = _greatest(before, used)
    overhead = amounts_of(spec.get("overhead"))
    return summed((_greatest(summed((running, beside)), before), _named(overhead, overhead)))


def _of_container(container: ReadOnlyTree) -> dict[str, Quantity]:
    resources = container.get("resources") or {}
    return _named(amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))


def _named(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Requests and limits as quotas call them."""
    used: dict[str, Quantity] = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = amount
        used[f"requests.{name}"] = amount
    used.update((f"limits.{name}", amount) for name, amount in limits.items() if name in _COMPUTE)
    return used


def _greatest(some: Amounts, others: Amounts) -> dict[str, Quantity]:
    made = dict(some)
    for name, amount in others.items():
        if name not in made or made[name] < amount:
            made[name] = amount
    return made


def _scopes(quota: ReadOnlyTree) -> Iterator[tuple[str, str, list[str]]]:
    for scope in quota.get("scopes") or ():
        yield scope, "Exists", []
    for expression in (quota.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield expression.get("scopeName", ""), expression.get("operator", ""), expression.get("values") or []


def _matches(pod: ReadOnlyTree, scope: str, operator: str, values: list[str]) -> bool:
    spec = pod.get("spec") or {}
    if scope == "PriorityClass":
        name = spec.get("priorityClassName") or ""
        inside = name in values if operator in ("In", "NotIn") else bool(name)
        return inside is (operator in ("In", "Exists"))
    best_effort = pod_quality(spec) == "BestEffort"
    ends = (spec.get("activeDeadlineSeconds") or -1) >= 0
    known = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": ends,
        "NotTerminating": not ends,
        "CrossNamespacePodAffinity": _affinity_elsewhere(spec),
    }
    return known.get(scope, False)


def _affinity_elsewhere(spec: ReadOnlyTree) -> bool:
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        weighted = (
            preference.get("podAffinityTerm") or {}
            for preference in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        )
        for term in (*(terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()), *weighted):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


def _storage(claim: ReadOnlyTree) -> dict[str, Quantity]:
    spec = claim.get("spec") or {}
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    storage_class = annotations.get(_OLD_CLASS) or spec.get("storageClassName") or ""
    used: dict[str, Quantity] = {}
    if storage_class:
        used[f"{storage_class}{_STORAGE_CLASS}persistentvolumeclaims"] = ONE
    asked = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if asked is not None:
        used["requests.storage"] = asked
        if storage_class:
            used[f"{storage_class}{_STORAGE_CLASS}requests.storage"] = asked
    return used


def _ports(service: ReadOnlyTree) -> dict[str, Quantity]:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or ()
    if kind == "NodePort":
        return {"services.nodeports": Quantity(len(ports)), "services.loadbalancers": Quantity()}
    if kind == "LoadBalancer":
        own = ports if spec.get("allocateLoadBalancerNodePorts", True) else [p for p in ports if p.get("nodePort")]
        return {"services.nodeports": Quantity(len(own)), "services.loadbalancers": ONE}
    return {"services.nodeports": Quantity(), "services.loadbalancers": Quantity()}
