"""Where the requests of an APIService go: its Service, the endpoints of that, the pods behind them.

See also: `command`, which looks at certificates and answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import field

from oarlock.cli.doctor.cluster import ClusterView, Finding, Missing, Unreadable, bad, fine, unknown
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree


@dataclass(slots=True)
class ServiceBackend:
    """What an APIService names, and what is found of it: where it is reached, as whom its pods run, their flags."""

    namespace: str
    name: str
    port: int
    addresses: list[tuple[str, int]] = field(default_factory=list)
    accounts: set[str] = field(default_factory=set)
    flags: set[str] = field(default_factory=set)

    @property
    def host(self) -> str:
        """The name that its certificate must be for."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def local(self) -> bool:
        """Whether its addresses are the machine's own, so that nobody else could reach them any better."""
        return all(host in ("localhost", "::1") or host.startswith("127.") for host, _ in self.addresses)

    @property
    def shown(self) -> str:
        return f"{self.namespace}/{self.name}"


async def look_at_backend(view: ClusterView, backend: ServiceBackend) -> AsyncIterator[Finding]:
    """What is right and wrong with the Service, its endpoints and its pods; fills in `backend`."""
    subject = f"Service {backend.shown}"
    try:
        service = await view.read(f"/api/v1/namespaces/{backend.namespace}/services/{backend.name}")
    except Missing:
        yield bad(subject, "doesn't exist", "create it, or correct spec.service of the APIService")
        return
    except Unreadable as error:
        yield unknown(subject, f"can't be read: {error}")
        return
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        backend.addresses.append((str(spec.get("externalName", "")), backend.port))
        yield fine(subject, f"is an alias of {spec.get('externalName')}; ports and endpoints aren't checked")
        return
    port = next((port for port in spec.get("ports") or [] if port.get("port") == backend.port), None)
    if port is None:
        has = ", ".join(str(port.get("port")) for port in spec.get("ports") or []) or "none"
        yield bad(
            subject,
            f"has no port {backend.port}; it has {has}",
            "add the port to the Service, or correct spec.service.port of the APIService",
        )
        return
    yield fine(subject, f"has port {backend.port}")
    async for finding in _endpoints(view, backend, port):
        yield finding
    async for finding in _pods(view, backend, spec.get("selector") or {}):
        yield finding
    address = spec.get("clusterIP")
    if address and address != "None":
        backend.addresses.append((address, backend.port))


async def _endpoints(view: ClusterView, backend: ServiceBackend, port: Tree) -> AsyncIterator[Finding]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{backend.namespace}/endpointslices"
    try:
        slices = await view.items(path, labelSelector=f"kubernetes.io/service-name={backend.name}")
    except (Missing, Unreadable) as error:
        yield unknown("Endpoints", f"can't be read: {error}")
        return
    waiting = 0
    for endpoint_slice in slices:
        numbers = [
            p.get("port")
            for p in endpoint_slice.get("ports") or []
            if (p.get("name") or "") == (port.get("name") or "")
        ]
        for endpoint in endpoint_slice.get("endpoints") or []:
            if (endpoint.get("conditions") or {}).get("ready") is False:
                waiting += len(endpoint.get("addresses") or [])
            else:
                backend.addresses += [(host, n) for host in endpoint.get("addresses") or [] for n in numbers if n]
    if backend.addresses:
        yield fine("Endpoints", f"{len(backend.addresses)} ready")
    elif waiting:
        yield bad("Endpoints", f"{waiting} not ready", "find out why the readiness probes fail: /readyz?verbose")
    else:
        yield bad(
            "Endpoints", "there are none", "check that the Service's selector matches the pods, and that they run"
        )


async def _pods(view: ClusterView, backend: ServiceBackend, selector: Tree) -> AsyncIterator[Finding]:
    if not selector:
        return
    labels = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
    try:
        pods = await view.items(f"/api/v1/namespaces/{backend.namespace}/pods", labelSelector=labels)
    except (Missing, Unreadable) as error:
        yield unknown("Pods", f"can't be read: {error}")
        return
    if not pods:
        yield bad("Pods", f"none has the labels {labels}", "deploy the server, or correct the Service's selector")
    for pod in pods:
        backend.accounts.add((pod.get("spec") or {}).get("serviceAccountName") or "default")
        for container in (pod.get("spec") or {}).get("containers") or []:
            backend.flags.update(map(str, container.get("args") or ()))
        yield _pod(pod)


def _pod(pod: Tree) -> Finding:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        stopped = state.get("waiting") or state.get("terminated")
        if stopped:
            why = f"{stopped.get('reason', 'it waits')} {stopped.get('message', '')}".strip()
            command = f"logs {name} --previous" if container.get("restartCount") else f"describe pod {name}"
            return bad(f"Pod {name}", f"container {container.get('name')}: {why}", f"see kubectl {command}")
    ready: Tree = next(
        (condition for condition in status.get("conditions") or [] if condition.get("type") == "Ready"), {}
    )
    if ready.get("status") == "True":
        return fine(f"Pod {name}", "is ready")
    why = ready.get("message") or ready.get("reason") or f"phase {status.get('phase', 'unknown')}"
    return bad(f"Pod {name}", f"isn't ready: {why}", f"see kubectl describe pod {name}")
