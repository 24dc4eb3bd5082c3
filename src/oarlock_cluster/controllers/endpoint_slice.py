"""EndpointSlices: the addresses of a Service's pods, at most a hundred in each. `placed` says what is in which.

`EndpointSlices` makes them of Services and pods, `MirroredSlices` of Endpoints that somebody else wrote.
Source: k8s.io/endpointslice and k8s.io/kubernetes ``pkg/controller/endpointslicemirroring``, in behaviour, without
topology.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree
from oarlock_cluster.controllers.acting import AGAIN, TreeController, namespace_ends
from oarlock_cluster.controllers.endpoints import LEADER, Port
from oarlock_cluster.controllers.service_pods import (
    HEADLESS_LABEL,
    ServicePods,
    addresses_of,
    has_address,
    is_headless,
    nothing,
    pod_matters,
    port_of,
    with_trigger,
)
from oarlock_cluster.shapes import controller_reference, is_controlled_by, is_ready, is_terminating, labels_of
from oarlock_cluster.waiting import paced

__all__ = ["EndpointSlices", "MirroredSlices", "SliceChanges", "endpoints_of", "placed", "placing"]

KIND = "discovery.k8s.io/v1/EndpointSlice"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"
MIRRORING = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MOST = 100
MOST_MIRRORED = 1000

Group = tuple[str, tuple[Port, ...]]
"""What is in one slice is alike in address type and ports."""

Metadata = Callable[[ReadOnlyTree | None], Tree]
"""The labels and annotations of a slice, given as it is now; None for a new one."""


@dataclass
class SliceChanges:
    """Slices to write: `create` have no name yet, `update` have new contents, `delete` go."""

    create: list[Tree] = field(default_factory=list)
    update: list[Tree] = field(default_factory=list)
    delete: list[ReadOnlyTree] = field(default_factory=list)


def _group_of(slice: ReadOnlyTree) -> Group:
    ports = slice.get("ports") or ()
    found = [(p.get("name", ""), p.get("port", 0), p.get("protocol", "TCP"), p.get("appProtocol", "")) for p in ports]
    return slice["addressType"], tuple(sorted(found))


def _identity(endpoint: ReadOnlyTree) -> tuple[Any, ...]:
    return tuple(endpoint["addresses"]), endpoint.get("hostname"), (endpoint.get("targetRef") or {}).get("uid")


def placed(
    wanted: Mapping[Group, Sequence[Tree]],
    existing: Sequence[ReadOnlyTree],
    labels: Mapping[str, str],
    most: int = MOST,
) -> SliceChanges:
    """Puts endpoints into slices with as few writes as possible: each stays in the slice that it is in."""
    slices = SliceChanges()
    for _ in placing(slices, wanted, existing, labels, most):
        pass
    return slices


def placing(
    slices: SliceChanges,
    wanted: Mapping[Group, Sequence[Tree]],
    existing: Sequence[ReadOnlyTree],
    labels: Mapping[str, str],
    most: int = MOST,
) -> Iterator[None]:
    """The same in steps of a slice each."""
    by_group: dict[Group, list[ReadOnlyTree]] = {}
    for slice in existing:
        by_group.setdefault(_group_of(slice), []).append(slice)
    for group in by_group.keys() - wanted.keys():
        slices.delete += by_group[group]
    for group, endpoints in wanted.items():
        yield from _place(slices, group, endpoints, by_group.get(group, []), labels, most)


def _place(
    slices: SliceChanges,
    group: Group,
    endpoints: Sequence[Tree],
    existing: Sequence[ReadOnlyTree],
    labels: Mapping[str, str],
    most: int,
) -> Iterator[None]:
    left = {_identity(endpoint): endpoint for endpoint in endpoints}
    same: list[tuple[ReadOnlyTree, list[Tree]]] = []
    named: list[tuple[ReadOnlyTree, list[Tree]]] = []
    for slice in existing:
        before = slice.get("endpoints") or []
        kept = [left.pop(name) for name in map(_identity, before) if name in left]
        if before and not kept:
            slices.delete.append(slice)
        elif kept != before or labels_of(slice) != labels:
            named.append((slice, kept))
        else:
            same.append((slice, kept))
        yield
    rest = list(left.values())
    for content in sorted((content for _, content in named), key=len, reverse=True):
        room = max(0, most - len(content))
        content += rest[:room]
        rest = rest[room:]
    while rest:
        fitting = [pair for pair in same if len(rest) < most and len(pair[1]) + len(rest) <= most]
        if fitting:
            slice, content = max(fitting, key=lambda pair: len(pair[1]))
            named.append((slice, [*content, *rest]))
            break
        slices.create.append(_new(group, rest[:most]))
        rest = rest[most:]
    for slice, content in named:
        slices.update.append({**slice, "endpoints": content})


def _new(group: Group, endpoints: list[Tree]) -> Tree:
    kind, ports = group
    shown = [
        {"name": name, "port": number, "protocol": protocol, **({"appProtocol": app} if app else {})}
        for name, number, protocol, app in ports
    ]
    return {"addressType": kind, "ports": shown or None, "endpoints": endpoints or None}


def endpoints_of(
    service: ReadOnlyTree, pods: Iterable[ReadOnlyTree], nodes: Mapping[str, ReadOnlyTree], kind: str
) -> dict[Group, list[Tree]]:
    """The endpoints of a Service for one address type. Pods on nodes that aren't in `nodes` are left out."""
    return _grouped(_of_pod(service, nodes, kind, pod) for pod in pods)


