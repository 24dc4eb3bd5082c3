"""ResourceClaims of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, age_of, text
from oarlock.apps.kinds.common.first_status import empty_status
from oarlock.apps.kinds.common.rules import unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.common.values import check_text
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.apps.kinds.pods.placement import check_node_selector
from oarlock.apps.kinds.pods.volumes import check_csi_driver_name
from oarlock.apps.kinds.resource.devices import UNKNOWN_REQUEST, check_claim, fill_in_claim, requests_of
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Forbidden, Invalid, Required, TooMany
from oarlock.meta.json_trees import Tree


def _fill_in(tree: Tree) -> None:
    fill_in_claim(tree.get("spec"))


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_claim(new.get("spec") or {}, "spec")
    if old is not None:
        yield from unchanged(new, old, "", "spec", kind="ResourceClaimSpec")


def _check_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    if status.get("reservedFor") and status.get("allocation") is None:
        yield Forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    known: set[str] = set()
    for i, user in enumerate(status.get("reservedFor") or ()):
        path = f"status.reservedFor[{i}]"
        for field in ("resource", "name", "uid"):
            if not user.get(field):
                yield Required(f"{path}.{field}")
        if user.get("uid") in known:
            yield Duplicate(f"{path}.uid", user["uid"])
        known.add(user.get("uid", ""))
    allocation = status.get("allocation")
    if allocation is None:
        return
    if before.get("allocation") is not None:
        yield from unchanged(status, before, "status", "allocation")
        return
    requests = requests_of(at(new, "spec.devices.requests", ()))
    results = at(allocation, "devices.results", ())
    if len(results) > _MOST_RESULTS:
        yield TooMany("status.allocation.devices.results", len(results), _MOST_RESULTS)
    for i, result in enumerate(results):
        yield from _check_result(result, requests, f"status.allocation.devices.results[{i}]")
    if allocation.get("nodeSelector") is not None:
        yield from check_node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector")


_MOST_RESULTS: Final = 32


def _check_result(result: Tree, requests: Set[str], path: str) -> Iterator[FieldError]:
    """A device that was given to a claim."""
    request, pool = result.get("request") or "", result.get("pool") or ""
    if request not in requests:
        yield Invalid(f"{path}.request", request, UNKNOWN_REQUEST)
    yield from check_csi_driver_name(result.get("driver") or "", f"{path}.driver")
    if not pool:
        yield Required(f"{path}.pool")
    else:
        for part in pool.split("/"):
            yield from check_text(names.dns1123_subdomain, part, f"{path}.pool")
    yield from check_text(names.dns1123_label, result.get("device") or "", f"{path}.device")


def _row(tree: Tree, now: float) -> list[Any]:
    states = []
    if at(tree, "metadata.deletionTimestamp"):
        states.append("deleted")
    if at(tree, "status.allocation") is not None:
        states.append("allocated")
    if at(tree, "status.reservedFor"):
        states.append("reserved")
    return [",".join(states) or "pending", age_of(tree, now)]


RESOURCE_CLAIM: Final = KindDeclaration(
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims",
    status=True,
    status_metadata=(),
    columns=(text("State"), age()),
    complete=empty_status,
    row=_row,
    default=_fill_in,
    validate=_validate,
    validate_status=_check_status,
)
