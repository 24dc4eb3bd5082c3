"""`ServiceAddresses`: gives services their cluster IPs and node ports, as they are created and changed.

An address belongs to whom the IPAddress of its name says; creating that is what makes it somebody's, also when several
servers share a store. A write that is refused later gives it back; what a server that died left behind, and addresses
of services that are gone, ``controllers.service_addresses`` takes back.
Source: Kubernetes' registry of services and its allocators. See also: `node_ports`; `service_checks`.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from oarlock.apps.kinds.common.late_client import LateClient
from oarlock.apps.workloads.node_ports import NodePorts
from oarlock.client.client import Client
from oarlock.client.clock import Flag
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import AlreadyExists, InvalidObject, NotFound
from oarlock.meta.fielderrors import FieldError, Invalid
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupKind
from oarlock.policy.admission.chain import ValidatingPlugin
from oarlock.registry.conversions import copy_tree
from oarlock.registry.served import Claims
from oarlock.registry.workers import Offload
from oarlock.registry.write.write_request import NOT_AT_HAND, AdmissionRequest, Hub

ADDRESS = "networking.k8s.io/v1/IPAddress"
SERVICE = "v1/Service"
MANAGER = "ipallocator.k8s.io"
GUESSES = 32
"""So many addresses are tried at random before all are looked through."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_FAMILIES = {4: "IPv4", 6: "IPv6"}
_OF_ADDRESSES = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_DUAL = ("PreferDualStack", "RequireDualStack")


