"""`workloads_part`: kube-controller-manager's controllers of workloads, as a part of a control plane.

server = ControlPlane(parts=[workloads_part])
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.extend import ControlPlanePart, PartSurroundings, Runnable
from oarlock_cluster.controllers.deployment import Deployments
from oarlock_cluster.controllers.endpoint_slice import EndpointSlices, MirroredSlices
from oarlock_cluster.controllers.endpoints import EndpointsOfServices
from oarlock_cluster.controllers.node_lifecycle import NodeLifecycle
from oarlock_cluster.controllers.pod_gc import PodCollector
from oarlock_cluster.controllers.replica_set import ReplicaSets
from oarlock_cluster.controllers.taint_eviction import TaintEviction
from oarlock_cluster.controllers.ttl import NodeTTL

__all__ = ["workload_controllers", "workloads_part"]


def workload_controllers() -> Mapping[str, Runnable]:
    """New controllers, by the names that kube-controller-manager has for them."""
    return {
        "deployment-controller": Deployments(),
        "endpoints-controller": EndpointsOfServices(),
        "endpointslice-controller": EndpointSlices(),
        "endpointslice-mirroring-controller": MirroredSlices(),
        "node-lifecycle-controller": NodeLifecycle(),
        "pod-garbage-collector-controller": PodCollector(),
        "replicaset-controller": ReplicaSets(),
        "taint-eviction-controller": TaintEviction(),
        "ttl-controller": NodeTTL(),
    }


def workloads_part(around: PartSurroundings) -> ControlPlanePart:
    """All controllers of workloads; ``--controllers`` says which of them run."""
    controllers = workload_controllers()
    return ControlPlanePart("workload-controllers", controllers=controllers, managed=tuple(controllers))
