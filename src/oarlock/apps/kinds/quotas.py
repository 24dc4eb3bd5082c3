"""What a namespace may have: `ResourceQuota` in all, `LimitRange` for each of its objects. Of the core group.

Source: Kubernetes API reference, v1. See also: ``controllers.quota``, which counts and refuses.
"""

from __future__ import annotations

from typing import Annotated

from oarlock.apps.kinds.common.columns import AGE
from oarlock.meta.errors import BadRequest
from oarlock.meta.quantities import QuantityError, from_json
from oarlock.schema.definition import Column
from oarlock.schema.types.markers import Atomic, NullIfAbsent, OmitEmpty, Quantity
from oarlock.schema.types.resources import Resource
from oarlock.schema.types.shapes import Model

ResourceList = Annotated[dict[str, Quantity], OmitEmpty]

_REQUEST = "Request represents a minimum amount of cpu/memory that a container may consume."
_LIMIT = (
    "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."
)
_SHOWN = (
    "self.spec.?hard.orValue({{}}).map(k, k).filter(k, {which}k.startsWith('limits.')).sort()"
    ".map(k, k + ': ' + (self.?status.?used[?k].hasValue() ? string(self.status.used[k]) : '0') + '/' "
    "+ (self.?status.?hard[?k].hasValue() ? string(self.status.hard[k]) : string(self.spec.hard[k]))).join(', ')"
)


class ScopedResourceSelectorRequirement(Model):
    """Which objects a quota counts, by one of their qualities: `operator` is In, NotIn, Exists or DoesNotExist."""

    scope_name: str
    operator: str
    values: Annotated[list[str], OmitEmpty, Atomic] = []


class ScopeSelector(Model):
    """Which objects a quota counts: those that all expressions choose."""

    match_expressions: Annotated[list[ScopedResourceSelectorRequirement], OmitEmpty, Atomic] = []


class ResourceQuotaSpec(Model):
    """How much of what there may be."""

    hard: ResourceList = {}
    scopes: Annotated[list[str], OmitEmpty, Atomic] = []
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Model):
    """How much there may be by now, and how much there is."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(
    Resource,
    group="",
    version="v1",
    short_names=["quota"],
    generation=False,
    unconditional_update=True,
    delete_returns="object",
    status_subresource=True,
    columns=[
        Column("Request", expression=_SHOWN.format(which="!"), description=_REQUEST),
        Column("Limit", expression=_SHOWN.format(which=""), description=_LIMIT),
        AGE,
    ],
):
    """Limits how much there is of what in a namespace."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus | None = None

    def default(self) -> None:
        self.spec.hard = _canonical("ResourceQuota", self.spec.hard)
        if self.status is not None:
            self.status.hard = _canonical("ResourceQuota", self.status.hard)
            self.status.used = _canonical("ResourceQuota", self.status.used)


class LimitRangeItem(Model):
    """Limits for the objects of one type: Container, Pod or PersistentVolumeClaim."""

    type: str
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(Model):
    """The limits, each of another type."""

    limits: Annotated[list[LimitRangeItem] | None, Atomic, NullIfAbsent] = None


class LimitRange(
    Resource,
    group="",
    version="v1",
    short_names=["limits"],
    generation=False,
    unconditional_update=True,
    columns=[Column("Created At", ".metadata.creationTimestamp", type="date")],
):
    """Limits how much each object of a namespace may use, and what it uses if it doesn't say."""

    spec: LimitRangeSpec = LimitRangeSpec()

    def default(self) -> None:
        self.spec.limits = self.spec.limits or None
        for item in self.spec.limits or ():
            for name in ("max", "min", "default", "default_request", "max_limit_request_ratio"):
                setattr(item, name, _canonical("LimitRange", getattr(item, name)))
            if item.type == "Container":
                item.default = {**item.max, **item.default}
                item.default_request = {**item.min, **item.default, **item.default_request}
                for key in item.default:
                    item.default_request.setdefault(key, item.default[key])


def _canonical(kind: str, amounts: dict[str, Quantity]) -> dict[str, Quantity]:
    """The same amounts as Kubernetes writes them. Raises BadRequest for what is no quantity."""
    try:
        return {name: str(from_json(value)) for name, value in amounts.items()}
    except QuantityError as error:
        raise BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from None