class GoingServices(ValidatingPlugin):
    """Services that are being deleted, for the controller of service addresses: admission tells of them.

    An informer may never have seen one that didn't last.
    """

    waits = False
    only_kinds = ("Service",)
    only_operations = ("DELETE",)

    def handles(self, request: AdmissionRequest) -> bool:
        target = request.ctx.target
        return (target.group, target.resource) == ("", "services")

    async def validate(
        self, request: AdmissionRequest, new: Tree | None, old: Tree | None, offload: Offload, hub: Hub = NOT_AT_HAND
    ) -> None:
        if old is not None:
            self.add(old)

    def __init__(self) -> None:
        self.some = Flag()
        self._services: list[Tree] = []

    def add(self, service: Tree) -> None:
        """Of the service is kept what it has of what is shared."""
        metadata, spec = service["metadata"], service.get("spec") or {}
        place = {"namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}
        ports = [{"nodePort": port["nodePort"]} for port in spec.get("ports") or () if port.get("nodePort")]
        self._services.append({"metadata": place, "spec": {"clusterIPs": addresses_of(service), "ports": ports}})
        self.some.set()

    def take(self) -> list[Tree]:
        """The claims that were added since the last call."""
        self.some.clear()
        taken, self._services = self._services, []
        return taken


@dataclass(slots=True)
class ServiceAddresses:
    """What services take. `networks` are the ranges of addresses, one of each family."""

    late: LateClient
    networks: Sequence[Network]
    ports: NodePorts

    async def reserve(self, new: Tree, old: Tree | None, claims: Claims) -> Tree:
        """The service with its addresses and node ports. Raises InvalidObject, ServiceUnavailable."""
        if not isinstance(new.get("spec"), dict):
            return new
        made = copy_tree(new)
        spec, before = made["spec"], (old or {}).get("spec") or {}
        _carry_over(spec, before)
        if spec.get("type") == "ExternalName":
            if before and before.get("type") != "ExternalName":
                _without_addresses(spec)
            return made
        if spec.get("clusterIP") == "None":
            self._headless(spec)
        else:
            await self._with_addresses(claims, made, before)
        await self.ports.complete(claims, made, before)
        return made

    def _headless(self, spec: Tree) -> None:
        spec["clusterIPs"] = ["None"]
        own = [_FAMILIES[network.version] for network in self.networks]
        if not spec.get("selector"):
            spec.setdefault("ipFamilyPolicy", "RequireDualStack")
            spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
            return
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", own if spec["ipFamilyPolicy"] in _DUAL else own[:1])

    async def _with_addresses(self, claims: Claims, made: Tree, before: Tree) -> None:
        spec = made["spec"]
        asked = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
        has = before.get("clusterIPs") or []
        if has and asked[:1] != has[:1] and before.get("type") != "ExternalName":
            spec["clusterIPs"] = asked
            return  # refused by its check
        if _is_wrong(spec) or (has and _other_family(spec, has[0])):
            return  # as well
        self._check_families(made, before)
        networks = self._wanted(spec, asked)
        addresses: list[str] = []
        for i, network in enumerate(networks):
            given = asked[i] if i < len(asked) else ""
            if given and given in has:
                addresses.append(given)
            elif given:
                addresses.append(await self._take(claims, made, given, network))
            else:
                addresses.append(await self._find(claims, made, network))
        spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses
        spec["ipFamilies"] = [_FAMILIES[network.version] for network in networks]
        spec.setdefault("ipFamilyPolicy", "SingleStack" if len(addresses) == 1 else "RequireDualStack")

    def _check_families(self, made: Tree, before: Tree) -> None:
        """Check that this cluster has what a service asks for. Raises InvalidObject."""
        spec = made["spec"]
        families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy") or "SingleStack"
        if before and all(spec.get(name) == before.get(name) for name in ("ipFamilies", "ipFamilyPolicy", "type")):
            return
        own = {_FAMILIES[network.version] for network in self.networks}
        errors: list[FieldError] = [
            Invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster")
            for i, family in enumerate(families)
            if family not in own
        ]
        if policy == "RequireDualStack" and len(own) == 1:
            why = "this cluster is not configured for dual-stack services"
            errors = [Invalid("spec.ipFamilyPolicy", policy, why)]
        elif len(families) > 1 and policy == "SingleStack":
            why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            errors = [Invalid("spec.ipFamilyPolicy", policy, why)]
        if errors:
            raise InvalidObject(GroupKind("", "Service"), made["metadata"].get("name", ""), errors)

    def _wanted(self, spec: Tree, asked: Sequence[str]) -> list[Network]:
        """The ranges that a service has an address of, the first one first."""
        families = spec.get("ipFamilies") or [_FAMILIES[_version(address)] for address in asked if _version(address)]
        by_family = {_FAMILIES[network.version]: network for network in self.networks}
        wanted = [by_family[family] for family in families if family in by_family] or [self.networks[0]]
        if spec.get("ipFamilyPolicy") in _DUAL:
            wanted += [network for network in self.networks if network not in wanted]
            return wanted[:2]
        return wanted[:2] if len(asked) > 1 else wanted[:1]

    async def _take(self, claims: Claims, made: Tree, address: str, network: Network) -> str:
        """Give the service the address that it asks for. Raises InvalidObject."""
        try:
            wanted = ipaddress.ip_address(address)
        except ValueError:
            return address  # told by its check
        why = ""
        if wanted not in network or wanted == network.network_address:
            why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {network}"
        elif not claims.dry_run and not await self._claim(claims, made, str(wanted)):
            why = "provided IP is already allocated"
        if why:
            raise _refused(made, Invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}"))
        return str(wanted)

    async def _find(self, claims: Claims, made: Tree, network: Network) -> str:
        """Allocate a free address for the service. Raises InvalidObject when there is none."""
        last = network.num_addresses - (2 if network.version == 4 else 1)
        for _ in range(GUESSES):
            address = str(network[random.randint(min(2, last), max(last, 1))])
            if claims.dry_run or await self._claim(claims, made, address):
                return address
        taken = {address["metadata"]["name"] async for address in self.late.client.list(ADDRESS)}
        for address in _free(network, taken):
            if await self._claim(claims, made, address):
                return address
        raise _refused(made, Invalid("spec.clusterIPs", None, "failed to allocate a serviceIP: range is full"))

    async def _claim(self, claims: Claims, made: Tree, address: str) -> bool:
        """Make an address the service's; False if it is another service's.

        A deleted service of the same name may have had it; the address is then this one's.
        """
        metadata, client = made["metadata"], self.late.client
        wanted = address_object(address, metadata.get("namespace", ""), metadata.get("name", ""))
        try:
            created = await client.create(wanted)
        except AlreadyExists:
            found = await client.get(ADDRESS, address)
            return bool(found["spec"] == wanted["spec"])
        claims.add(partial(release_address, client, address, created["metadata"]["uid"]))
        return True


async def release_address(client: Client, address: str, uid: str = "") -> None:
    """Take an address back, with `uid` only that very IPAddress, unless a service has it that is stored."""
    try:
        found = await client.get(ADDRESS, address)
        parent = (found.get("spec") or {}).get("parentRef") or {}
        if uid in ("", found["metadata"]["uid"]) and address not in await _stored_addresses(client, parent):
            await client.delete(ADDRESS, address, uid=found["metadata"]["uid"])
    except NotFound:
        pass


async def _stored_addresses(client: Client, parent: Tree) -> list[str]:
    """The addresses of the service that an IPAddress refers to."""
    try:
        return addresses_of(await client.get(SERVICE, parent.get("name", ""), namespace=parent.get("namespace", "")))
    except NotFound:
        return []


def networks_of(text: str) -> list[Network]:
    """The ranges of ``--service-cluster-ip-range``. Raises ValueError."""
    return [ipaddress.ip_network(network.strip()) for network in text.split(",")]


def address_object(address: str, namespace: str, name: str) -> Tree:
    """The IPAddress that says that an address belongs to a service."""
    family = _FAMILIES[ipaddress.ip_address(address).version]
    labels = {"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": MANAGER}
    parent = {"resource": "services", "namespace": namespace, "name": name}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": address, "labels": labels},
        "spec": {"parentRef": parent},
    }


