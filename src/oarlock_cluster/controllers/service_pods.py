"""Which pods are behind a Service, at which ports: what Endpoints and EndpointSlices are made of.

Source: k8s.io/endpointslice, in behaviour.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.shapes import condition_of, created, is_ready, is_terminating, key_of, labels_of, phase_of, time_of
from oarlock_cluster.waiting import paced

__all__ = [
    "HEADLESS_LABEL",
    "TRIGGER",
    "ServicePods",
    "TriggerTimes",
    "addresses_of",
    "has_address",
    "is_headless",
    "nothing",
    "pod_matters",
    "port_of",
    "with_trigger",
]

T = TypeVar("T")

HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def is_headless(service: ReadOnlyTree) -> bool:
    return service["spec"].get("clusterIP") in (None, "", "None")


def has_address(pod: ReadOnlyTree, *, terminating: bool) -> bool:
    """Whether traffic may go to the pod at all; with `terminating` also while it is being deleted."""
    if phase_of(pod) in ("Succeeded", "Failed") or not (pod.get("status") or {}).get("podIPs"):
        return False
    return terminating or not is_terminating(pod)


def port_of(pod: ReadOnlyTree, port: ReadOnlyTree) -> int | None:
    """The port of the pod that is meant by one of a Service; None if no container has one of this name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target or int(port["port"])
    sidecars = [
        init_container
        for init_container in pod["spec"].get("initContainers") or ()
        if init_container.get("restartPolicy") == "Always"
    ]
    for container in [*pod["spec"]["containers"], *sidecars]:
        for named in container.get("ports") or ():
            if named.get("name") == target and named.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(named["containerPort"])
    return None


def pod_matters(old: ReadOnlyTree | None, new: ReadOnlyTree | None) -> bool:
    """Whether a change of a pod may change what is told of it."""
    return old is None or new is None or _facts(old) != _facts(new)


def _facts(pod: ReadOnlyTree) -> tuple[Any, ...]:
    spec, status = pod["spec"], pod.get("status") or {}
    names = spec.get("hostname"), spec.get("subdomain"), spec.get("nodeName")
    return labels_of(pod), is_terminating(pod), is_ready(pod), status.get("podIPs"), phase_of(pod), names


def addresses_of(pod: ReadOnlyTree, version: int) -> list[str]:
    """The pod's addresses of one IP version, as they are written normally."""
    given = (pod.get("status") or {}).get("podIPs") or ()
    return [text for of, text in (_address(each["ip"]) for each in given) if of == version]


@lru_cache(maxsize=16_384)
def _address(text: str) -> tuple[int, str]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return 0, text
    return address.version, str(address)


class TriggerTimes:
    """When what changed the addresses of a Service happened, for those who measure how long it took to be told."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, float]] = {}

    def forget(self, key: tuple[str, str]) -> None:
        self._known.pop(key, None)

    def next(self, key: tuple[str, str], times: dict[str, float]) -> str:
        """The first of the times that are new since the last call; empty if nothing has changed."""
        before = self._known.get(key, {})
        self._known[key] = times
        changed = [since for name, since in times.items() if since > before.get(name, 0.0)]
        return rfc3339(min(changed)) if changed else ""


def with_trigger(annotations: Mapping[str, str] | None, time: str) -> dict[str, str]:
    """Annotations with the time of the change, or without one."""
    kept = {name: value for name, value in (annotations or {}).items() if name != TRIGGER}
    return {**kept, TRIGGER: time} if time else kept


class ServicePods(TreeController[T], Generic[T]):
    """A controller of Services that looks at their pods."""

    def __init__(self) -> None:
        super().__init__()
        self._times = TriggerTimes()

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        namespace, labels = pod["metadata"]["namespace"], labels_of(pod)
        for service in self._index("v1/Service", "namespace", _namespace_of, namespace) if labels else ():
            selector = service["spec"].get("selector")
            if selector and selector.items() <= labels.items():
                yield namespace, service["metadata"]["name"]

    async def _pods_of(self, service: ReadOnlyTree) -> list[Tree]:
        """The pods that the Service selects, by name."""
        namespace, selector = service["metadata"]["namespace"], service["spec"]["selector"]
        label, value = next(iter(selector.items()), ("", ""))
        pods = self._index("v1/Pod", "label", _label_keys, f"{namespace}/{label}={value}" if label else f"{namespace}/")
        pods = await paced(pod for pod in pods if selector.items() <= labels_of(pod).items())
        self._sizes[key_of(service)] = len(pods)
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def _trigger(self, service: ReadOnlyTree, pods: Iterable[ReadOnlyTree]) -> str:
        """When the first of the changes happened that aren't told yet."""
        times = dict(await paced((pod["metadata"]["name"], _changed_at(pod)) for pod in pods))
        return self._times.next(key_of(service), {"": created(service), **times})


def _changed_at(pod: ReadOnlyTree) -> float:
    return time_of((condition_of(pod, "Ready") or {}).get("lastTransitionTime")) or 0.0


def _namespace_of(tree: ReadOnlyTree) -> Iterable[str]:
    yield tree["metadata"]["namespace"]


def _label_keys(pod: ReadOnlyTree) -> Iterable[str]:
    namespace = pod["metadata"]["namespace"]
    yield f"{namespace}/"
    for label, value in labels_of(pod).items():
        yield f"{namespace}/{label}={value}"


def nothing(obj: Any) -> Iterable[tuple[str, str]]:
    """The keys of what is followed only to be read."""
    return ()
