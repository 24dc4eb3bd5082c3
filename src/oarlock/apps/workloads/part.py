"""What Kubernetes' workload kinds add to a control plane; nothing where their data isn't installed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from oarlock.apps.controllers.protection import AttributesClassProtection, ClaimProtection, VolumeProtection
from oarlock.apps.controllers.service_addresses import AddressUpkeep
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.kinds.coordination import ComponentStatuses
from oarlock.apps.kinds.pods.subresources import Bindings, PodHooks, hooks_of_pods, pod_subresources
from oarlock.apps.kinds.released.release import HINT, NoReleases, installed
from oarlock.apps.kinds.serving import SubresourceHooks, newest_definitions, released_resources
from oarlock.apps.workloads.addresses import GoingServices, ServiceAddresses, networks_of
from oarlock.apps.workloads.kubelets import Kubelets, KubeletTrust
from oarlock.apps.workloads.node_ports import NodePortClaims, NodePorts, port_range
from oarlock.apps.workloads.proxies import ClusterProxies
from oarlock.apps.workloads.workload_admission import (
    AccountAdmission,
    ClaimResize,
    DefaultIngressClass,
    DefaultStorageClass,
    DeviceAdminAccess,
    PriorityAdmission,
    RuntimeClassAdmission,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
    TolerationAdmission,
    TopologyLabels,
)
from oarlock.client.client import Client
from oarlock.meta.errors import AlreadyExists, NotFound
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupResource
from oarlock.registry.served import AnyHook, ProxyHook
from oarlock.schema.definition import ResourceDefinition

_CLASSES = (
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


async def create_system_objects(client: Client, cidrs: list[str]) -> None:
    """Create what is missing."""
    for name, value, description in _CLASSES:
        await _create(client, _class(name, value, description))
    cidr: Tree = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": cidrs},
    }
    if await _create(client, cidr):
        ready = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}
        await client.patch(
            "networking.k8s.io/v1/ServiceCIDR",
            "kubernetes",
            {"status": {"conditions": [{**ready, "lastTransitionTime": "1970-01-01T00:00:00Z"}]}},
            subresource="status",
        )


def _class(name: str, value: int, description: str) -> Tree:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    }


async def _create(client: Client, wanted: Tree) -> bool:
    """Create it unless it is there; whether it was created."""
    try:
        await client.get(f"{wanted['apiVersion']}/{wanted['kind']}", wanted["metadata"]["name"])
    except NotFound:
        try:
            await client.create(wanted)
        except AlreadyExists:
            return False
        return True
    return False


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
    subresources = _subresources(late, around, definitions)

    async def start(client: Client) -> None:
        await late.begin(client)
        await create_system_objects(client, [str(network) for network in networks])

    return ControlPlanePart(
        "workloads",
        serve=[
            *released_resources(definitions, subresources, reserves),
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


def _subresources(
    late: LateClient, around: PartSurroundings, definitions: Sequence[ResourceDefinition]
) -> SubresourceHooks:
    options = around.options
    trust = KubeletTrust(
        options.kubelet_certificate_authority, options.kubelet_client_certificate, options.kubelet_client_key
    )
    kubelets = Kubelets(late, trust, options.kubelet_preferred_address_types)
    proxies = ClusterProxies(late, kubelets)
    of_pods = {
        **pod_subresources(late),
        **kubelets.hooks(),
        **_users(definitions, around.pods),
        "proxy": ProxyHook("proxy", proxies.of_pod),
    }
    return {
        ("", "nodes"): {"proxy": ProxyHook("proxy", proxies.of_node)},
        ("", "pods"): of_pods,
        ("", "services"): {"proxy": ProxyHook("proxy", proxies.of_service)},
    }


def _users(definitions: Sequence[ResourceDefinition], pods: PodHooks | None) -> Mapping[str, AnyHook]:
    if pods is None:
        return {}
    (definition,) = (definition for definition in definitions if definition.group_resource == GroupResource("", "pods"))
    return hooks_of_pods(pods, definition)
