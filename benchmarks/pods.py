"""What requests for pods and leases cost in a control plane in memory, in protobuf and in JSON: µs of CPU each.

python benchmarks/pods.py [number of pods]
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from oarlock import ControlPlane
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.codec.protobuf import envelope
from oarlock.testing import InMemory, VirtualClock

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PROTOBUF = "application/vnd.kubernetes.protobuf"
IN_PROTOBUF = {"accept": PROTOBUF}


def pod(name: str) -> dict[str, Any]:
    """A pod as a Deployment makes it, about 6 KB when its status is there."""
    containers = [
        {
            "name": part,
            "image": "registry.example.com/team/web:1.27",
            "command": ["sh", "-c", "exec web"],
            "ports": [{"name": f"{part}-http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": f"NAME_{number}", "value": f"value-{number}"} for number in range(10)],
            "resources": {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/web"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 10},
        }
        for part in ("web", "proxy")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web", "pod-template-hash": "6f7d"}},
        "spec": {
            "containers": containers,
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web"}}],
            "nodeName": "one",
        },
    }


async def cpu_us(times: int, request: Callable[[int], Awaitable[Any]], status: int = 200) -> float:
    """The CPU of one request: the median of five rounds."""
    rounds = []
    for number in range(5):
        began = time.process_time()
        for at in range(times):
            answer = await request(number * times + at)
            assert answer.status == status, answer
        rounds.append((time.process_time() - began) / times * 1e6)
    return sorted(rounds)[2]


async def measure(count: int) -> None:
    clock = VirtualClock()
    async with InMemory(ControlPlane(), clock=clock) as api:
        await clock.run(5)
        message, lease_message = kubernetes_message("core.v1.Pod"), kubernetes_message("coordination.v1.Lease")

        def show(what: str, us: float) -> None:
            print(f"{what}: {us:,.0f} µs")

        posted = {"content-type": PROTOBUF, **IN_PROTOBUF}
        for number in range(count):
            answer = await api.post(PODS, pod(f"pod-{number}"))
            assert answer.status == 201, answer
        began = time.process_time()
        await api.get(PODS, accept=PROTOBUF)
        show(f"LIST of {count} pods, protobuf, first", (time.process_time() - began) * 1e6)
        show(f"LIST of {count} pods, protobuf, again", await cpu_us(1, lambda n: api.get(PODS, accept=PROTOBUF)))
        show(f"LIST of {count} pods, JSON", await cpu_us(1, lambda n: api.get(PODS)))
        show("GET pod, protobuf", await cpu_us(100, lambda n: api.get(f"{PODS}/pod-{n % 50}", accept=PROTOBUF)))
        show("GET pod, JSON", await cpu_us(100, lambda n: api.get(f"{PODS}/pod-{n % 50}")))
        show("POST pod, JSON", await cpu_us(40, lambda n: api.post(PODS, pod(f"json-{n}")), 201))
        bodies = [envelope("v1", "Pod", message.write(pod(f"proto-{n}"))) for n in range(200)]
        show(
            "POST pod, protobuf", await cpu_us(40, lambda n: api.request("POST", PODS, bodies[n], headers=posted), 201)
        )
        phase = {"status": {"phase": "Running", "podIP": "10.1.0.5"}}
        merge = {"content-type": "application/strategic-merge-patch+json", **IN_PROTOBUF}
        conditions = [
            {**phase["status"], "conditions": [{"type": "Ready", "status": "True", "message": str(n)}]}
            for n in range(200)
        ]
        show(
            "PATCH pods/status, strategic, protobuf answer",
            await cpu_us(
                40,
                lambda n: api.request("PATCH", f"{PODS}/pod-{n % 50}/status", {"status": conditions[n]}, headers=merge),
            ),
        )
        spec = {"holderIdentity": "one", "leaseDurationSeconds": 40}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}, "spec": spec}
        answer = await api.post(LEASES, lease)
        spent = []
        for number in range(500):
            version = answer.json["metadata"]["resourceVersion"]
            metadata = {"name": "one", "namespace": "default", "resourceVersion": version}
            renewed = {**spec, "renewTime": f"2026-11-20T13:12:09.{number:06d}Z"}
            beat = envelope(lease["apiVersion"], "Lease", lease_message.write({"metadata": metadata, "spec": renewed}))
            began = time.process_time()
            answer = await api.request("PUT", f"{LEASES}/one", beat, headers=posted)
            spent.append((time.process_time() - began) * 1e6)
            assert answer.status == 200, answer
            answer = await api.get(f"{LEASES}/one")
        show("PUT lease, protobuf", sorted(spent)[250])


def main() -> None:
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))


if __name__ == "__main__":
    main()
