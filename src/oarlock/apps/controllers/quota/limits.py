"""What a `LimitRange` may be. Source: Kubernetes' validation of LimitRange; messages are Kubernetes'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from oarlock.apps.controllers.quota.usage import Amounts, amounts_of
from oarlock.apps.kinds.quotas import (
    LimitRange,
    LimitRangeItem,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ScopedResourceSelectorRequirement,
)
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, NotSupported, Required
from oarlock.meta.names import qualified_name
from oarlock.meta.quantities import Quantity, from_json
from oarlock.registry.hooks.collection import StoredCollection
from oarlock.schema.types.views import builtins_of

_POD_COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_OBJECTS = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims",
        "configmaps", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
STANDARD = _POD_COMPUTE | _OBJECTS | {"requests.storage"}
_SCOPES = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
    "VolumeAttributesClass",
)  # fmt: skip
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EXCLUSIVE = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


class ResourceQuotaCollection(StoredCollection[ResourceQuota]):
    """Quotas limit what can be counted, and keep their scopes."""

    __threadsafe__ = True

    def prepare(self, new: ResourceQuota, old: ResourceQuota | None, ctx: Context) -> None:
        if old is None:
            new.status = ResourceQuotaStatus()

    def validate(self, new: ResourceQuota, old: ResourceQuota | None, ctx: Context) -> Iterator[FieldError]:
        if ctx.target.subresource == "status":
            status = new.status or ResourceQuotaStatus()
            for name, amounts in (("hard", status.hard), ("used", status.used)):
                yield from _amount_errors(f"status.{name}", amounts)
            return
        yield from _amount_errors("spec.hard", new.spec.hard)
        yield from _scope_errors(new.spec)
        yield from _selector_errors(new.spec)
        if old is not None and sorted(new.spec.scopes) != sorted(old.spec.scopes):
            yield Invalid("spec.scopes", new.spec.scopes or None, "field is immutable")
        selector = new.spec.scope_selector
        if old is not None and selector != old.spec.scope_selector:
            yield Invalid("spec.scopeSelector", selector and builtins_of(selector), "field is immutable")


def resource_name_errors(path: str, name: str, standard: Iterable[str] = STANDARD) -> Iterator[FieldError]:
    """What is wrong with the name of something that there is an amount of."""
    complaints = list(qualified_name(name))
    for complaint in complaints:
        yield Invalid(path, name, complaint)
    if not complaints and "/" not in name and name not in standard and not _of_huge_pages(name):
        yield Invalid(path, name, "must be a standard resource type or fully qualified")


def _of_huge_pages(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


_NONE = Quantity()


def _amount_errors(path: str, amounts: Mapping[str, Any]) -> Iterator[FieldError]:
    for name in sorted(amounts):
        where, amount = f"{path}[{name}]", from_json(amounts[name])
        yield from resource_name_errors(where, name)
        if "/" not in name and name not in STANDARD and not _of_huge_pages(name):
            yield Invalid(where, name, "must be a standard resource for quota")
        if amount < _NONE:
            yield Invalid(where, str(amount), "must be greater than or equal to 0")
        elif name in _OBJECTS and not amount.is_whole():
            yield Invalid(where, str(amount), "must be an integer")


def _scope_errors(spec: ResourceQuotaSpec) -> Iterator[FieldError]:
    for scope in spec.scopes:
        if scope not in _SCOPES:
            yield Invalid("spec.scopes", spec.scopes, "unsupported scope")
            continue
        yield from _inapplicable("spec.scopes", spec.scopes, scope, spec.hard)
    for pair in _EXCLUSIVE:
        if set(pair) <= set(spec.scopes):
            yield Invalid("spec.scopes", spec.scopes, "conflicting scopes")


def _inapplicable(path: str, shown: Any, scope: str, hard: Mapping[str, Any]) -> Iterator[FieldError]:
    for name in sorted(hard):
        known = name in STANDARD and scope != "VolumeAttributesClass"
        if known and name != "pods" and (scope == "BestEffort" or name not in _POD_COMPUTE):
            yield Invalid(path, shown, "unsupported scope applied to resource")


def _selector_errors(spec: ResourceQuotaSpec) -> Iterator[FieldError]:
    if spec.scope_selector is None:
        return
    path, chosen = "spec.scopeSelector.matchExpressions", set()
    for expression in spec.scope_selector.match_expressions:
        chosen.add(expression.scope_name)
        yield from _requirement_errors(path, expression)
        if expression.scope_name in _SCOPES:
            yield from _inapplicable(path, builtins_of(expression), expression.scope_name, spec.hard)
    for pair in _EXCLUSIVE:
        if set(pair) <= chosen:
            yield Invalid(path, builtins_of(spec.scope_selector), "conflicting scopes")


def _requirement_errors(path: str, expression: ScopedResourceSelectorRequirement) -> Iterator[FieldError]:
    if expression.scope_name not in _SCOPES:
        yield Invalid(f"{path}.scopeName", expression.scope_name, "unsupported scope")
    only_exists = expression.scope_name in _SCOPES and expression.scope_name not in (
        "PriorityClass",
        "VolumeAttributesClass",
    )
    if only_exists and expression.operator != "Exists":
        why = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        yield Invalid(f"{path}.operator", expression.operator, why)
    if expression.operator not in _OPERATORS:
        yield NotSupported(f"{path}.operator", expression.operator, _OPERATORS)
    elif expression.operator in ("In", "NotIn") and not expression.values:
        yield Required(
            f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        )
    elif expression.operator in ("Exists", "DoesNotExist") and expression.values:
        why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield Invalid(f"{path}.values", expression.values, why)


POD, CONTAINER, CLAIM = "Pod", "Container", "PersistentVolumeClaim"
_OF_CONTAINERS = frozenset(("cpu", "memory", "ephemeral-storage"))
_OVERCOMMITTED = frozenset(("cpu", "memory", "ephemeral-storage", "storage"))
ONE = Quantity(1)


class LimitRangeCollection(StoredCollection[LimitRange]):
    """Each type is limited once, and its limits fit together."""

    def validate(self, new: LimitRange, old: LimitRange | None, ctx: Context) -> Iterator[FieldError]:
        types: set[str] = set()
        for at, item in enumerate(new.spec.limits or ()):
            path = f"spec.limits[{at}]"
            complaints = qualified_name(item.type)
            for complaint in complaints:
                yield Invalid(f"{path}.type", item.type, complaint)
            if not complaints and "/" not in item.type and item.type not in (POD, CONTAINER, CLAIM):
                yield Invalid(f"{path}.type", item.type, "must be a standard limit type or fully qualified")
            if item.type in types:
                yield Duplicate(f"{path}.type", item.type)
            types.add(item.type)
            yield from _item_errors(path, item)


def _item_errors(path: str, item: LimitRangeItem) -> Iterator[FieldError]:
    given = {
        "max": item.max,
        "min": item.min,
        "default": item.default,
        "defaultRequest": item.default_request,
        "maxLimitRequestRatio": item.max_limit_request_ratio,
    }
    yield from _name_errors(path, item.type, given)
    if item.type == CLAIM and "storage" not in {**item.max, **item.min}:
        yield Required(
            f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )
    amounts = {name: amounts_of(values) for name, values in given.items()}
    for key in sorted({key for values in amounts.values() for key in values}):
        yield from _comparisons(path, key, amounts)


def _name_errors(path: str, kind: str, given: Mapping[str, Mapping[str, Any]]) -> Iterator[FieldError]:
    standard = _OF_CONTAINERS if kind in (POD, CONTAINER) else STANDARD | {"storage"}
    for name, values in given.items():
        if kind == POD and name in ("default", "defaultRequest"):
            if values:
                yield Forbidden(f"{path}.{name}", "may not be specified when `type` is 'Pod'")
            continue
        for key in sorted(values):
            where = f"{path}.{name}[{key}]"
            yield from resource_name_errors(where, key, standard)
            if kind in (POD, CONTAINER) and "/" not in key and key not in standard and not key.startswith("hugepages-"):
                yield Invalid(where, key, "must be a standard resource for containers")


def _comparisons(path: str, key: str, amounts: Mapping[str, Amounts]) -> Iterator[FieldError]:
    least, most = amounts["min"].get(key), amounts["max"].get(key)
    usual, asked = amounts["default"].get(key), amounts["defaultRequest"].get(key)

    def wrong(field: str, value: Quantity, why: str) -> FieldError:
        return Invalid(f"{path}.{field}[{key}]", str(value), why)

    if least is not None and most is not None and most < least:
        yield wrong("min", least, f"min value {least} is greater than max value {most}")
    if asked is not None and least is not None and asked < least:
        yield wrong("defaultRequest", asked, f"min value {least} is greater than default request value {asked}")
    if asked is not None and most is not None and most < asked:
        yield wrong("defaultRequest", asked, f"default request value {asked} is greater than max value {most}")
    if asked is not None and usual is not None and usual < asked:
        why = f"default request value {asked} is greater than default limit value {usual}"
        yield wrong("defaultRequest", asked, why)
    if usual is not None and least is not None and usual < least:
        yield wrong("default", least, f"min value {least} is greater than default value {usual}")
    if usual is not None and most is not None and most < usual:
        yield wrong("default", most, f"default value {usual} is greater than max value {most}")
    yield from _ratio_errors(path, key, amounts)
    same = usual is None or asked is None or usual == asked
    if "/" not in key and key not in _OVERCOMMITTED and not same:
        yield wrong(
            "defaultRequest", asked or ONE, f"default value {usual} must equal to defaultRequest value {asked} in {key}"
        )


def _ratio_errors(path: str, key: str, amounts: Mapping[str, Amounts]) -> Iterator[FieldError]:
    ratio = amounts["maxLimitRequestRatio"].get(key)
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{key}]"
    if ratio < ONE:
        yield Invalid(where, str(ratio), f"ratio {ratio} is less than 1")
    least, most = amounts["min"].get(key), amounts["max"].get(key)
    if least and most is not None:
        largest = float(most) / float(least)
        if float(ratio) > largest:
            yield Invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {largest:f}")