def _of_pod(
    service: ReadOnlyTree, nodes: Mapping[str, ReadOnlyTree], kind: str, pod: ReadOnlyTree
) -> tuple[Group, Tree | None] | None:
    """The group of a pod's endpoint, and the endpoint if it has an address."""
    spec = service["spec"]
    if not has_address(pod, terminating=True):
        return None
    ports = [
        (port.get("name", ""), number, port.get("protocol", "TCP"), port.get("appProtocol", ""))
        for port in spec.get("ports") or ()
        if (number := port_of(pod, port)) is not None
    ]
    node = nodes.get(pod["spec"].get("nodeName", ""))
    addresses = addresses_of(pod, 6 if kind == "IPv6" else 4)
    there = addresses and (node is not None or bool(spec.get("publishNotReadyAddresses")))
    return (kind, tuple(sorted(ports))), _endpoint(service, pod, node, addresses) if there else None


def _grouped(endpoints: Iterable[tuple[Group, Tree | None] | None]) -> dict[Group, list[Tree]]:
    found = dict[Group, list[Tree]]()
    for each in endpoints:
        if each is not None:
            found.setdefault(each[0], []).extend([each[1]] if each[1] is not None else [])
    return found


def _endpoint(service: ReadOnlyTree, pod: ReadOnlyTree, node: ReadOnlyTree | None, addresses: list[str]) -> Tree:
    metadata, spec = pod["metadata"], pod["spec"]
    serving, terminating = is_ready(pod), is_terminating(pod)
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not terminating)
    names = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    endpoint: Tree = {
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", **names},
    }
    zone = labels_of(node or {}).get("topology.kubernetes.io/zone")
    if spec.get("nodeName"):
        endpoint["nodeName"] = spec["nodeName"]
    if zone:
        endpoint["zone"] = zone
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    return endpoint


