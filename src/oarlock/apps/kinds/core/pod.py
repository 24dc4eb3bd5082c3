"""Pods: what writes of their status keep, its rules, and the cells of a Table that show it.

Source: Kubernetes' strategy and printer of pods.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from oarlock.apps.kinds.common.columns import age, containers_of, pairs, text
from oarlock.apps.kinds.common.trees import at, go_list
from oarlock.apps.kinds.common.values import IMMUTABLE, check_ip, check_qualified_name, check_text
from oarlock.apps.kinds.declaration import KindDeclaration, SubresourceDeclaration, proxy_declaration
from oarlock.apps.kinds.pods.checks import check_pod, check_template
from oarlock.apps.kinds.pods.defaults import settle_pod, settle_template, warn_of_template
from oarlock.apps.kinds.pods.updates import keep_all_but_resources, pod_quality
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339
from oarlock.schema.definition import QueryParameter

_SYSTEM: Final = ("PodScheduled", "Ready", "Initialized")
_ONE_OF_EACH: Final = "may specify no more than one IP for each IP family"
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def keep_status(new: Tree, old: Tree, ctx: Context) -> None:
    """The quality of service stays, and an address stands in two fields; a resize changes nothing else."""
    if ctx.target.subresource == "resize":
        keep_all_but_resources(new, old)
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass"):
        status["qosClass"] = before.get("qosClass") or pod_quality(new.get("spec") or {})
    for single, plural in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        first, several = status.get(single), status.get(plural) or []
        if first and at(several[0] if several else {}, "ip") != first:
            status[plural] = [{"ip": first}]
        elif not first and single == "podIP" and several:
            if before.get(single):
                status.pop(plural)
            else:
                status[single] = several[0].get("ip", "")


def check_pod_status(new: Tree, old: Tree, ctx: Context) -> Iterator[FieldError]:
    """The errors in the status of a pod."""
    status, before = new.get("status") or {}, old.get("status") or {}
    for i, condition in enumerate(status.get("conditions") or ()):
        if (condition.get("observedGeneration") or 0) < 0:
            path = f"status.conditions[{i}].observedGeneration"
            yield Invalid(path, condition["observedGeneration"], "must be a non-negative integer")
        if condition.get("type") not in _SYSTEM:
            yield from check_qualified_name(condition.get("type") or "", f"status.conditions[{i}].Type")
    node = status.get("nominatedNodeName") or ""
    if node and node != before.get("nominatedNodeName"):
        yield from check_text(names.dns1123_subdomain, node, "status.nominatedNodeName")
        if at(old, "spec.nodeName"):
            yield Forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if (status.get("observedGeneration") or 0) < 0:
        yield Invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    if status.get("qosClass") != before.get("qosClass") and before.get("qosClass"):
        yield Invalid("status.qosClass", status.get("qosClass"), IMMUTABLE)
    for name in _STATUSES[:2]:
        yield from _check_transitions(status.get(name) or (), before.get(name) or (), new, f"status.{name}")
    claims = {claim.get("name") for claim in at(new, "spec.resourceClaims", ())}
    for i, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        if claim.get("name") not in claims:
            why = "must match the name of an entry in `spec.resourceClaims`"
            yield Invalid(f"status.resourceClaimStatuses[{i}].name", claim.get("name", ""), why)
    yield from _check_addresses(status.get("podIPs") or (), "status.podIPs")
    hosts = status.get("hostIPs") or ()
    if hosts and hosts[0].get("ip", "") != (status.get("hostIP") or ""):
        yield Invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`")
    yield from _check_addresses(hosts, "status.hostIPs")


def _check_addresses(addresses: Sequence[Tree], path: str) -> Iterator[FieldError]:
    bad = [error for i, address in enumerate(addresses) for error in check_ip(address.get("ip") or "", f"{path}[{i}]")]
    yield from bad
    if len(addresses) > 1 and not bad:
        versions = {ipaddress.ip_address(address["ip"]).version for address in addresses}
        if len(versions) == 1 or len(addresses) > 2:
            yield Invalid(path, go_list("PodIP", addresses), _ONE_OF_EACH)


def _check_transitions(now: Sequence[Tree], before: Sequence[Tree], pod: Tree, path: str) -> Iterator[FieldError]:
    """A container that has ended, and isn't restarted, doesn't run again."""
    policy = at(pod, "spec.restartPolicy", "Always")
    if policy == "Always":
        return
    kinds = [*at(pod, "spec.containers", ()), *at(pod, "spec.initContainers", ())]
    own = {container.get("name"): container.get("restartPolicy") for container in kinds}
    for i, old in enumerate(before):
        ended = at(old, "state.terminated")
        restarts = own.get(old.get("name")) or policy
        if ended is None or restarts == "Always" or (ended.get("exitCode") and restarts == "OnFailure"):
            continue
        same = next((state for state in now if state.get("name") == old.get("name")), None)
        if same is not None and at(same, "state.terminated") is None:
            yield Forbidden(f"{path}[{i}].state", "may not be transitioned to non-terminated state")


NONE = "<none>"


def pod_row(tree: Tree, now: float) -> list[Any]:
    """The cells after the name."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    sidecars = {c.get("name") for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    containers, inits = status.get("containerStatuses") or [], status.get("initContainerStatuses") or []
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    reason = status.get("reason") or status.get("phase", "")
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing = _init_reason(spec, inits, sidecars)
    restarted = inits
    ready = sum(1 for state in inits if state.get("name") in sidecars and state.get("started") and state.get("ready"))
    if not initializing or _is_true(conditions, "Initialized"):
        restarted = [*(state for state in inits if state.get("name") in sidecars), *containers]
        ready += sum(1 for state in containers if _runs(state))
        reason = _reason(containers, initializing or reason, pod_ready=_is_true(conditions, "Ready"))
    else:
        reason = initializing
    if tree["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    addresses = status.get("podIPs") or []
    return [
        f"{ready}/{len(spec.get('containers') or ()) + len(sidecars)}",
        reason,
        _restarts(restarted, now),
        _since(tree["metadata"].get("creationTimestamp", ""), now),
        addresses[0].get("ip", NONE) if addresses else status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, conditions),
    ]


def _is_true(conditions: Mapping[Any, Tree], name: str) -> bool:
    return (conditions.get(name) or {}).get("status") == "True"


def _init_reason(spec: Tree, inits: Sequence[Tree], sidecars: Container[Any]) -> str:
    """How far the init containers are; empty if all have done what they must."""
    for position, container_status in enumerate(inits):
        state = container_status.get("state") or {}
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container_status.get("name") in sidecars and container_status.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}"
        if waits is not None and waits.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waits['reason']}"
        return f"Init:{position}/{len(spec.get('initContainers') or ())}"
    return ""


def _reason(states: Sequence[Tree], reason: str, *, pod_ready: bool) -> str:
    """The reason of the first container that isn't running; `reason` if all are."""
    failure, runs = "", False
    for container_status in reversed(states):
        state = container_status.get("state") or {}
        waits, ended = state.get("waiting"), state.get("terminated")
        if waits is not None and waits.get("reason"):
            reason = waits["reason"]
        elif ended is not None:
            reason = _ending(ended)
            failure = reason if ended.get("exitCode") else failure
        else:
            runs = runs or _runs(container_status)
    if reason != "Completed":
        return reason
    if runs and pod_ready:
        return "Running"
    return failure or ("NotReady" if runs else reason)


def _runs(container_status: Tree) -> bool:
    return bool(container_status.get("ready")) and "running" in (container_status.get("state") or {})


def _ending(ended: Tree) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(states: Sequence[Tree], now: float) -> str:
    count = sum(state.get("restartCount") or 0 for state in states)
    ends = [((state.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for state in states]
    last = max(ends, default="")
    return f"{count} ({_since(last, now)} ago)" if count and last else str(count)


def _since(time: str, now: float) -> str:
    try:
        return human_duration(now - parse_rfc3339(time)) if time else "<unknown>"
    except TimeError:
        return "<invalid>"


def _gates(spec: Tree, conditions: Mapping[Any, Tree]) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    return f"{sum(_is_true(conditions, gate.get('conditionType')) for gate in gates)}/{len(gates)}"


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
