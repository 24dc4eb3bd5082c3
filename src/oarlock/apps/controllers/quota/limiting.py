"""`LimitRanger`: pods get the defaults of their namespace's limit ranges, and neither pods nor claims exceed them.

Kubernetes' admission plugin of that name; messages are Kubernetes'. See also: `limits`, what a LimitRange may be.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from oarlock.apps.controllers.quota.charging import Charge, QuotaLedger
from oarlock.apps.controllers.quota.limits import CLAIM, CONTAINER, POD
from oarlock.apps.controllers.quota.usage import CLAIMS, PODS, WITH_AMOUNTS, Amounts, amounts_of, summed, usage_of
from oarlock.apps.kinds.quotas import LimitRange, LimitRangeItem, ResourceQuota
from oarlock.client.informers.informer import Informer
from oarlock.meta.errors import Forbidden
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.meta.quantities import Quantity
from oarlock.policy.admission.chain import ReservingPlugin
from oarlock.registry.served import Claims
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

RESIZE = (PODS, "resize")
"""The one part of an object by which it may use more."""

_GROWING = frozenset(resource.resource for resource in WITH_AMOUNTS)
"""The plurals of resources of which an update may use more: a look at them rules out most updates."""

_UNCOUNTED = frozenset((GroupResource("", "events"), GroupResource("events.k8s.io", "events")))


class QuotaAdmission(ReservingPlugin):
    """`quotas` are those of the server, which tell whether a namespace has any."""

    name = "ResourceQuota"
    only_operations = ("CREATE", "UPDATE")
    only_updates_of = ("Pod", "PersistentVolumeClaim", "Service")

    def __init__(self, quotas: Informer[ResourceQuota], ledger: QuotaLedger) -> None:
        self._quotas = quotas
        self._ledger = ledger
        quotas.add_index("namespace", lambda quota: (quota.metadata.namespace or "",))

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        if request.served.virtual is not None or not len(self._quotas):
            return False
        if not target.namespace or (request.operation == "UPDATE" and target.resource not in _GROWING):
            return False
        resource = target.group_resource
        if request.operation == "UPDATE" and resource not in WITH_AMOUNTS:
            return False
        if resource in _UNCOUNTED or (target.subresource and (resource, target.subresource) != RESIZE):
            return False
        return bool(self._quotas.by_index("namespace", target.namespace))

    async def reserve(self, request: AdmissionRequest, new: Tree, old: Tree | None, claims: Claims) -> None:
        target = request.ctx.target
        used: Amounts = usage_of(target.group_resource, new)
        if old is not None:
            before = usage_of(target.group_resource, old)
            used = {name: amount - before[name] if name in before else amount for name, amount in used.items()}
            used = {name: amount for name, amount in used.items() if amount}
            if not used:
                return
        name = target.name or new["metadata"].get("name", "")
        charge = Charge(target.group_resource, name, new, used, claims.dry_run)
        claims.add(partial(self._ledger.release, target.namespace, charge))
        await self._ledger.charge(target.namespace, charge)


ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    """An ``AdmissionPlugin``. `ranges` are those of the server."""

    name = "LimitRanger"
    waits = False
    only_kinds = ("Pod", "PersistentVolumeClaim")
    only_operations = ("CREATE", "UPDATE")

    def __init__(self, ranges: Informer[LimitRange]) -> None:
        self._ranges = ranges
        ranges.add_index("namespace", lambda limit_range: (limit_range.metadata.namespace or "",))

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        if not len(self._ranges) or not target.namespace:
            return False
        if target.subresource:
            return (target.group_resource, target.subresource) == RESIZE and request.operation == "UPDATE"
        if target.group_resource == PODS:
            return request.operation == "CREATE"
        return target.group_resource == CLAIMS and request.operation in ("CREATE", "UPDATE")

    async def mutate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload
    ) -> Tree | None:
        if new is None or request.ctx.target.group_resource != PODS:
            return new
        for item in self.items(request, CONTAINER):
            new = _with_defaults(new, amounts_of(item.default_request), amounts_of(item.default))
        return new

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        if new is None:
            return
        target = request.ctx.target
        complaints = _of_pod(self, request, new) if target.group_resource == PODS else _of_claim(self, request, new)
        found = [*complaints]
        if found:
            text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise Forbidden(target.group_resource, target.name or new["metadata"].get("name", ""), text)

    def items(self, request: AdmissionRequest, kind: str) -> Iterator[LimitRangeItem]:
        """The limits of a type, of all ranges by name."""
        ranges = self._ranges.by_index("namespace", request.ctx.target.namespace)
        for limit_range in sorted(ranges, key=lambda limit_range: limit_range.metadata.name):
            yield from (item for item in limit_range.spec.limits or () if item.type == kind)


def _with_defaults(pod: Tree, requests: Amounts, limits: Amounts) -> Tree:
    """A pod whose containers say what they use; an annotation says what they didn't."""
    made: Tree = copy.deepcopy(pod)
    defaulted: list[str] = []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in made.get("spec", {}).get(field) or ():
            resources = container.setdefault("resources", {})
            for wanted, part, word in ((requests, "requests", "request"), (limits, "limits", "limit")):
                missing = {name: amount for name, amount in wanted.items() if name not in (resources.get(part) or {})}
                if missing:
                    given = {name: str(amount) for name, amount in missing.items()}
                    resources[part] = {**(resources.get(part) or {}), **given}
                    names = ", ".join(sorted(missing))
                    defaulted.append(f"{names} {word} for {what} {container.get('name', '')}")
    if defaulted:
        annotations = made["metadata"].get("annotations") or {}
        made["metadata"]["annotations"] = {**annotations, ANNOTATION: "LimitRanger plugin set: " + "; ".join(defaulted)}
    return made