async def _write(
    controller: TreeController[Any], owner: ReadOnlyTree, slices: SliceChanges, meta: Metadata
) -> Result | None:
    """Write slices of `owner` with the labels and annotations of `meta`. New ones take the place of those that go."""
    client, namespace = controller.client, owner["metadata"]["namespace"]
    for new in list(slices.create):
        old = next(
            (endpoint_slice for endpoint_slice in slices.delete if endpoint_slice["addressType"] == new["addressType"]),
            None,
        )
        if old is not None:
            slices.create.remove(new)
            slices.delete.remove(old)
            slices.update.append({**old, **new})
    try:
        for slice in slices.create if not is_terminating(owner) else ():
            metadata = {
                "generateName": f"{owner['metadata']['name']}-",
                "namespace": namespace,
                "ownerReferences": [controller_reference(owner)],
                **meta(None),
            }
            await client.create(
                {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **slice, "metadata": metadata}
            )
        for slice in slices.update:
            await client.update({**slice, "metadata": {**slice["metadata"], **meta(slice)}})
        for endpoint_slice in slices.delete:
            await client.delete(KIND, endpoint_slice["metadata"]["name"], namespace=namespace)
    except (errors.Conflict, errors.NotFound):
        return AGAIN
    except errors.StatusError as error:
        if namespace_ends(error):
            return None
        raise
    return None


def _service_of(slice: ReadOnlyTree) -> Iterable[tuple[str, str]]:
    name = labels_of(slice).get(SERVICE_LABEL)
    if name:
        yield slice["metadata"]["namespace"], name


def _by_service(slice: ReadOnlyTree) -> Iterable[str]:
    for namespace, name in _service_of(slice):
        yield f"{namespace}/{name}/{labels_of(slice).get(MANAGED_BY, '')}"


class EndpointSlices(
    ServicePods[dict[str, Any]],
    of="v1/Service",
    name="endpoint-slice-controller",
    concurrency=5,
    watches=[
        Watched("v1/Pod", to="_of_pod", when=pod_matters),
        Watched("v1/Node", to=nothing),
        Watched(KIND, to=_service_of),
    ],
):
    """Brings EndpointSlices in line with Services and their pods."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        service = self.informer.get(key.name, key.namespace)
        if service is None:
            self._times.forget(key)
            self._forget(key)
            return None
        spec = service["spec"]
        if spec.get("type") == "ExternalName" or spec.get("selector") is None:
            return None
        pause = self._pause(key, service)
        if pause is not None:
            return pause
        pods = await self._pods_of(service)
        trigger = await self._trigger(service, pods)
        labels = {name: value for name, value in labels_of(service).items() if name not in _RESERVED}
        labels |= {SERVICE_LABEL: key.name, MANAGED_BY: CONTROLLER}
        if is_headless(service):
            labels[HEADLESS_LABEL] = ""
        existing = self._index(KIND, "service", _by_service, f"{key}/{CONTROLLER}")
        names = {pod["spec"].get("nodeName", "") for pod in pods}
        nodes = {name: node for name in names if name and (node := self.informers["v1/Node"].get(name)) is not None}

        def meta(slice: ReadOnlyTree | None) -> Tree:
            before = {} if slice is None else slice["metadata"].get("annotations")
            return {"labels": labels, "annotations": with_trigger(before, trigger)}

        result = None
        families = spec.get("ipFamilies") or ["IPv4"]
        others = [endpoint_slice for endpoint_slice in existing if endpoint_slice["addressType"] not in families]
        for kind in families:
            of_kind = [
                endpoint_slice
                for endpoint_slice in existing
                if endpoint_slice["addressType"] == kind and is_controlled_by(endpoint_slice, service)
            ]
            others += [
                endpoint_slice
                for endpoint_slice in existing
                if endpoint_slice["addressType"] == kind and not is_controlled_by(endpoint_slice, service)
            ]
            wanted = _grouped(await paced(map(partial(_of_pod, service, nodes, kind), pods)))
            slices = SliceChanges()
            await paced(placing(slices, wanted, of_kind, labels), every=1)
            _keep_one(slices, of_kind, kind, labels)
            result = await _write(self, service, slices, meta) or result
        result = await _write(self, service, SliceChanges(delete=[*others]), meta) or result
        lost = names - nodes.keys() - {""} and not spec.get("publishNotReadyAddresses")
        return AGAIN if lost else result


_RESERVED = (SERVICE_LABEL, MANAGED_BY, HEADLESS_LABEL)


def _keep_one(slices: SliceChanges, existing: Sequence[ReadOnlyTree], kind: str, labels: Mapping[str, str]) -> None:
    """A Service without endpoints has an empty slice all the same."""
    if slices.create or len(existing) != len(slices.delete):
        return
    empty = [
        endpoint_slice
        for endpoint_slice in slices.delete
        if not endpoint_slice.get("endpoints") and not endpoint_slice.get("ports")
    ]
    if len(slices.delete) == 1 and empty and labels_of(empty[0]) == labels:
        slices.delete.clear()
    else:
        slices.create.append(_new((kind, ()), []))


class MirroredSlices(
    TreeController[dict[str, Any]],
    of="v1/Endpoints",
    name="endpoint-slice-mirroring-controller",
    concurrency=5,
    watches=[
        Watched("v1/Service", to=lambda service: [(service["metadata"]["namespace"], service["metadata"]["name"])]),
        Watched(KIND, to=_service_of),
    ],
):
    """Makes EndpointSlices of Endpoints whose Service selects no pods."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        endpoints = self.informer.get(key.name, key.namespace)
        service = self.informers["v1/Service"].get(key.name, key.namespace)
        existing = self._index(KIND, "service", _by_service, f"{key}/{MIRRORING}")
        if endpoints is None or service is None or not _is_mirrored(endpoints, service):
            owner = endpoints or {"metadata": {"name": key.name, "namespace": key.namespace}}
            return await _write(self, owner, SliceChanges(delete=[*existing]), lambda slice: {})
        labels = {**labels_of(endpoints), SERVICE_LABEL: key.name, MANAGED_BY: MIRRORING}
        wanted, skipped = _mirrored(endpoints)
        if skipped:
            text = f"Skipped {skipped} invalid IP addresses when mirroring to EndpointSlices"
            self.events.warning(endpoints, "InvalidIPAddress", text, action="")
        slices = placed(wanted, existing, labels, MOST_MIRRORED)
        given = endpoints["metadata"].get("annotations") or {}
        annotations = {name: value for name, value in with_trigger(given, "").items() if name != APPLIED}
        meta = {"labels": labels, "annotations": annotations}
        return await _write(self, endpoints, slices, lambda slice: meta)


