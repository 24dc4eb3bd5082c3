"""What Kubernetes' workload kinds add to a control plane; nothing where their data isn't installed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from oarlock.apps.controllers.service_addresses import AddressUpkeep
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.component_status import ComponentStatuses
from oarlock.apps.kinds.pods.hooks import PodHooks, hooks_of_pods
from oarlock.apps.kinds.pods.subresources import pod_subresources
from oarlock.apps.kinds.released.release import HINT, NoReleases, installed
from oarlock.apps.kinds.serving import newest_definitions, released_resources
from oarlock.apps.workloads.addresses import GoingServices, ServiceAddresses, networks_of
from oarlock.apps.workloads.class_admission import (
    DefaultIngressClass,
    DefaultStorageClass,
    RuntimeClassAdmission,
    TaintNodesByCondition,
)
from oarlock.apps.workloads.node_ports import NodePortClaims, NodePorts, PortRange
from oarlock.apps.workloads.pod_admission import AccountAdmission, PriorityAdmission, TolerationAdmission
from oarlock.apps.workloads.system import create_system_objects
from oarlock.client.client import Client
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupResource
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.registry.served import AnyHook
from oarlock.schema.definition import ResourceDefinition
from oarlock.server.assembly.own_work import Runnable
from oarlock.storage.backend import Backend

__all__ = ["Workloads", "workloads"]

log = logging.getLogger("oarlock.server")


@dataclass(frozen=True, slots=True)
class Workloads:
    """What is served, who is asked about writes, and what runs."""

    serve: Sequence[Any] = ()
    admission: Sequence[AdmissionPlugin] = ()
    controllers: Mapping[str, Runnable] = field(default_factory=dict)
    start: Callable[[Client], Awaitable[None]] | None = None


def workloads(
    cluster_ips: str, node_ports: PortRange, store: Callable[[], Backend], pods: PodHooks | None = None
) -> Workloads:
    """The workload kinds of the newest release that is installed. Tells it in one line if none is.

    Services have addresses of the ranges `cluster_ips`, one of each family with a comma between, and `node_ports`;
    `store` is where those are claimed. `pods` answers what a kubelet would.
    """
    if not installed():
        log.warning("only Kubernetes' control plane kinds are served: %s", HINT)
        return Workloads()
    try:
        definitions = newest_definitions()
    except NoReleases as error:
        log.warning("only Kubernetes' control plane kinds are served: %s", error)
        return Workloads()
    late = LateClient()
    networks = networks_of(cluster_ips)
    claims = NodePortClaims(store)
    going = GoingServices()
    addresses = ServiceAddresses(late, networks, NodePorts(late, claims, node_ports), going)

    of_pods = pod_subresources(late, _users(definitions, pods))

    async def start(client: Client) -> None:
        await late.begin(client)
        await create_system_objects(client, [str(one) for one in networks])

    return Workloads(
        [
            *released_resources(definitions, {("", "pods"): of_pods}),
            ComponentStatuses,
        ],
        [
            AccountAdmission(late),
            TaintNodesByCondition(),
            PriorityAdmission(late),
            TolerationAdmission(),
            DefaultStorageClass(late),
            RuntimeClassAdmission(late),
            DefaultIngressClass(late),
            addresses,
        ],
        {"service-ip-repair-controller": AddressUpkeep(claims, going)},
        start,
    )


def _users(definitions: Sequence[ResourceDefinition], pods: PodHooks | None) -> Mapping[str, AnyHook]:
    if pods is None:
        return {}
    (definition,) = (one for one in definitions if one.group_resource == GroupResource("", "pods"))
    return hooks_of_pods(pods, definition)
