"""Endpoints: the addresses of a Service's pods in one object. `subsets_of` says which they are.

Source: k8s.io/kubernetes ``pkg/controller/endpoint``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import AGAIN, namespace_ends
from oarlock_cluster.controllers.service_pods import (
    HEADLESS_LABEL,
    ServicePods,
    addresses_of,
    has_address,
    is_headless,
    pod_matters,
    port_of,
    with_trigger,
)
from oarlock_cluster.shapes import is_ready, labels_of
from oarlock_cluster.waiting import paced

__all__ = ["EndpointsOfServices", "Port", "subsets_of"]

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
LEADER = "control-plane.alpha.kubernetes.io/leader"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MOST = 1000

Port = tuple[str, int, str, str]
"""Name, number, protocol and application protocol of a port."""


def subsets_of(service: ReadOnlyTree, pods: Iterable[ReadOnlyTree]) -> list[Tree]:
    """The subsets: ports with the same addresses are together, those that aren't ready apart."""
    return _together(map(partial(_place_of, service), pods))


_Addressed = tuple[tuple[Port, ...], str, Tree]
"""The ports of an address, whether it is ready, and the address."""


def _place_of(service: ReadOnlyTree, pod: ReadOnlyTree) -> _Addressed | None:
    """Where the address of a pod belongs; None if it is in no subset."""
    spec = service["spec"]
    anyway = bool(spec.get("publishNotReadyAddresses"))
    address = _address(service, pod) if has_address(pod, terminating=anyway) else None
    if address is None:
        return None
    ports = tuple(sorted(_ports(service, pod)))
    if not ports and (spec.get("ports") or not is_headless(service)):
        return None
    return ports, "addresses" if anyway or is_ready(pod) else "notReadyAddresses", address


def _together(places: Iterable[_Addressed | None]) -> list[Tree]:
    by_port: dict[Port | None, dict[tuple[str, str], Tree]] = {}
    for place in places:
        if place is not None:
            ports, kind, address = place
            for port in ports or (None,):
                by_port.setdefault(port, {})[kind, address["targetRef"]["uid"]] = address
    groups: dict[frozenset[tuple[str, str]], list[Port]] = {}
    for port, addresses in by_port.items():
        groups.setdefault(frozenset(addresses), []).extend([port] if port is not None else [])
    subsets = []
    for keys, together in sorted(groups.items(), key=lambda group: sorted(group[1])):
        of_port = by_port[together[0] if together else None]
        subset: Tree = {}
        for kind, uid in sorted(keys, key=lambda key: of_port[key]["ip"]):
            subset.setdefault(kind, []).append(of_port[kind, uid])
        if together:
            subset["ports"] = [_shown(port) for port in sorted(together)]
        subsets.append(subset)
    return subsets


def _address(service: ReadOnlyTree, pod: ReadOnlyTree) -> Tree | None:
    family = (service["spec"].get("ipFamilies") or ["IPv4"])[0]
    addresses = addresses_of(pod, 6 if family == "IPv6" else 4)
    if not addresses:
        return None
    metadata, spec = pod["metadata"], pod["spec"]
    names = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    address: Tree = {"ip": addresses[0], "targetRef": {"kind": "Pod", **names}}
    if spec.get("nodeName"):
        address["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        address["hostname"] = spec["hostname"]
    return address


def _ports(service: ReadOnlyTree, pod: ReadOnlyTree) -> Iterable[Port]:
    for port in service["spec"].get("ports") or ():
        number = port_of(pod, port)
        if number is not None:
            yield port.get("name", ""), number, port.get("protocol", "TCP"), port.get("appProtocol", "")


def _shown(port: Port) -> Tree:
    name, number, protocol, application = port
    shown: Tree = {"port": number, "protocol": protocol}
    return {**({"name": name} if name else {}), **shown, **({"appProtocol": application} if application else {})}


def _truncated(subsets: list[Tree]) -> bool:
    """Leave out addresses above the limit, those that aren't ready first. Returns whether there were too many."""
    count = sum(len(found) for subset in subsets for kind, found in subset.items() if kind != "ports")
    left = MOST
    for kind in ("addresses", "notReadyAddresses"):
        for subset in subsets:
            if kind in subset:
                subset[kind] = subset[kind][:left]
                left -= len(subset[kind])
                if not subset[kind]:
                    del subset[kind]
    return count > MOST


def _on_deletion(old: Any, new: Any) -> bool:
    return new is None


class EndpointsOfServices(
    ServicePods[dict[str, Any]],
    of="v1/Service",
    name="endpoint-controller",
    concurrency=5,
    resync_s=0,
    watches=[
        Watched("v1/Pod", to="_of_pod", when=pod_matters),
        Watched("v1/Endpoints", to="_of_endpoints", when=_on_deletion),
    ],
):
    """Brings Endpoints in line with Services and their pods."""

    def _of_endpoints(self, endpoints: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        """When it is deleted, and at the start: what no Service is behind goes."""
        if LEADER not in (endpoints["metadata"].get("annotations") or {}):
            yield endpoints["metadata"]["namespace"], endpoints["metadata"]["name"]

    async def reconcile(self, key: ObjectKey) -> Result | None:
        service = self.informer.get(key.name, key.namespace)
        current = self.informers["v1/Endpoints"].get(key.name, key.namespace)
        if service is None:
            self._times.forget(key)
            self._forget(key)
            if current is not None:
                try:
                    await self.client.delete("v1/Endpoints", key.name, namespace=key.namespace)
                except errors.NotFound:
                    pass
            return None
        if service["spec"].get("type") == "ExternalName" or service["spec"].get("selector") is None:
            return None
        pause = self._pause(key, service)
        if pause is not None:
            return pause
        pods = await self._pods_of(service)
        trigger = await self._trigger(service, pods)
        subsets = _together(await paced(map(partial(_place_of, service), pods)))
        over = _truncated(subsets)
        labels = {name: value for name, value in labels_of(service).items() if name != HEADLESS_LABEL}
        labels |= {MANAGED_BY: "endpoint-controller", **({HEADLESS_LABEL: ""} if is_headless(service) else {})}
        if current is not None and (current.get("subsets") or []) == subsets and labels_of(current) == labels:
            return None
        before: Mapping[str, Any] = current or {"metadata": {"name": key.name, "namespace": key.namespace}}
        annotations = with_trigger(before["metadata"].get("annotations"), trigger)
        annotations.pop(OVER_CAPACITY, None)
        metadata = {**before["metadata"], "labels": labels, "annotations": annotations}
        if over:
            annotations[OVER_CAPACITY] = "truncated"
        tree = {**before, "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        return await self._write(service, tree, current is None)

    async def _write(self, service: ReadOnlyTree, tree: Tree, new: bool) -> Result | None:
        try:
            await (self.client.create(tree) if new else self.client.update(tree))
        except (errors.Conflict, errors.NotFound):
            return AGAIN
        except errors.StatusError as error:
            if namespace_ends(error):
                return None
            name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
            reason, text = "FailedToUpdateEndpoint", f"Failed to update endpoint {name}: {error.message}"
            if new:
                reason, text = (
                    "FailedToCreateEndpoint",
                    f"Failed to create endpoint for service {name}: {error.message}",
                )
            self.events.warning(tree, reason, text, action="")
            return AGAIN
        return None