def _of_pod(ranger: LimitRanger, request: AdmissionRequest, pod: Tree) -> Iterator[str]:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or ())]
    before = [*(spec.get("initContainers") or ())]
    for item in ranger.items(request, CONTAINER):
        for container in (*containers, *before):
            yield from _complaints(item, *_resources(container))
    for item in ranger.items(request, POD):
        yield from _complaints(item, *_together(containers, before))


def _of_claim(ranger: LimitRanger, request: AdmissionRequest, claim: Tree) -> Iterator[str]:
    requests = amounts_of(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    for item in ranger.items(request, CLAIM):
        for name, least in amounts_of(item.min).items():
            yield from _too_little(item.type, name, least, requests, {})
        for name, most in amounts_of(item.max).items():
            asked = requests.get(name)
            if asked is None:
                yield f"maximum {name} usage per {item.type} is {most}.  No request is specified"
            elif most < asked:
                yield f"maximum {name} usage per {item.type} is {most}, but request is {asked}"


def _resources(container: Mapping[str, Any]) -> tuple[Amounts, Amounts]:
    resources = container.get("resources") or {}
    return amounts_of(resources.get("requests")), amounts_of(resources.get("limits"))


def _together(containers: Iterable[Any], before: Iterable[Any]) -> tuple[Amounts, Amounts]:
    """Requests and limits of a whole pod: its containers' sum, or what one that prepares takes if that is more."""
    running = [_resources(container) for container in containers]
    totals = [summed(amounts[part] for amounts in running) for part in (0, 1)]
    for container in before:
        for total, own in zip(totals, _resources(container), strict=True):
            for name, amount in own.items():
                if name not in total or total[name] < amount:
                    total[name] = amount
    return totals[0], totals[1]


def _complaints(item: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in amounts_of(item.min).items():
        yield from _too_little(item.type, name, least, requests, limits)
    for name, most in amounts_of(item.max).items():
        yield from _too_much(item.type, name, most, requests, limits)
    for name, ratio in amounts_of(item.max_limit_request_ratio).items():
        yield from _wrong_ratio(item.type, name, ratio, (requests, limits))


def _too_little(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    asked, limit = requests.get(name), limits.get(name)
    if asked is None:
        yield f"minimum {name} usage per {kind} is {least}.  No request is specified"
    elif asked < least:
        yield f"minimum {name} usage per {kind} is {least}, but request is {asked}"
    elif limit is not None and limit < least:
        yield f"minimum {name} usage per {kind} is {least}, but limit is {limit}"


def _too_much(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    asked, limit = requests.get(name), limits.get(name)
    if limit is None:
        yield f"maximum {name} usage per {kind} is {most}.  No limit is specified"
    elif most < limit:
        yield f"maximum {name} usage per {kind} is {most}, but limit is {limit}"
    elif asked is not None and most < asked:
        yield f"maximum {name} usage per {kind} is {most}, but request is {asked}"


def _wrong_ratio(kind: str, name: str, ratio: Quantity, given: tuple[Amounts, Amounts]) -> Iterator[str]:
    asked, limit = given[0].get(name), given[1].get(name)
    if not asked or not limit:
        what = "request is" if not asked and limit else "limit is" if asked else "limit or request is"
        yield f"{name} max limit to request ratio per {kind} is {ratio}, but no {what} specified or {what[:-3]} is 0"
        return
    real = float(limit) / float(asked)
    if real > float(ratio):
        yield f"{name} max limit to request ratio per {kind} is {ratio}, but provided ratio is {real:f}"
