"""The checks of workload kinds beyond their schemas: what must fit together, and what must stay as it is.

Functions by group and plural, and a table of fields that never change. Not all of Kubernetes' rules: those that clients
and people run into. See also: `pod_checks`. Source: Kubernetes' validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oarlock.apps.workloads.pod_checks import check_pod, check_template
from oarlock.apps.workloads.service_checks import check_service
from oarlock.apps.workloads.trees import Check, Tree, at
from oarlock.meta import labels
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required

__all__ = ["CHECKS"]

_IMMUTABLE: Final = "field is immutable"
_POSITIVE: Final = "must be greater than or equal to 0"
_NO_MATCH: Final = "`selector` does not match template `labels`"
_SET_UPDATES: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_SET_MAY_CHANGE: Final = frozenset(
    (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )
)
_CLAIM_UPDATES: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _selected(tree: Tree, old: Tree | None, *, fixed: bool = True) -> Iterator[FieldError]:
    """The selector of a kind that makes pods, and its template."""
    spec = tree.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    told = at(template, "metadata.labels", {})
    if selector is None:
        yield Required("spec.selector")
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield Invalid("spec.selector", selector, "empty selector is invalid for deployment")
    if not _matches(selector, told):
        yield Invalid("spec.template.metadata.labels", told or None, _NO_MATCH)
    claims = [at(one, "metadata.name", "") for one in spec.get("volumeClaimTemplates") or ()]
    yield from check_template(template, "spec.template", claims=claims)
    if fixed and old is not None and selector != at(old, "spec.selector"):
        yield Invalid("spec.selector", _in_order(selector), _IMMUTABLE)


def _in_order(selector: Tree | None) -> Tree | None:
    """A selector as it is shown: its labels in order of their names."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def _matches(selector: Tree | None, told: Mapping[str, str]) -> bool:
    if not selector:
        return False
    try:
        return labels.from_label_selector(selector).matches(told)
    except (ValueError, FieldError):
        return False


def _counts(tree: Tree, *paths: str) -> Iterator[FieldError]:
    for path in paths:
        number = at(tree, path, 0)
        if number < 0:
            yield Invalid(path, number, _POSITIVE)


