"""What a Lease and a Pod of 3 KB cost in protobuf, and in JSON as trees, in µs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from oarlock.codec import json
from oarlock.codec.kubernetes_messages import kubernetes_message

_WHEN = "2026-11-20T13:11:09Z"
_METADATA = {
    "name": "web-6f7d-abcde",
    "namespace": "default",
    "uid": "0b7a7f2c-9d5e-4f0e-8d55-c9d1b4d1b0aa",
    "resourceVersion": "12345",
    "creationTimestamp": _WHEN,
    "labels": {"app": "web", "pod-template-hash": "6f7d"},
    "managedFields": [
        {
            "manager": "kube-scheduler",
            "operation": "Update",
            "apiVersion": "coordination.k8s.io/v1",
            "time": _WHEN,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:acquireTime": {}, "f:holderIdentity": {}, "f:renewTime": {}}},
        }
    ],
}
_LEASE: dict[str, Any] = {
    "metadata": _METADATA,
    "spec": {
        "holderIdentity": "one_0b7a7f2c",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-20T13:11:09.000000Z",
        "renewTime": "2026-11-20T13:12:09.123456Z",
        "leaseTransitions": 3,
    },
}


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "nginx:1.27",
        "command": ["sh", "-c", "sleep 1"],
        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": f"NAME_{number}", "value": f"value-{number}"} for number in range(6)],
        "resources": {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/web"}],
        "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


_POD: dict[str, Any] = {
    "metadata": _METADATA,
    "spec": {
        "containers": [_container("web"), _container("beside")],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web"}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "nodeName": "one",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": _WHEN} for kind in ("Ready", "Scheduled")
        ],
        "podIP": "10.1.0.5",
        "startTime": _WHEN,
    },
}


def _best_us(step: Callable[[], object], times: int = 2000) -> float:
    step()
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            step()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def main() -> None:
    _measure("coordination.v1.Lease", _LEASE)
    _measure("core.v1.Pod", _POD)


def _measure(name: str, tree: dict[str, Any]) -> None:
    message = kubernetes_message(name)
    data, text = message.write(tree), json.encode(tree)
    print(
        f"{name}: protobuf, {len(data)} bytes: encode {_best_us(lambda: message.write(tree)):.1f}, "
        f"decode {_best_us(lambda: message.read(data)):.1f} µs; JSON, {len(text)} bytes: "
        f"encode {_best_us(lambda: json.encode(tree)):.1f}, decode {_best_us(lambda: json.decode(text)):.1f} µs"
    )


if __name__ == "__main__":
    main()
