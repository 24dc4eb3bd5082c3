"""The smallest object of every workload kind that a server takes, by group and plural."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]

PODS: Tree = {"containers": [{"name": "c", "image": "example.com/app:1"}]}
TEMPLATE: Tree = {"metadata": {"labels": {"app": "a"}}, "spec": PODS}
SELECTED: Tree = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
ONCE: Tree = {"template": {"spec": {**PODS, "restartPolicy": "Never"}}}

MINIMAL: dict[tuple[str, str], Tree] = {
    ("", "endpoints"): {"subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}]},
    ("", "nodes"): {},
    ("", "persistentvolumeclaims"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    ("", "persistentvolumes"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}}
    },
    ("", "pods"): {"spec": PODS},
    ("", "podtemplates"): {"template": TEMPLATE},
    ("", "replicationcontrollers"): {"spec": {"template": TEMPLATE}},
    ("", "services"): {"spec": {"ports": [{"port": 80}]}},
    ("apps", "controllerrevisions"): {"revision": 1, "data": {"any": ["thing"]}},
    ("apps", "daemonsets"): {"spec": SELECTED},
    ("apps", "deployments"): {"spec": SELECTED},
    ("apps", "replicasets"): {"spec": SELECTED},
    ("apps", "statefulsets"): {"spec": SELECTED},
    ("autoscaling", "horizontalpodautoscalers"): {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}
    },
    ("batch", "cronjobs"): {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": ONCE}}},
    ("batch", "jobs"): {"spec": ONCE},
    ("discovery.k8s.io", "endpointslices"): {"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}]},
    ("networking.k8s.io", "ingressclasses"): {"spec": {"controller": "example.com/c"}},
    ("networking.k8s.io", "ingresses"): {
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    },
    ("networking.k8s.io", "ipaddresses"): {
        "spec": {"parentRef": {"resource": "services", "name": "s", "namespace": "default"}}
    },
    ("networking.k8s.io", "networkpolicies"): {"spec": {"podSelector": {}}},
    ("networking.k8s.io", "servicecidrs"): {"spec": {"cidrs": ["10.96.0.0/24"]}},
    ("node.k8s.io", "runtimeclasses"): {"handler": "runc"},
    ("policy", "poddisruptionbudgets"): {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    ("resource.k8s.io", "deviceclasses"): {"spec": {}},
    ("resource.k8s.io", "resourceclaims"): {"spec": {}},
    ("resource.k8s.io", "resourceclaimtemplates"): {"spec": {"spec": {}}},
    ("resource.k8s.io", "resourceslices"): {
        "spec": {
            "driver": "example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }
    },
    ("scheduling.k8s.io", "priorityclasses"): {"value": 5},
    ("storage.k8s.io", "csidrivers"): {"spec": {}},
    ("storage.k8s.io", "csinodes"): {"spec": {"drivers": [{"name": "example.com", "nodeID": "n"}]}},
    ("storage.k8s.io", "csistoragecapacities"): {"storageClassName": "s"},
    ("storage.k8s.io", "storageclasses"): {"provisioner": "example.com/p"},
    ("storage.k8s.io", "volumeattachments"): {
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    ("storage.k8s.io", "volumeattributesclasses"): {"driverName": "example.com", "parameters": {"a": "b"}},
}
NAMES = {("networking.k8s.io", "ipaddresses"): "10.9.9.9"}
"""Those that aren't simply called ``a``."""
