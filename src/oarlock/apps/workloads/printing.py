"""The cells of Tables of workload kinds, as kubectl shows them: a row is all cells after the name.

Pure functions ``(tree, now) → cells``. See also: `pod_cells`, for pods; ``apps.kinds.released``, which names the
columns. Source: Kubernetes' printers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oarlock.apps.workloads.pod_cells import pod_row
from oarlock.meta.times import TimeError, human_duration, parse_rfc3339

__all__ = ["ROWS", "Row"]

Tree = dict[str, Any]
Row = Callable[[Tree, float], list[Any]]

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


def _at(tree: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; `default` where it is absent or null."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return default if tree is None else tree


def _age(tree: Tree, now: float) -> str:
    return _since(_at(tree, "metadata.creationTimestamp", ""), now)


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
    containers = _at(template or {}, "spec.containers", [])
    return ",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)


def _joined(values: Iterable[str], most: int = 3) -> str:
    """The first of many, and how many more there are."""
    texts = list(values)
    more = f" + {len(texts) - most} more..." if len(texts) > most else ""
    return (",".join(texts[:most]) + more) or NONE


def _controller_revision(tree: Tree, now: float) -> list[Any]:
    owner = next((one for one in _at(tree, "metadata.ownerReferences", []) if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group, _, _ = owner.get("apiVersion", "").rpartition("/")
        kind = owner.get("kind", "").lower()
        controller = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [controller, tree.get("revision", 0), _age(tree, now)]


def _daemon_set(tree: Tree, now: float) -> list[Any]:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    numbers = [_at(tree, f"status.{name}", 0) for name in (*counts, "numberAvailable")]
    nodes = _pairs(_at(tree, "spec.template.spec.nodeSelector"))
    return [*numbers, nodes, _age(tree, now), *_pods(_at(tree, "spec.template")), _selector(_at(tree, "spec.selector"))]


def _deployment(tree: Tree, now: float) -> list[Any]:
    ready = f"{_at(tree, 'status.readyReplicas', 0)}/{_at(tree, 'spec.replicas', 0)}"
    numbers = [_at(tree, f"status.{name}", 0) for name in ("updatedReplicas", "availableReplicas")]
    return [ready, *numbers, _age(tree, now), *_pods(_at(tree, "spec.template")), _selector(_at(tree, "spec.selector"))]


def _replica_set(tree: Tree, now: float) -> list[Any]:
    numbers = [_at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [*numbers, _age(tree, now), *_pods(_at(tree, "spec.template")), _selector(_at(tree, "spec.selector"))]


def _replication_controller(tree: Tree, now: float) -> list[Any]:
    numbers = [_at(tree, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    return [*numbers, _age(tree, now), *_pods(_at(tree, "spec.template")), _pairs(_at(tree, "spec.selector"))]


def _stateful_set(tree: Tree, now: float) -> list[Any]:
    ready = f"{_at(tree, 'status.readyReplicas', 0)}/{_at(tree, 'spec.replicas', 0)}"
    return [ready, _age(tree, now), *_pods(_at(tree, "spec.template"))]


def _pod_template(tree: Tree, now: float) -> list[Any]:
    return [*_pods(tree.get("template")), _pairs(_at(tree, "template.metadata.labels"))]


def _cron_job(tree: Tree, now: float) -> list[Any]:
    last = _at(tree, "status.lastScheduleTime", "")
    template = _at(tree, "spec.jobTemplate.spec", {})
    return [
        _at(tree, "spec.schedule", ""),
        _at(tree, "spec.timeZone", NONE),
        _at(tree, "spec.suspend", False),
        len(_at(tree, "status.active", [])),
        _since(last, now) if last else NONE,
        _age(tree, now),
        *_pods(template.get("template")),
        _selector(template.get("selector")),
    ]


def _job(tree: Tree, now: float) -> list[Any]:
    succeeded, completions = _at(tree, "status.succeeded", 0), _at(tree, "spec.completions")
    parallelism = _at(tree, "spec.parallelism", 0)
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    begun, ended = _at(tree, "status.startTime", ""), _at(tree, "status.completionTime", "")
    duration = ""
    if begun:
        duration = human_duration(parse_rfc3339(ended) - parse_rfc3339(begun)) if ended else _since(begun, now)
    pods = _pods(_at(tree, "spec.template"))
    return [_job_status(tree), done, duration, _age(tree, now), *pods, _selector(_at(tree, "spec.selector"))]


def _job_status(tree: Tree) -> str:
    true = {one.get("type") for one in _at(tree, "status.conditions", []) if one.get("status") == "True"}
    for condition, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    if _at(tree, "metadata.deletionTimestamp"):
        return "Terminating"
    if "Suspended" in true:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in true else "Running"


def _autoscaler(tree: Tree, now: float) -> list[Any]:
    target = _at(tree, "spec.scaleTargetRef", {})
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(tree),
        str(_at(tree, "spec.minReplicas", UNSET)),
        _at(tree, "spec.maxReplicas", 0),
        _at(tree, "status.currentReplicas", 0),
        _age(tree, now),
    ]


def _targets(tree: Tree) -> str:
    """The metrics that are aimed at, with what they are now."""
    current = _at(tree, "status.currentMetrics", [])
    texts = []
    for at, metric in enumerate(_at(tree, "spec.metrics", [])):
        kind = metric.get("type", "")
        about = kind[:1].lower() + kind[1:]
        aim = _at(metric, f"{about}.target", {})
        seen = _at(current[at], f"{about}.current", {}) if at < len(current) else {}
        for name, unit in (("averageUtilization", "%"), ("averageValue", ""), ("value", "")):
            if name in aim:
                label = f"{_at(metric, f'{about}.name', '')}: " if kind == "Resource" else ""
                texts.append(f"{label}{_amount(seen.get(name), unit)}/{aim[name]}{unit}")
                break
    utilization = _at(tree, "spec.targetCPUUtilizationPercentage")
    if utilization is not None:
        texts.append(f"cpu: {_amount(_at(tree, 'status.currentCPUUtilizationPercentage'), '%')}/{utilization}%")
    return _joined(texts, 2).replace(",", ", ")


def _amount(value: Any, unit: str) -> str:
    return UNKNOWN if value is None else f"{value}{unit}"


def _budget(tree: Tree, now: float) -> list[Any]:
    least, most = (_at(tree, f"spec.{name}", "N/A") for name in ("minAvailable", "maxUnavailable"))
    return [str(least), str(most), _at(tree, "status.disruptionsAllowed", 0), _age(tree, now)]


def _service(tree: Tree, now: float) -> list[Any]:
    addresses = _at(tree, "spec.clusterIPs", [])
    ports = [
        f"{one.get('port', '')}:{one['nodePort']}/{one.get('protocol', 'TCP')}"
        if one.get("nodePort")
        else f"{one.get('port', '')}/{one.get('protocol', 'TCP')}"
        for one in _at(tree, "spec.ports", [])
    ]
    return [
        _at(tree, "spec.type", ""),
        addresses[0] if addresses else _at(tree, "spec.clusterIP", NONE),
        _external_addresses(tree),
        ",".join(ports) or NONE,
        _age(tree, now),
        _pairs(_at(tree, "spec.selector")),
    ]


def _external_addresses(tree: Tree) -> str:
    kind, own = _at(tree, "spec.type", ""), _at(tree, "spec.externalIPs", [])
    if kind == "ExternalName":
        return str(_at(tree, "spec.externalName", NONE))
    if kind == "LoadBalancer":
        balanced = [one.get("ip") or one.get("hostname", "") for one in _at(tree, "status.loadBalancer.ingress", [])]
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
    ready = next((one for one in _at(tree, "status.conditions", []) if one.get("type") == "Ready"), None)
    status = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if _at(tree, "spec.unschedulable"):
        status.append("SchedulingDisabled")
    addresses = {one.get("type"): one.get("address") for one in reversed(_at(tree, "status.addresses", []))}
    info = _at(tree, "status.nodeInfo", {})
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
    for key, value in _at(tree, "metadata.labels", {}).items():
        if key.startswith("node-role.kubernetes.io/") and len(key) > 24:
            yield key[24:]
        elif key == "kubernetes.io/role" and value:
            yield value


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _volume(tree: Tree, now: float) -> list[Any]:
    claim = _at(tree, "spec.claimRef")
    phase = _at(tree, "status.phase", "")
    return [
        str(_at(tree, "spec.capacity.storage", "0")),
        _modes(_at(tree, "spec.accessModes", [])),
        _at(tree, "spec.persistentVolumeReclaimPolicy", ""),
        "Terminating" if _at(tree, "metadata.deletionTimestamp") else phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _at(tree, "spec.storageClassName", ""),
        _at(tree, "spec.volumeAttributesClassName", UNSET),
        _at(tree, "status.reason", ""),
        _age(tree, now),
        _at(tree, "spec.volumeMode", UNSET),
    ]


def _claim(tree: Tree, now: float) -> list[Any]:
    phase = _at(tree, "status.phase", "")
    bound = bool(_at(tree, "spec.volumeName"))
    return [
        "Terminating" if _at(tree, "metadata.deletionTimestamp") else phase,
        _at(tree, "spec.volumeName", ""),
        str(_at(tree, "status.capacity.storage", "")) if bound else "",
        _modes(_at(tree, "status.accessModes", [])) if bound else "",
        _at(tree, "spec.storageClassName", ""),
        _at(tree, "spec.volumeAttributesClassName", UNSET),
        _age(tree, now),
        _at(tree, "spec.volumeMode", UNSET),
    ]


def _ingress(tree: Tree, now: float) -> list[Any]:
    hosts = [one["host"] for one in _at(tree, "spec.rules", []) if one.get("host")]
    shown = [one.get("ip") or one.get("hostname", "") for one in _at(tree, "status.loadBalancer.ingress", [])]
    ports = "80, 443" if _at(tree, "spec.tls") else "80"
    return [
        _at(tree, "spec.ingressClassName", NONE),
        _joined(hosts) if hosts else "*",
        ",".join(shown),
        ports,
        _age(tree, now),
    ]


def _ingress_class(tree: Tree, now: float) -> list[Any]:
    given = _at(tree, "spec.parameters")
    group = f".{given['apiGroup']}" if given and given.get("apiGroup") else ""
    parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}" if given else NONE
    return [_at(tree, "spec.controller", ""), parameters, _age(tree, now)]


def _ip_address(tree: Tree, now: float) -> list[Any]:
    parent = _at(tree, "spec.parentRef", {})
    return ["/".join(parent[key] for key in ("resource", "namespace", "name") if parent.get(key)), _age(tree, now)]


def _paths(*paths: str) -> Row:
    """A row of the values at these paths, and the age."""
    return lambda tree, now: [*(_at(tree, path) for path in paths), _age(tree, now)]


def _csi_driver(tree: Tree, now: float) -> list[Any]:
    flags = [_at(tree, f"spec.{name}", False) for name in ("attachRequired", "podInfoOnMount", "storageCapacity")]
    audiences = ",".join(one.get("audience", "") for one in _at(tree, "spec.tokenRequests", [])) or UNSET
    modes = ",".join(_at(tree, "spec.volumeLifecycleModes", [])) or NONE
    return [*flags, audiences, _at(tree, "spec.requiresRepublish", False), modes, _age(tree, now)]


def _priority_class(tree: Tree, now: float) -> list[Any]:
    policy = tree.get("preemptionPolicy", "")
    return [tree.get("value", 0), bool(tree.get("globalDefault")), _age(tree, now), policy]


def _storage_class(tree: Tree, now: float) -> list[Any]:
    texts = [tree.get("provisioner", ""), tree.get("reclaimPolicy", ""), tree.get("volumeBindingMode", "")]
    return [*texts, bool(tree.get("allowVolumeExpansion")), _age(tree, now)]


def _resource_claim(tree: Tree, now: float) -> list[Any]:
    states = []
    if _at(tree, "metadata.deletionTimestamp"):
        states.append("deleted")
    if _at(tree, "status.allocation") is not None:
        states.append("allocated")
    if _at(tree, "status.reservedFor"):
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
        _selector(_at(tree, "spec.podSelector")),
        _age(tree, now),
    ],
    ("networking.k8s.io", "servicecidrs"): lambda tree, now: [_joined(_at(tree, "spec.cidrs", [])), _age(tree, now)],
    ("node.k8s.io", "runtimeclasses"): _paths("handler"),
    ("policy", "poddisruptionbudgets"): _budget,
    ("resource.k8s.io", "deviceclasses"): _paths(),
    ("resource.k8s.io", "resourceclaims"): _resource_claim,
    ("resource.k8s.io", "resourceclaimtemplates"): _paths(),
    ("resource.k8s.io", "resourceslices"): _paths("spec.nodeName", "spec.driver", "spec.pool.name"),
    ("scheduling.k8s.io", "priorityclasses"): _priority_class,
    ("storage.k8s.io", "csidrivers"): _csi_driver,
    ("storage.k8s.io", "csinodes"): lambda tree, now: [len(_at(tree, "spec.drivers", [])), _age(tree, now)],
    ("storage.k8s.io", "csistoragecapacities"): lambda tree, now: [
        tree.get("storageClassName", ""),
        str(tree.get("capacity", "")),
    ],
    ("storage.k8s.io", "storageclasses"): _storage_class,
    ("storage.k8s.io", "volumeattachments"): lambda tree, now: [
        *(_at(tree, path, "") for path in ("spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName")),
        bool(_at(tree, "status.attached")),
        _age(tree, now),
    ],
    ("storage.k8s.io", "volumeattributesclasses"): _paths("driverName"),
}
"""By group and plural."""
