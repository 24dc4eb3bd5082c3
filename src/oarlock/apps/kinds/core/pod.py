"""Pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, containers_of, pairs, text
from oarlock.apps.kinds.common.trees import at
from oarlock.apps.kinds.declaration import KindDeclaration, SubresourceDeclaration, proxy_declaration
from oarlock.apps.kinds.pods.cells import check_pod_status, keep_status, pod_row
from oarlock.apps.kinds.pods.checks import check_pod, check_template
from oarlock.apps.kinds.pods.defaults import settle_pod, settle_template, warn_of_template
from oarlock.apps.kinds.pods.updates import pod_quality
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.schema.definition import QueryParameter


def _fill_in(tree: Tree) -> None:
    settle_template(tree.get("template"))


def _validate(new: Tree, old: Tree | None, ctx: Context) -> Iterator[FieldError]:
    yield from check_template(new.get("template"), "template", ("Always", "OnFailure", "Never"))
    warn_of_template(new.get("template"), "template", (old or {}).get("template"), ctx)


def _row(tree: Tree, now: float) -> list[Any]:
    return [*containers_of(tree.get("template")), pairs(at(tree, "template.metadata.labels"))]


POD_TEMPLATE: Final = KindDeclaration(
    "",
    "v1",
    "PodTemplate",
    "podtemplates",
    generation=True,
    columns=(text("Containers"), text("Images"), text("Pod Labels")),
    default=_fill_in,
    validate=_validate,
    row=_row,
)


def _connecting(name: str, kind: str, *parameters: QueryParameter) -> SubresourceDeclaration:
    return SubresourceDeclaration(name, ("create", "get"), kind=kind, connects=True, parameters=parameters)


_CONTAINER = QueryParameter("container", "string")
_STREAMS = tuple(QueryParameter(name, "boolean") for name in ("stderr", "stdin", "stdout", "tty"))

_EXEC: Final = _connecting(
    "exec", "PodExecOptions", QueryParameter("command", "string", many=True), _CONTAINER, *_STREAMS
)
_ATTACH: Final = _connecting("attach", "PodAttachOptions", _CONTAINER, *_STREAMS)
_PORT_FORWARD: Final = _connecting(
    "portforward", "PodPortForwardOptions", QueryParameter("ports", "integer", many=True)
)
_LOG: Final = SubresourceDeclaration(
    "log",
    ("get",),
    produces="text/plain",
    parameters=(
        _CONTAINER,
        QueryParameter("follow", "boolean"),
        QueryParameter("insecureSkipTLSVerifyBackend", "boolean"),
        QueryParameter("limitBytes", "integer"),
        QueryParameter("previous", "boolean"),
        QueryParameter("sinceSeconds", "integer"),
        QueryParameter("sinceTime", "string"),
        QueryParameter("stream", "string"),
        QueryParameter("tailLines", "integer"),
        QueryParameter("timestamps", "boolean"),
    ),
)


def _prepare(new: Tree) -> None:
    new["status"] = {"phase": "Pending", "qosClass": pod_quality(new.get("spec") or {})}
    if at(new, "spec.schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": why,
            "lastProbeTime": None,
            "lastTransitionTime": new["metadata"]["creationTimestamp"],
        }
        new["status"]["conditions"] = [gated]
    if at(new, "spec.terminationGracePeriodSeconds", 0) < 0:
        new["spec"]["terminationGracePeriodSeconds"] = 1


def _grace_s(tree: Tree, asked: int | None) -> int:
    """A pod that no node runs needs no time; one that has ended neither."""
    if not at(tree, "spec.nodeName") or at(tree, "status.phase") in ("Succeeded", "Failed"):
        return 0
    seconds = at(tree, "spec.terminationGracePeriodSeconds", 30) if asked is None else asked
    return 1 if seconds < 0 else int(seconds)


POD: Final = KindDeclaration(
    "",
    "v1",
    "Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    status=True,
    generation=True,
    delete_returns="object",
    selectable=(
        ".spec.nodeName",
        ".spec.restartPolicy",
        ".spec.schedulerName",
        ".spec.serviceAccountName",
        ".spec.hostNetwork",
        ".status.phase",
        ".status.podIP",
        ".status.nominatedNodeName",
    ),
    columns=(
        text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        text("Status", "The aggregate status of the containers in this pod."),
        text(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in "
            "this pod has restarted.",
        ),
        age(),
        text("IP", wide=True),
        text("Node", wide=True),
        text("Nominated Node", wide=True),
        text("Readiness Gates", wide=True),
    ),
    parts=(
        SubresourceDeclaration(
            "binding",
            ("create",),
            (
                "spec.nodeName",
                "status.conditions",
                "status.nominatedNodeName",
                "metadata.annotations",
                "metadata.labels",
            ),
            "/v1/Binding",
            counts=False,
        ),
        SubresourceDeclaration("eviction", ("create",), body_kind="policy/v1/Eviction", older=("policy/v1beta1",)),
        SubresourceDeclaration("ephemeralcontainers", fields=("spec.ephemeralContainers",)),
        SubresourceDeclaration("resize", fields=("spec.containers", "spec.initContainers", "spec.resources")),
        _LOG,
        _EXEC,
        _ATTACH,
        _PORT_FORWARD,
        proxy_declaration("PodProxyOptions"),
    ),
    grace_s=_grace_s,
    status_metadata=("annotations", "finalizers", "labels"),
    update=keep_status,
    validate=check_pod,
    validate_status=check_pod_status,
    default=settle_pod,
    prepare=_prepare,
    row=pod_row,
)