def _is_mirrored(endpoints: ReadOnlyTree, service: ReadOnlyTree) -> bool:
    skips = labels_of(endpoints).get(SKIP_MIRROR) == "true"
    leads = LEADER in (endpoints["metadata"].get("annotations") or {})
    return not skips and not leads and service["spec"].get("selector") is None


def _mirrored(endpoints: ReadOnlyTree) -> tuple[dict[Group, list[Tree]], int]:
    """The endpoints of subsets, and how many addresses can't be."""
    wanted, skipped = dict[Group, list[Tree]](), 0
    for subset in endpoints.get("subsets") or ():
        ports = tuple(
            sorted(
                (port.get("name", ""), port["port"], port.get("protocol", "TCP"), port.get("appProtocol", ""))
                for port in subset.get("ports") or ()
            )
        )
        for kind, ready in (("addresses", True), ("notReadyAddresses", False)):
            for given in subset.get(kind) or ():
                try:
                    address = ipaddress.ip_address(given["ip"])
                except ValueError:
                    skipped += 1
                    continue
                more = {name: given[name] for name in ("targetRef", "nodeName", "hostname") if given.get(name)}
                endpoint = {"addresses": [str(address)], "conditions": {"ready": ready}, **more}
                group = wanted.setdefault((f"IPv{address.version}", ports), [])
                if len(group) < MOST_MIRRORED:
                    group.append(endpoint)
    return wanted, skipped
