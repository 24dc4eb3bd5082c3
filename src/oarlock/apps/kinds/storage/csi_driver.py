"""CSIDrivers of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import NONE, UNSET, age, age_of, flag, text
from oarlock.apps.kinds.common.rules import IMMUTABLE, unchanged
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import Duplicate, FieldError, Invalid, NotSupported
from oarlock.meta.json_trees import Tree


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            yield NotSupported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    policy, policies = spec.get("fsGroupPolicy"), ("File", "None", "ReadWriteOnceWithFSType")
    if policy is not None and policy not in policies:
        yield NotSupported("spec.fsGroupPolicy", policy, policies)
    audiences: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        yield from _check_request(request, audiences, f"spec.tokenRequests[{i}]")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        why = "must be greater than or equal to 10 seconds"
        yield Invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why)
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield Invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], why)
    if old is not None:
        before = old.get("spec") or {}
        if spec.get("attachRequired") != before.get("attachRequired"):
            yield Invalid("spec.attachedRequired", spec.get("attachRequired"), IMMUTABLE)
        yield from unchanged(spec, before, "spec", "volumeLifecycleModes")
    if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        instead = (
            "if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
        )
        ctx.warn(f"spec.serviceAccountTokenInSecrets is unset; {instead}")


def _check_request(request: Tree, audiences: set[str], path: str) -> Iterator[FieldError]:
    audience, seconds = request.get("audience") or "", request.get("expirationSeconds")
    if audience in audiences:
        yield Duplicate(f"{path}.audience", audience)
    audiences.add(audience)
    if seconds is None:
        return
    if seconds < 600:
        yield Invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 2**32:
        yield Invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


def _update(new: Tree, old: Tree, ctx: Context) -> None:
    """A driver has no generation before it changes."""
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = at(old, "metadata.generation", 0) + 1


def _row(tree: Tree, now: float) -> list[Any]:
    flags = [at(tree, f"spec.{name}", False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(request.get("audience", "") for request in at(tree, "spec.tokenRequests", [])) or UNSET
    modes = ",".join(at(tree, "spec.volumeLifecycleModes", [])) or NONE
    return [*flags, audiences, at(tree, "spec.requiresRepublish", False), modes, age_of(tree, now)]


CSI_DRIVER: Final = KindDeclaration(
    "storage.k8s.io",
    "v1",
    "CSIDriver",
    "csidrivers",
    namespaced=False,
    columns=(
        flag("AttachRequired"),
        flag("PodInfoOnMount"),
        flag("StorageCapacity"),
        text("TokenRequests"),
        flag("RequiresRepublish"),
        text("Modes"),
        age(),
    ),
    row=_row,
    update=_update,
    validate=_validate,
)
