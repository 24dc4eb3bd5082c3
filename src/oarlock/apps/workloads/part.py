"""What Kubernetes' workload kinds add to a control plane; nothing where their data isn't installed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from oarlock.apps.controllers.protection import AttributesClassProtection, ClaimProtection, VolumeProtection
from oarlock.apps.controllers.service_addresses import AddressUpkeep
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.component_status import ComponentStatuses
from oarlock.apps.kinds.pods.bindings import Bindings
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
from oarlock.apps.workloads.device_admission import DeviceAdminAccess
from oarlock.apps.workloads.node_ports import NodePortClaims, NodePorts, port_range
from oarlock.apps.workloads.pod_admission import (
    AccountAdmission,
    PriorityAdmission,
    TolerationAdmission,
    TopologyLabels,
)
from oarlock.apps.workloads.proxies import ClusterProxies
from oarlock.apps.workloads.storage_admission import ClaimResize, StorageObjectInUseProtection
from oarlock.apps.workloads.system import create_system_objects
from oarlock.client.client import Client
from oarlock.meta.kinds import GroupResource
from oarlock.registry.served import AnyHook, ProxyHook
from oarlock.schema.definition import ResourceDefinition

__all__ = ["workloads_part"]

log = logging.getLogger("oarlock.server")


def workloads_part(around: PartSurroundings) -> ControlPlanePart:
    """The workload kinds of the newest release that is installed. Tells it in one line if none is.

    Services have addresses and node ports of the ranges in the options; the latter are claimed in the store.
    """
    nothing = ControlPlanePart("workloads")
    if not installed():
        log.warning("only Kubernetes' control plane kinds are served: %s", HINT)
        return nothing
    try:
        definitions = newest_definitions()
    except NoReleases as error:
        log.warning("only Kubernetes' control plane kinds are served: %s", error)
        return nothing
    late = LateClient()
    options = around.options
    networks, ports = networks_of(options.service_cluster_ip_range), port_range(options.service_node_port_range)
    claims = NodePortClaims(around.store)
    going = GoingServices()
    addresses = ServiceAddresses(late, networks, NodePorts(late, claims, ports))

    reserves = {("", "services"): addresses.reserve}
    proxies = ClusterProxies(late)
    of_pods = {
        **pod_subresources(late, _users(definitions, around.pods)),
        "proxy": ProxyHook("proxy", proxies.of_pod),
    }
    of_services = {"proxy": ProxyHook("proxy", proxies.of_service)}

    async def start(client: Client) -> None:
        await late.begin(client)
        await create_system_objects(client, [str(network) for network in networks])

    return ControlPlanePart(
        "workloads",
        serve=[
            *released_resources(definitions, {("", "pods"): of_pods, ("", "services"): of_services}, reserves),
            ComponentStatuses,
            Bindings(late),
        ],
        admission=[
            AccountAdmission(late),
            TaintNodesByCondition(),
            PriorityAdmission(late),
            TolerationAdmission(),
            DefaultStorageClass(late),
            StorageObjectInUseProtection(),
            ClaimResize(late),
            RuntimeClassAdmission(late),
            DefaultIngressClass(late),
            DeviceAdminAccess(late),
            TopologyLabels(late),
            going,
        ],
        controllers={
            "service-ip-repair-controller": AddressUpkeep(claims, going),
            "persistentvolumeclaim-protection-controller": ClaimProtection(),
            "persistentvolume-protection-controller": VolumeProtection(),
            "volumeattributesclass-protection-controller": AttributesClassProtection(),
        },
        everywhere=("service-ip-repair-controller",),
        start=start,
    )


def _users(definitions: Sequence[ResourceDefinition], pods: PodHooks | None) -> Mapping[str, AnyHook]:
    if pods is None:
        return {}
    (definition,) = (definition for definition in definitions if definition.group_resource == GroupResource("", "pods"))
    return hooks_of_pods(pods, definition)
