"""The pods of a plan: a Deployment, or a StatefulSet with a volume for SQLite. See also: `plan`, `certificates`.

They meet the Pod Security Standard "restricted".
"""

from __future__ import annotations

from oarlock.cli.deploying.plan import Plan
from oarlock.meta.json_trees import Tree

PORT = 8443
USER = 65532
DELAY_S = 10
"""How long a server that was told to stop goes on while the cluster learns that it isn't ready, if there are others."""

REQUESTS_S = 60
"""How long it then lets requests end: its default."""

SPARE_S = 15

DATA, CERTIFICATES, STORE, TEMPORARY = "/data", "/certificates", "/storage", "/tmp"


def workload(plan: Plan) -> Tree:
    """The object that runs the servers."""
    template = {"metadata": {"labels": plan.labels}, "spec": _pod(plan)}
    spec: Tree = {"replicas": plan.replicas, "selector": {"matchLabels": plan.labels}, "template": template}
    if plan.volume:
        kind, volume = "StatefulSet", {"accessModes": ["ReadWriteOnce"], "resources": _size(plan)}
        if plan.options.storage_class:
            volume["storageClassName"] = plan.options.storage_class
        spec |= {
            "serviceName": plan.name,
            "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": plan.labels}, "spec": volume}],
        }
    else:
        kind = "Deployment"
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    metadata = {"name": plan.name, "namespace": plan.namespace, "labels": plan.labels}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _size(plan: Plan) -> Tree:
    return {"requests": {"storage": plan.options.storage_size}}


def _pod(plan: Plan) -> Tree:
    mounts: list[Tree] = [{"name": "data", "mountPath": DATA}, {"name": "temporary", "mountPath": TEMPORARY}]
    volumes: list[Tree] = [{"name": "temporary", "emptyDir": {}}]
    if not plan.volume:
        volumes.append({"name": "data", "emptyDir": {}})
    if plan.storage:
        mounts.append({"name": "storage", "mountPath": STORE, "readOnly": True})
        volumes.append({"name": "storage", "secret": {"secretName": plan.store_secret}})
    if plan.options.certificates != "renewed":
        mounts.append({"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append({"name": "certificates", "secret": {"secretName": plan.secret}})
    pod: Tree = {
        "serviceAccountName": plan.name,
        "terminationGracePeriodSeconds": _delay_s(plan) + REQUESTS_S + SPARE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan, mounts)],
        "volumes": volumes,
    }
    if plan.replicas > 1:
        pod["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": plan.labels},
            }
        ]
    return pod


def _container(plan: Plan, mounts: list[Tree]) -> Tree:
    return {
        "name": "webhooks" if plan.webhooks else "apiserver",
        "image": plan.options.image,
        "args": ["webhooks" if plan.webhooks else "serve", plan.server, *_flags(plan)],
        "ports": [{"name": "https", "containerPort": PORT}],
        "startupProbe": _probe("livez", period=2, failures=60),
        "livenessProbe": _probe("livez", period=10, failures=6),
        "readinessProbe": _probe("readyz", period=5, failures=2),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _delay_s(plan: Plan) -> int:
    """A server that is alone leaves at once: nobody answers until the next one is there."""
    return DELAY_S if plan.replicas > 1 else 0


def _flags(plan: Plan) -> list[str]:
    store = f"--storage=sqlite:///{DATA}/objects.db" if plan.volume else f"--config={STORE}/config.yaml"
    own = [
        store,
        "--anonymous-paths=/livez,/readyz",
        "--authorization-always-allow-paths=/livez,/readyz",
        *_rules_of_cluster(plan),
    ]
    if plan.options.certificates == "renewed":
        certificate = [
            f"--serving-certificate-secret={plan.namespace}/{plan.secret}",
            f"--tls-san={','.join(plan.hosts)}",
        ]
    else:
        certificate = [f"--tls-cert-file={CERTIFICATES}/tls.crt", f"--tls-private-key-file={CERTIFICATES}/tls.key"]
    return [
        "--bind-address=0.0.0.0",
        f"--secure-port={PORT}",
        f"--data-dir={DATA}",
        *certificate,
        *([f"--shutdown-delay-duration={_delay_s(plan)}s"] if _delay_s(plan) else ()),
        "--authentication-kubeconfig=in-cluster",
        "--authorization-kubeconfig=in-cluster",
        "--token-auth-file=/dev/null",
        *(_webhook_flags(plan) if plan.webhooks else own),
    ]


def _rules_of_cluster(plan: Plan) -> list[str]:
    off = plan.options.disable_admission_plugins
    return ["--kubeconfig=in-cluster", *([f"--disable-admission-plugins={','.join(off)}"] if off else ())]


def _webhook_flags(plan: Plan) -> list[str]:
    """The cluster asks without credentials; who wants the metrics shows a token."""
    election = [
        "--controllers",
        "--leader-elect",
        f"--leader-elect-resource-name={plan.name}",
        f"--leader-elect-resource-namespace={plan.namespace}",
    ]
    return [
        "--authentication-skip-lookup",
        f"--configuration={plan.name}",
        *(election if plan.controllers else ()),
    ]


def _probe(path: str, *, period: int, failures: int) -> Tree:
    return {
        "httpGet": {"path": f"/{path}", "port": "https", "scheme": "HTTPS"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }
