"""The cells of Tables of workload kinds, as kubectl shows them: a row is all cells after the name.

Pure functions ``(tree, now) → cells``. See also: `pod_cells`, for pods; ``apps.kinds.released``, which names the
columns. Source: Kubernetes' printers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oarlock.apps.workloads.pod_cells import pod_row
from oarlock.apps.workloads.trees import at
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339

__all__ = ["ROWS", "Row"]

Tree = dict[str, Any]
Row = Callable[[Tree, float], list[Any]]

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


def _age(tree: Tree, now: float) -> str:
    return _since(at(tree, "metadata.creationTimestamp", ""), now)


def _since(time: str, now: float) -> str:
    if not time:
        return UNKNOWN
    try:
        return human_duration(now - parse_rfc3339(time))
    except TimeError:
        return "<invalid>"


def _pairs(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def _selector(selector: Tree | None) -> str:
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, operator = one.get("key", ""), one.get("operator", "")
        values = ",".join(one.get("values") or ())
        terms.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(operator, f"!{key}")
        )
    return ",".join(terms) or NONE


def _pods(template: Tree | None) -> tuple[str, str]:
    """The names and images of the containers of a template."""
    containers = at(template or {}, "spec.containers", [])
    return ",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)


def _joined(values: Iterable[str], most: int = 3) -> str:
    """The first of many, and how many more there are."""
    texts = list(values)
    more = f" + {len(texts) - most} more..." if len(texts) > most else ""
    return (",".join(texts[:most]) + more) or NONE


def _controller_revision(tree: Tree, now: float) -> list[Any]:
    owner = next((one for one in at(tree, "metadata.ownerReferences", []) if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group, _, _ = owner.get("apiVersion", "").rpartition("/")
        kind = owner.get("kind", "").lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [controller, tree.get("revision", 0), _age(tree, now)]


def _daemon_set(tree: Tree, now: float) -> list[Any]:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [at(tree, f"status.{name}", 0) for name in (*counts, "numberAvailable")]
    nodes = _pairs(at(tree, "spec.template.spec.nodeSelector"))
    return [*numbers, nodes, _age(tree, now), *_pods(at(tree, "spec.template")), _selector(at(tree, "spec.selector"))]


def _deployment(tree: Tree, now: float) -> list[Any]:
    ready = f"{at(tree, 'status.readyReplicas', 0)}/{at(tree, 'spec.replicas', 0)}"
    numbers = [at(tree, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas")]
    return [ready, *numbers, _age(tree, now), *_pods(at(tree, "spec.template")), _selector(at(tree, "spec.selector"))]


def _replica_set(tree: Tree, now: float) -> list[Any]:
    numbers = [at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [*numbers, _age(tree, now), *_pods(at(tree, "spec.template")), _selector(at(tree, "spec.selector"))]


def _replication_controller(tree: Tree, now: float) -> list[Any]:
    numbers = [at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [*numbers, _age(tree, now), *_pods(at(tree, "spec.template")), _pairs(at(tree, "spec.selector"))]


def _stateful_set(tree: Tree, now: float) -> list[Any]:
    ready = f"{at(tree, 'status.readyReplicas', 0)}/{at(tree, 'spec.replicas', 0)}"
    return [ready, _age(tree, now), *_pods(at(tree, "spec.template"))]


def _pod_template(tree: Tree, now: float) -> list[Any]:
    return [*_pods(tree.get("template")), _pairs(at(tree, "template.metadata.labels"))]


def _cron_job(tree: Tree, now: float) -> list[Any]:
    last = at(tree, "status.lastScheduleTime", "")
    template = at(tree, "spec.jobTemplate.spec", {})
    return [
        at(tree, "spec.schedule", ""),
        at(tree, "spec.timeZone", NONE),
        at(tree, "spec.suspend", False),
        len(at(tree, "status.active", [])),
        _since(last, now) if last else NONE,
        _age(tree, now),
        *_pods(template.get("template")),
        _selector(template.get("selector")),
    ]


def _job(tree: Tree, now: float) -> list[Any]:
    succeeded, completions = at(tree, "status.succeeded", 0), at(tree, "spec.completions")
    parallelism = at(tree, "spec.parallelism", 0)
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    begun, ended = at(tree, "status.startTime", ""), at(tree, "status.completionTime", "")
    duration = ""
    if begun:
        duration = human_duration(parse_rfc3339(ended) - parse_rfc3339(begun)) if ended else _since(begun, now)
    pods = _pods(at(tree, "spec.template"))
    return [_job_status(tree), done, duration, _age(tree, now), *pods, _selector(at(tree, "spec.selector"))]


def _job_status(tree: Tree) -> str:
    true = {one.get("type") for one in at(tree, "status.conditions", []) if one.get("status") == "True"}
    for condition, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    if at(tree, "metadata.deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in true else "Running"


def _autoscaler(tree: Tree, now: float) -> list[Any]:
    target = at(tree, "spec.scaleTargetRef", {})
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(tree),
        str(at(tree, "spec.minReplicas", UNSET)),
        at(tree, "spec.maxReplicas", 0),
        at(tree, "status.currentReplicas", 0),
        _age(tree, now),
    ]


def _targets(tree: Tree) -> str:
    """The metrics that are aimed at, with what they are now."""
    current = at(tree, "status.currentMetrics", [])
    texts = []
    for index, metric in enumerate(at(tree, "spec.metrics", [])):
        kind = metric.get("type", "")
        about = kind[:1].lower() + kind[1:]
        aim = at(metric, f"{about}.target", {})
        seen = at(current[index], f"{about}.current", {}) if index < len(current) else {}
        for name, unit in (("averageUtilization", "%"), ("averageValue", ""), ("value", "")):
            if name in aim:
                label = f"{at(metric, f'{about}.name', '')}: " if kind == "Resource" else ""
                texts.append(f"{label}{_amount(seen.get(name), unit)}/{aim[name]}{unit}")
                break
    utilization = at(tree, "spec.targetCPUUtilizationPercentage")
    if utilization is not None:
        texts.append(f"cpu: {_amount(at(tree, 'status.currentCPUUtilizationPercentage'), '%')}/{utilization}%")
    return _joined(texts, 2).replace(",", ", ")


def _amount(value: Any, unit: str) -> str:
    return UNKNOWN if value is None else f"{value}{unit}"


def _budget(tree: Tree, now: float) -> list[Any]:
    least, most = (at(tree, f"spec.{name}", "N/A") for name in ("minAvailable", "maxUnavailable"))
    return [str(least), str(most), at(tree, "status.disruptionsAllowed", 0), _age(tree, now)]


def _service(tree: Tree, now: float) -> list[Any]:
    addresses = at(tree, "spec.clusterIPs", [])
    ports = [
        f"{one.get('port', '')}:{one['nodePort']}/{one.get('protocol', 'TCP')}"
        if one.get("nodePort")
        else f"{one.get('port', '')}/{one.get('protocol', 'TCP')}"
        for one in at(tree, "spec.ports", [])
    ]
    return [
        at(tree, "spec.type", ""),
        addresses[0] if addresses else at(tree, "spec.clusterIP", NONE),
        _external_addresses(tree),
        ",".join(ports) or NONE,
        _age(tree, now),
        _pairs(at(tree, "spec.selector")),
    ]


def _external_addresses(tree: Tree) -> str:
    kind, own = at(tree, "spec.type", ""), at(tree, "spec.externalIPs", [])
    if kind == "ExternalName":
        return str(at(tree, "spec.externalName", NONE))
    if kind == "LoadBalancer":
        balanced = [one.get("ip") or one.get("hostname", "") for one in at(tree, "status.loadBalancer.ingress", [])]
        return ",".join([*balanced, *own]) or "<pending>"
    return ",".join(own) or NONE


def _endpoints(tree: Tree, now: float) -> list[Any]:
    places = []
    for subset in tree.get("subsets") or ():
        ports = subset.get("ports") or [None]
        for port in ports:
            for one in subset.get("addresses") or ():
                places.append(one.get("ip", "") if port is None else f"{one.get('ip', '')}:{port.get('port', '')}")
    return [_joined(places), _age(tree, now)]


def _endpoint_slice(tree: Tree, now: float) -> list[Any]:
    ports = [str(one["port"]) if one.get("port") is not None else "*" for one in tree.get("ports") or ()]
    addresses = [address for one in tree.get("endpoints") or () for address in one.get("addresses") or ()]
    shown = [_joined(ports) if ports else UNSET, _joined(addresses) if addresses else UNSET]
    return [tree.get("addressType", ""), *shown, _age(tree, now)]


def _node(tree: Tree, now: float) -> list[Any]:
    ready = next((one for one in at(tree, "status.conditions", []) if one.get("type") == "Ready"), None)
    status = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if at(tree, "spec.unschedulable"):
        status.append("SchedulingDisabled")
    addresses = {one.get("type"): one.get("address") for one in reversed(at(tree, "status.addresses", []))}
    info = at(tree, "status.nodeInfo", {})
    told = [info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [
        ",".join(status),
        ",".join(sorted(set(_roles(tree)))) or NONE,
        _age(tree, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        *told,
    ]


def _roles(tree: Tree) -> Iterable[str]:
    for key, value in at(tree, "metadata.labels", {}).items():
        if key.startswith("node-role.kubernetes.io/") and len(key) > 24:
            yield key[24:]
        elif key == "kubernetes.io/role" and value:
            yield value


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _volume(tree: Tree, now: float) -> list[Any]:
    claim = at(tree, "spec.claimRef")
    phase = at(tree, "status.phase", "")
    return [
        str(at(tree, "spec.capacity.storage", "0")),
        _modes(at(tree, "spec.accessModes", [])),
        at(tree, "spec.persistentVolumeReclaimPolicy", ""),
        "Terminating" if at(tree, "metadata.deletionTimestamp") else phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        at(tree, "spec.storageClassName", ""),
        at(tree, "spec.volumeAttributesClassName", UNSET),
        at(tree, "status.reason", ""),
        _age(tree, now),
        at(tree, "spec.volumeMode", UNSET),
    ]


def _claim(tree: Tree, now: float) -> list[Any]:
    phase = at(tree, "status.phase", "")
    bound = bool(at(tree, "spec.volumeName"))
    return [
        "Terminating" if at(tree, "metadata.deletionTimestamp") else phase,
        at(tree, "spec.volumeName", ""),
        str(at(tree, "status.capacity.storage", "")) if bound else "",
        _modes(at(tree, "status.accessModes", [])) if bound else "",
        at(tree, "spec.storageClassName", ""),
        at(tree, "spec.volumeAttributesClassName", UNSET),
        _age(tree, now),
        at(tree, "spec.volumeMode", UNSET),
    ]


def _ingress(tree: Tree, now: float) -> list[Any]:
    hosts = [one["host"] for one in at(tree, "spec.rules", []) if one.get("host")]
    shown = [one.get("ip") or one.get("hostname", "") for one in at(tree, "status.loadBalancer.ingress", [])]
    ports = "80, 443" if at(tree, "spec.tls") else "80"
    return [
        at(tree, "spec.ingressClassName", NONE),
        _joined(hosts) if hosts else "*",
        ",".join(shown),
        ports,
        _age(tree, now),
    ]


def _ingress_class(tree: Tree, now: float) -> list[Any]:
    given = at(tree, "spec.parameters")
    group = f".{given['apiGroup']}" if given and given.get("apiGroup") else ""
    parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}" if given else NONE
    return [at(tree, "spec.controller", ""), parameters, _age(tree, now)]


def _ip_address(tree: Tree, now: float) -> list[Any]:
    parent = at(tree, "spec.parentRef", {})
    return ["/".join(parent[key] for key in ("resource", "namespace", "name") if parent.get(key)), _age(tree, now)]


def _paths(*paths: str) -> Row:
    """A row of the values at these paths, and the age."""
    return lambda tree, now: [*(at(tree, path) for path in paths), _age(tree, now)]


def _csi_driver(tree: Tree, now: float) -> list[Any]:
    flags = [at(tree, f"spec.{name}", False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(one.get("audience", "") for one in at(tree, "spec.tokenRequests", [])) or UNSET
    modes = ",".join(at(tree, "spec.volumeLifecycleModes", [])) or NONE
    return [*flags, audiences, at(tree, "spec.requiresRepublish", False), modes, _age(tree, now)]


def _priority_class(tree: Tree, now: float) -> list[Any]:
    policy = tree.get("preemptionPolicy", "")
    return [tree.get("value", 0), bool(tree.get("globalDefault")), _age(tree, now), policy]


def _storage_class(tree: Tree, now: float) -> list[Any]:
    texts = [tree.get("provisioner", ""), tree.get("reclaimPolicy", ""), tree.get("volumeBindingMode", "")]
    return [*texts, bool(tree.get("allowVolumeExpansion")), _age(tree, now)]


def _resource_claim(tree: Tree, now: float) -> list[Any]:
    states = []
    if at(tree, "metadata.deletionTimestamp"):
        states.append("deleted")
    if at(tree, "status.allocation") is not None:
        states.append("allocated")
    if at(tree, "status.reservedFor"):
        states.append("reserved")
    return [",".join(states) or "pending", _age(tree, now)]


ROWS: Mapping[tuple[str, str], Row] = {
    ("", "pods"): pod_row,
    ("", "podtemplates"): _pod_template,
    ("", "replicationcontrollers"): _replication_controller,
    ("", "services"): _service,
    ("", "endpoints"): _endpoints,
    ("", "nodes"): _node,
    ("", "persistentvolumes"): _volume,
    ("", "persistentvolumeclaims"): _claim,
    ("apps", "controllerrevisions"): _controller_revision,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _deployment,
    ("apps", "replicasets"): _replica_set,
    ("apps", "statefulsets"): _stateful_set,
    ("autoscaling", "horizontalpodautoscalers"): _autoscaler,
    ("batch", "cronjobs"): _cron_job,
    ("batch", "jobs"): _job,
    ("discovery.k8s.io", "endpointslices"): _endpoint_slice,
    ("networking.k8s.io", "ingresses"): _ingress,
    ("networking.k8s.io", "ingressclasses"): _ingress_class,
    ("networking.k8s.io", "ipaddresses"): _ip_address,
    ("networking.k8s.io", "networkpolicies"): lambda tree, now: [
        _selector(at(tree, "spec.podSelector")),
        _age(tree, now),
    ],
    ("networking.k8s.io", "servicecidrs"): lambda tree, now: [_joined(at(tree, "spec.cidrs", [])), _age(tree, now)],
    ("node.k8s.io", "runtimeclasses"): _paths("handler"),
    ("policy", "poddisruptionbudgets"): _budget,
    ("resource.k8s.io", "deviceclasses"): _paths(),
    ("resource.k8s.io", "resourceclaims"): _resource_claim,
    ("resource.k8s.io", "resourceclaimtemplates"): _paths(),
    ("resource.k8s.io", "resourceslices"): _paths("spec.nodeName", "spec.driver", "spec.pool.name"),
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("storage.k8s.io", "csidrivers"): _csi_driver,
    ("storage.k8s.io", "csinodes"): lambda tree, now: [len(at(tree, "spec.drivers", [])), _age(tree, now)],
    ("storage.k8s.io", "csistoragecapacities"): lambda tree, now: [
        tree.get("storageClassName", ""),
        str(tree.get("capacity", "")),
    ],
    ("storage.k8s.io", "storageclasses"): _storage_class,
    ("storage.k8s.io", "volumeattachments"): lambda tree, now: [
        *(at(tree, path, "") for path in ("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName")),
        bool(at(tree, "status.attached")),
        _age(tree, now),
    ],
    ("storage.k8s.io", "volumeattributesclasses"): _paths("driverName"),
}
"""By group and plural."""