def _deployment(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    yield from _counts(new, "spec.replicas")
    yield from _selected(new, old)
    strategy = at(new, "spec.strategy", {})
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        yield NotSupported("spec.strategy.type", strategy.get("type", ""), ("Recreate", "RollingUpdate"))
    elif strategy["type"] == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield Forbidden("spec.strategy.rollingUpdate", why)
    elif strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge") in (0, "0%"):
            yield Invalid("spec.strategy.rollingUpdate.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    yield from _counts(new, "spec.minReadySeconds", "spec.revisionHistoryLimit")
    deadline, ready = at(new, "spec.progressDeadlineSeconds"), at(new, "spec.minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        yield Invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _replica_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource != "status":
        yield from _counts(new, "spec.replicas", "spec.minReadySeconds")
        yield from _selected(new, old)


def _daemon_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource != "status":
        yield from _selected(new, old)
        yield from _counts(new, "spec.minReadySeconds", "spec.revisionHistoryLimit")


def _stateful_set(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    yield from _counts(new, "spec.replicas", "spec.minReadySeconds")
    yield from _selected(new, old, fixed=False)
    if old is not None:
        now, before = new.get("spec") or {}, old.get("spec") or {}
        if any(now.get(key) != before.get(key) for key in (now.keys() | before.keys()) - _SET_MAY_CHANGE):
            yield Forbidden("spec", _SET_UPDATES)


def _replication_controller(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    yield from _counts(new, "spec.replicas", "spec.minReadySeconds")
    selector, told = at(new, "spec.selector", {}), at(new, "spec.template.metadata.labels", {})
    if not selector:
        yield Required("spec.selector")
    if at(new, "spec.template") is None:
        yield Required("spec.template")
        return
    if any(told.get(key) != value for key, value in selector.items()):
        yield Invalid("spec.template.metadata.labels", told or None, "`selector` does not match template `labels`")
    yield from check_template(new["spec"]["template"], "spec.template")


def _job(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    spec = new.get("spec") or {}
    yield from _job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        yield Required("spec.selector")
    elif not _matches(selector, at(spec, "template.metadata.labels", {})):
        told = at(spec, "template.metadata.labels")
        yield Invalid("spec.template.metadata.labels", told, _NO_MATCH)
    if old is None:
        return
    before = old.get("spec") or {}
    fixed = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    if spec.get("completions") != before.get("completions") and spec.get("completionMode") != "Indexed":
        yield Invalid("spec.completions", spec.get("completions"), _IMMUTABLE)
    for name in fixed:
        if spec.get(name) != before.get(name):
            yield Invalid(f"spec.{name}", spec.get(name), _IMMUTABLE)
    waiting = before.get("suspend") and not at(old, "status.startTime")
    if spec.get("template") != before.get("template") and not waiting:
        yield Invalid("spec.template", spec.get("template"), _IMMUTABLE)


def _job_spec(spec: Tree, path: str) -> Iterator[FieldError]:
    names = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    for name in names:
        if spec.get(name) is not None and spec[name] < 0:
            yield Invalid(f"{path}.{name}", spec[name], _POSITIVE)
    yield from check_template(spec.get("template"), f"{path}.template", ("OnFailure", "Never"))


def _cron_job(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    if not at(new, "spec.schedule"):
        yield Required("spec.schedule")
    policies = ("Allow", "Forbid", "Replace")
    if at(new, "spec.concurrencyPolicy") not in policies:
        yield NotSupported("spec.concurrencyPolicy", at(new, "spec.concurrencyPolicy", ""), policies)
    yield from _job_spec(at(new, "spec.jobTemplate.spec", {}), "spec.jobTemplate.spec")
    if len(new["metadata"].get("name", "")) > 52:
        yield Invalid("metadata.name", new["metadata"]["name"], "must be no more than 52 characters")


def _claim(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    spec = new.get("spec") or {}
    if not spec.get("accessModes"):
        yield Required("spec.accessModes", "at least 1 access mode is required")
    if at(spec, "resources.requests.storage") is None:
        yield Required("spec.resources[storage]")
    if old is not None:
        before = old.get("spec") or {}
        may_change = {"resources", "volumeAttributesClassName"} if before.get("volumeName") else {"volumeName"}
        if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - may_change):
            yield Forbidden("spec", _CLAIM_UPDATES)


def _volume(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    spec = new.get("spec") or {}
    if not spec.get("accessModes"):
        yield Required("spec.accessModes")
    if not at(spec, "capacity"):
        yield Required("spec.capacity")
    if not spec.keys() - _NO_SOURCES:
        yield Required("spec", "must specify a volume type")
    if old is not None:
        before = old.get("spec") or {}
        if any(spec.get(key) != before.get(key) for key in (spec.keys() | before.keys()) - _NO_SOURCES):
            yield Forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")


_NO_SOURCES: Final = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)
"""The fields of a volume that don't say what it is made of."""


def _budget(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield Invalid("spec", _shown(spec), "minAvailable and maxUnavailable cannot be both set")


def _autoscaler(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    if ctx.target.subresource == "status":
        return
    spec = new.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield Invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield Invalid("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield Invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for name in ("kind", "name"):
        if not at(spec, f"scaleTargetRef.{name}"):
            yield Required(f"spec.scaleTargetRef.{name}")


def _ingress(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if ctx.target.subresource != "status" and not spec.get("rules") and not spec.get("defaultBackend"):
        yield Invalid("spec", _shown(spec), "either `defaultBackend` or `rules` must be specified")


def _priority_class(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value", 0)
    if old is None and name.startswith("system-") and ctx.user.name != "system:apiserver":
        why = "priority class names with 'system-' prefix are reserved for system use only"
        yield Forbidden("metadata.name", f"{why}. error: {name} is not a known system priority class")
    if not name.startswith("system-") and value > 10**9:
        yield Forbidden("value", f"maximum allowed value of a user defined priority is {10**9}")
    if old is not None and value != old.get("value", 0):
        yield Forbidden("value", "may not be changed in an update.")


def _shown(tree: Tree) -> Any:
    return tree or None


def _fixed(*paths: str) -> Check:
    """These fields never change."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path in paths if old is not None and ctx.target.subresource != "status" else ():
            if at(new, path) != at(old, path):
                yield Invalid(path, at(new, path), _IMMUTABLE)

    return check


def _forbidden(texts: Mapping[str, str]) -> Check:
    """The same, with texts of their own."""

    def check(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
        for path, text in texts.items() if old is not None else ():
            if at(new, path) != at(old, path):
                yield Forbidden(path, text)

    return check


CHECKS: Mapping[tuple[str, str], Check] = {
    ("", "persistentvolumeclaims"): _claim,
    ("", "persistentvolumes"): _volume,
    ("", "pods"): check_pod,
    ("", "replicationcontrollers"): _replication_controller,
    ("", "services"): check_service,
    ("apps", "controllerrevisions"): _fixed("data"),
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _deployment,
    ("apps", "replicasets"): _replica_set,
    ("apps", "statefulsets"): _stateful_set,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _job,
    ("discovery.k8s.io", "endpointslices"): _fixed("addressType"),
    ("networking.k8s.io", "ingressclasses"): _fixed("spec.controller"),
    ("networking.k8s.io", "ingresses"): _ingress,
    ("networking.k8s.io", "ipaddresses"): _fixed("spec.parentRef"),
    ("networking.k8s.io", "servicecidrs"): _fixed("spec.cidrs"),
    ("node.k8s.io", "runtimeclasses"): _fixed("handler"),
    ("policy", "poddisruptionbudgets"): _budget,
    ("resource.k8s.io", "resourceclaims"): _fixed("spec"),
    ("resource.k8s.io", "resourceclaimtemplates"): _fixed("spec"),
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("storage.k8s.io", "csidrivers"): _fixed("spec.attachRequired", "spec.fsGroupPolicy", "spec.volumeLifecycleModes"),
    ("storage.k8s.io", "storageclasses"): _forbidden(
        {
            "parameters": "updates to parameters are forbidden.",
            "provisioner": "updates to provisioner are forbidden.",
            "reclaimPolicy": "updates to reclaimPolicy are forbidden.",
            "volumeBindingMode": "updates to volumeBindingMode are forbidden.",
        }
    ),
    ("storage.k8s.io", "volumeattachments"): _fixed("spec"),
    ("storage.k8s.io", "volumeattributesclasses"): _fixed("driverName", "parameters"),
}
"""By group and plural."""
