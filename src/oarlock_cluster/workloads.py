"""`workloads_part`: kube-controller-manager's controllers of workloads, as a part of a control plane.

server = ControlPlane(parts=[workloads_part])
"""

from __future__ import annotations

from collections.abc import Mapping

from oarlock.extend import ControlPlanePart, PartSurroundings, Runnable
from oarlock_cluster.controllers.autoscaling import Autoscalers
from oarlock_cluster.controllers.cron_job import CronJobs
from oarlock_cluster.controllers.daemon_set import DaemonSets
from oarlock_cluster.controllers.deployment import Deployments
from oarlock_cluster.controllers.disruption import Budgets
from oarlock_cluster.controllers.endpoint_slice import EndpointSlices, MirroredSlices
from oarlock_cluster.controllers.endpoints import EndpointsOfServices
from oarlock_cluster.controllers.job import FinishedJobs, Jobs
from oarlock_cluster.controllers.node_lifecycle import GRACE_S, NodeLifecycle
from oarlock_cluster.controllers.persistent_volumes import VolumeBinder
from oarlock_cluster.controllers.pod_gc import PodCollector
from oarlock_cluster.controllers.replica_set import ReplicaSets, ReplicationControllers
from oarlock_cluster.controllers.resource_claims import ResourceClaims
from oarlock_cluster.controllers.stateful_set import StatefulSets
from oarlock_cluster.controllers.taint_eviction import TaintEviction
from oarlock_cluster.controllers.ttl import NodeTTL

__all__ = ["workload_controllers", "workloads_part"]


def workload_controllers(grace_s: float = GRACE_S) -> Mapping[str, Runnable]:
    """New controllers, by the names that kube-controller-manager has for them.

    `grace_s` is how long a node may be silent before it counts as lost.
    """
    return {
        "cronjob-controller": CronJobs(),
        "daemonset-controller": DaemonSets(),
        "deployment-controller": Deployments(),
        "disruption-controller": Budgets(),
        "endpoints-controller": EndpointsOfServices(),
        "endpointslice-controller": EndpointSlices(),
        "endpointslice-mirroring-controller": MirroredSlices(),
        "horizontal-pod-autoscaler-controller": Autoscalers(),
        "job-controller": Jobs(),
        "node-lifecycle-controller": NodeLifecycle(grace_s=grace_s),
        "persistentvolume-binder-controller": VolumeBinder(),
        "pod-garbage-collector-controller": PodCollector(),
        "replicaset-controller": ReplicaSets(),
        "replicationcontroller-controller": ReplicationControllers(),
        "resourceclaim-controller": ResourceClaims(),
        "statefulset-controller": StatefulSets(),
        "taint-eviction-controller": TaintEviction(),
        "ttl-after-finished-controller": FinishedJobs(),
        "ttl-controller": NodeTTL(),
    }


def workloads_part(around: PartSurroundings, grace_s: float = GRACE_S) -> ControlPlanePart:
    """All controllers of workloads; ``--controllers`` says which of them run."""
    controllers = workload_controllers(grace_s)
    return ControlPlanePart("workload-controllers", controllers=controllers, managed=tuple(controllers))