def addresses_of(service: Tree) -> list[str]:
    """The cluster IPs of a service."""
    spec = service.get("spec") or {}
    return [address for address in spec.get("clusterIPs") or [spec.get("clusterIP")] if address and address != "None"]


def _carry_over(spec: Tree, before: Tree) -> None:
    """What a PUT leaves out and the server has chosen stays."""
    if not before or "ExternalName" in (spec.get("type"), before.get("type")):
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        for name in _OF_ADDRESSES:
            if name in before and (name not in spec or name in ("clusterIP", "clusterIPs")):
                spec[name] = before[name]
    elif spec.get("clusterIP") and spec.get("clusterIPs") in (None, before.get("clusterIPs")):
        same = spec["clusterIP"] == before.get("clusterIP")
        spec["clusterIPs"] = before.get("clusterIPs") if same else [spec["clusterIP"]]
    known: dict[tuple[Any, Any], Any] = {
        (port.get("port"), port.get("protocol")): port.get("nodePort") for port in before.get("ports") or ()
    }
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        taken = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = known.get((port.get("port"), port.get("protocol")))
            if not port.get("nodePort") and number and number not in taken:
                port["nodePort"] = number


def _other_family(spec: Tree, address: str) -> bool:
    """Whether a service says that the address it has is of another family."""
    families, version = spec.get("ipFamilies"), _version(address)
    return bool(families and version and families[0] != _FAMILIES[version])


def _without_addresses(spec: Tree) -> None:
    for name in (*_OF_ADDRESSES, "internalTrafficPolicy", "externalTrafficPolicy"):
        spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _free(network: Network, taken: set[str]) -> Iterator[str]:
    """The addresses that aren't taken; of a large range only the first ones."""
    last = network.num_addresses - (2 if network.version == 4 else 1)
    for number in range(1, min(last, len(taken) + 2) + 1):
        address = str(network[number])
        if address not in taken:
            yield address


def _version(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0


def _is_wrong(spec: Tree) -> bool:
    """Whether what a service asks for makes no sense, whatever addresses there are: its rules say why."""
    families, asked = spec.get("ipFamilies") or [], spec.get("clusterIPs") or []
    unknown = any(family not in _FAMILIES.values() for family in families)
    return unknown or len(set(families)) < len(families) or (bool(asked) and asked[0] != spec.get("clusterIP"))


def _refused(made: Tree, error: FieldError) -> InvalidObject:
    return InvalidObject(GroupKind("", "Service"), made["metadata"].get("name", ""), [error])
