"""What a `LimitRange` may be. Source: Kubernetes' validation of LimitRange; messages are Kubernetes'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oarlock.apps.controllers.quota.amounts import Amounts, amounts_of
from oarlock.apps.controllers.quota.quotas import STANDARD, resource_name_errors
from oarlock.apps.kinds.quotas import LimitRange, LimitRangeItem
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, Required
from oarlock.meta.names import qualified_name
from oarlock.meta.quantities import Quantity
from oarlock.registry.hooks.collection import StoredCollection

__all__ = ["CLAIM", "CONTAINER", "POD", "LimitRangeCollection"]

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
