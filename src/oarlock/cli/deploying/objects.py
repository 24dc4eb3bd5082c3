"""Every object of a plan, in the order in which a cluster takes them. See also: `plan`."""

from __future__ import annotations

import base64
import re

from oarlock.cli.deploying.certificates import certificate_objects, trust_of
from oarlock.cli.deploying.needs import reached
from oarlock.cli.deploying.plan import GROUP_PRIORITY, Plan
from oarlock.cli.deploying.rights import rights
from oarlock.cli.deploying.workload import PORT, workload
from oarlock.codec import yaml
from oarlock.meta.json_trees import Tree
from oarlock.net.url import parse_database_url
from oarlock.server.options.file import API_VERSION, KIND

__all__ = ["objects_of"]


_PORTS = {"postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "etcd": 2379}


def objects_of(plan: Plan, now: float) -> list[Tree]:
    """Every object. `now` is in seconds since the epoch, for certificates."""
    certificates = certificate_objects(plan, now)
    return [
        _namespace(plan),
        *rights(plan),
        *([] if plan.volume else [_store(plan)]),
        *certificates,
        _service(plan),
        workload(plan),
        *([_disruption_budget(plan)] if plan.replicas > 1 else []),
        _network_policy(plan),
        *_api_services(plan, certificates),
    ]


def _namespace(plan: Plan) -> Tree:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace, "labels": labels}}


def _metadata(plan: Plan, name: str = "") -> Tree:
    return {"name": name or plan.name, "namespace": plan.namespace, "labels": plan.labels}


def _store(plan: Plan) -> Tree:
    """The URL of the store, as a configuration file: it may have a password, which arguments would show."""
    config = yaml.encode({"apiVersion": API_VERSION, "kind": KIND, "storage": plan.storage})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(plan, plan.store_secret),
        "type": "Opaque",
        "data": {"config.yaml": base64.b64encode(config).decode()},
    }


def _service(plan: Plan) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(plan),
        "spec": {"selector": plan.labels, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    }


def _disruption_budget(plan: Plan) -> Tree:
    spec = {"minAvailable": 1, "selector": {"matchLabels": plan.labels}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(plan), "spec": spec}


def _network_policy(plan: Plan) -> Tree:
    """In: the port, from anywhere, as only a cluster knows its API server. Out: names, the cluster, the store."""
    out: list[Tree] = [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]},
    ]
    if not plan.volume:
        ports = _store_ports(plan.storage)
        if ports:
            out.append({"ports": [{"port": port, "protocol": "TCP"} for port in ports]})
    for block, port in map(reached, plan.options.egress):
        to = {"to": [{"ipBlock": {"cidr": block}}]} if block else {}
        out.append({**to, "ports": [{"port": port, "protocol": "TCP"}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(plan),
        "spec": {
            "podSelector": {"matchLabels": plan.labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": out,
        },
    }


def _store_ports(url: str) -> list[int]:
    """The ports of the store's hosts, which may be several."""
    store = parse_database_url(url)
    usual = _PORTS.get(store.scheme.partition("+")[0])
    named = (re.search(r":([0-9]+)$", host) for host in store.host.split(","))
    return sorted({port for match in named if (port := int(match[1]) if match else usual)})


def _api_services(plan: Plan, certificates: list[Tree]) -> list[Tree]:
    annotations, trust = trust_of(plan, certificates)
    made = []
    for registration in plan.registrations:
        metadata: Tree = {"name": registration.name, "labels": plan.labels}
        if annotations:
            metadata["annotations"] = annotations
        spec = {
            "group": registration.group,
            "version": registration.version,
            "service": {"namespace": plan.namespace, "name": plan.name, "port": 443},
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": registration.priority,
            **trust,
        }
        made.append(
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec}
        )
    return made
