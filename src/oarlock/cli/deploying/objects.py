"""Every object of a plan, in the order in which a cluster takes them: also certificates, accounts and their rights.

Pods meet the Pod Security Standard "restricted". See also: `plan`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from oarlock.cli.deploying.plan import GROUP_PRIORITY, Plan, Registration, reached
from oarlock.cli.deploying.webhook_objects import ClusterWebhooks, PlacedWebhooks, referring_objects
from oarlock.codec import yaml
from oarlock.meta.json_trees import Tree
from oarlock.net.url import parse_database_url
from oarlock.server.options.file import API_VERSION, KIND
from oarlock.server.serving.certificates.issuing import issue, new_authority

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


CA_KEY = "ca.crt"
INJECT = "cert-manager.io/inject-ca-from"


def certificate_objects(plan: Plan, now: float) -> list[Tree]:
    """The Secret with the certificate, or what makes it. `now` is in seconds since the epoch."""
    if plan.options.certificates == "generated":
        return [_generated(plan, datetime.fromtimestamp(now, UTC))]
    return _cert_manager(plan) if plan.options.certificates == "cert-manager" else []


def trust_of(plan: Plan, objects: list[Tree]) -> tuple[Tree, Tree]:
    """What an APIService has for the certificate in `objects`: annotations, and fields of its spec."""
    if plan.options.certificates == "cert-manager":
        return {INJECT: f"{plan.namespace}/{plan.secret}"}, {}
    secret = next((manifest for manifest in objects if manifest["kind"] == "Secret"), None)
    return {}, {} if secret is None else {"caBundle": secret["data"][CA_KEY]}


def _generated(plan: Plan, moment: datetime) -> Tree:
    """A certificate for a year. The authority's key is thrown away: it signs nothing else."""
    authority = new_authority(moment)
    pair = issue(authority, plan.hosts, moment)
    data = {CA_KEY: authority.certificate_pem, "tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": plan.secret, "namespace": plan.namespace, "labels": plan.labels},
        "type": "kubernetes.io/tls",
        "data": {name: base64.b64encode(text).decode() for name, text in data.items()},
    }


def _cert_manager(plan: Plan) -> list[Tree]:
    """An authority of its own, and a certificate that it signs. Source: cert-manager.io/v1."""
    own, authority = f"{plan.name}-selfsigned", f"{plan.name}-ca"
    return [
        _issued(plan, "Issuer", own, {"selfSigned": {}}),
        _issued(
            plan,
            "Certificate",
            authority,
            {
                "isCA": True,
                "commonName": f"{plan.name}.{plan.namespace}.ca",
                "secretName": authority,
                "duration": "87600h",
                "privateKey": {"algorithm": "ECDSA", "size": 256},
                "issuerRef": {"kind": "Issuer", "name": own},
            },
        ),
        _issued(plan, "Issuer", authority, {"ca": {"secretName": authority}}),
        _issued(
            plan,
            "Certificate",
            plan.secret,
            {
                "secretName": plan.secret,
                "dnsNames": list(plan.hosts),
                "usages": ["digital signature", "server auth"],
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "issuerRef": {"kind": "Issuer", "name": authority},
            },
        ),
    ]


def _issued(plan: Plan, kind: str, name: str, spec: Tree) -> Tree:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": plan.namespace, "labels": plan.labels},
        "spec": spec,
    }


RBAC = "rbac.authorization.k8s.io"
ROLES = ("view", "edit", "admin")
AGGREGATE = f"{RBAC}/aggregate-to-"


def rights(plan: Plan) -> list[Tree]:
    """The ServiceAccount, its bindings, and the roles of users."""
    account = {"kind": "ServiceAccount", "name": plan.name, "namespace": plan.namespace}
    named = f"{plan.namespace}:{plan.name}"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": plan.labels},
        },
        # It asks the cluster whose a token is, and who may do what.
        _object(plan, "ClusterRoleBinding", f"{named}:auth-delegator")
        | {"roleRef": _role("ClusterRole", "system:auth-delegator"), "subjects": [account]},
        *([] if plan.webhooks else [_auth_reader(plan, named, account)]),
        *(_renewal(plan, account) if plan.options.certificates == "renewed" else ()),
        *(_needed(plan, account) if plan.needs else ()),
        *_users(plan),
    ]


def _auth_reader(plan: Plan, named: str, account: Tree) -> Tree:
    """It reads whom the cluster's front proxy is known by."""
    return _object(plan, "RoleBinding", f"{named}:auth-reader", "kube-system") | {
        "roleRef": _role("Role", "extension-apiserver-authentication-reader"),
        "subjects": [account],
    }


def _needed(plan: Plan, account: Tree) -> list[Tree]:
    """What its code does with objects of the cluster."""
    name = f"{plan.namespace}:{plan.name}:cluster"
    rules = [
        {"apiGroups": list(need.api_groups), "resources": list(need.resources), "verbs": list(need.verbs)}
        for need in plan.needs
    ]
    return [
        _object(plan, "ClusterRole", name) | {"rules": rules},
        _object(plan, "ClusterRoleBinding", name) | {"roleRef": _role("ClusterRole", name), "subjects": [account]},
    ]


def _renewal(plan: Plan, account: Tree) -> list[Tree]:
    """It keeps its certificate in one Secret, and writes its authority into the objects that tell of it."""
    name = f"{plan.namespace}:{plan.name}:certificate"
    about_secrets = {"apiGroups": [""], "resources": ["secrets"]}
    return [
        _object(plan, "ClusterRole", name) | {"rules": [*_told(plan)]},
        _object(plan, "ClusterRoleBinding", name) | {"roleRef": _role("ClusterRole", name), "subjects": [account]},
        _object(plan, "Role", plan.secret, plan.namespace)
        | {
            "rules": [
                {**about_secrets, "verbs": ["create"]},  # a rule for creating can't have names
                {**about_secrets, "resourceNames": [plan.secret], "verbs": ["get", "update"]},
            ]
        },
        _object(plan, "RoleBinding", plan.secret, plan.namespace)
        | {"roleRef": _role("Role", plan.secret), "subjects": [account]},
    ]


def _told(plan: Plan) -> Iterator[Tree]:
    """What it may do with the objects by which the cluster finds it."""
    names: dict[tuple[str, str], list[str]] = {}
    for registration in plan.registrations:
        names.setdefault(("apiregistration.k8s.io", "apiservices"), []).append(registration.name)
    for kind, name in referring_objects(plan.resources, plan.code, plan.name):
        group, plural = kind.partition("/")[0], f"{kind.rpartition('/')[2].lower()}s"
        names.setdefault((group, plural), []).append(name)
    for (group, plural), several in names.items():
        yield {"apiGroups": [group], "resources": [plural], "resourceNames": several, "verbs": ["get", "patch"]}


def _users(plan: Plan) -> list[Tree]:
    """The parts of the cluster's own roles view, edit and admin, for resources that say what these may do."""
    made = []
    for role in ROLES:
        rules = [
            {
                "apiGroups": [definition.group],
                "resources": [definition.names.plural],
                "verbs": list(getattr(definition.rbac, role)),
            }
            for definition in plan.definitions
            if definition.rbac is not None and getattr(definition.rbac, role)
        ]
        if rules:
            tree = _object(plan, "ClusterRole", f"{plan.namespace}:{plan.name}:{role}")
            tree["metadata"]["labels"] = {**plan.labels, f"{AGGREGATE}{role}": "true"}
            made.append({**tree, "rules": rules})
    return made


def _object(plan: Plan, kind: str, name: str, namespace: str = "") -> Tree:
    metadata: Tree = {"name": name, "labels": plan.labels}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata}


def _role(kind: str, name: str) -> Tree:
    return {"apiGroup": RBAC, "kind": kind, "name": name}


_PORTS = {"postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "etcd": 2379}


def objects_of(plan: Plan, now: float) -> list[Tree]:
    """Every object. `now` is in seconds since the epoch, for certificates."""
    certificates = certificate_objects(plan, now)
    return [
        _namespace(plan),
        *rights(plan),
        *([_store(plan)] if plan.storage else []),
        *certificates,
        _service(plan),
        workload(plan),
        *([_disruption_budget(plan)] if plan.replicas > 1 else []),
        _network_policy(plan),
        *(_webhooks(plan, certificates) if plan.webhooks else _api_services(plan, certificates)),
    ]


def _namespace(plan: Plan) -> Tree:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace, "labels": labels}}


def _metadata(plan: Plan, name: str = "") -> Tree:
    return {"name": name or plan.name, "namespace": plan.namespace, "labels": plan.labels}


def _store(plan: Plan) -> Tree:
    """The URL of the store, as a configuration file: it may have a password, which arguments would show."""
    config = yaml.encode({"apiVersion": API_VERSION, "kind": KIND, "storage": plan.storage})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(plan, plan.store_secret),
        "type": "Opaque",
        "data": {"config.yaml": base64.b64encode(config).decode()},
    }


def _service(plan: Plan) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(plan),
        "spec": {"selector": plan.labels, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    }


def _disruption_budget(plan: Plan) -> Tree:
    spec = {"minAvailable": 1, "selector": {"matchLabels": plan.labels}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(plan), "spec": spec}


def _network_policy(plan: Plan) -> Tree:
    """In: the port, from anywhere, as only a cluster knows its API server. Out: names, the cluster, the store."""
    out: list[Tree] = [
        {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
        {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]},
    ]
    if plan.storage:
        ports = _store_ports(plan.storage)
        if ports:
            out.append({"ports": [{"port": port, "protocol": "TCP"} for port in ports]})
    if plan.asks_webhooks:
        out.append({"to": [{"namespaceSelector": {}}]})  # a webhook is a pod of any namespace, at any port
    for block, port in map(reached, plan.options.egress):
        to = {"to": [{"ipBlock": {"cidr": block}}]} if block else {}
        out.append({**to, "ports": [{"port": port, "protocol": "TCP"}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(plan),
        "spec": {
            "podSelector": {"matchLabels": plan.labels},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": out,
        },
    }


def _store_ports(url: str) -> list[int]:
    """The ports of the store's hosts, which may be several."""
    store = parse_database_url(url)
    usual = _PORTS.get(store.scheme.partition("+")[0])
    named = (re.search(r":([0-9]+)$", host) for host in store.host.split(","))
    return sorted({port for match in named if (port := int(match[1]) if match else usual)})


def _webhooks(plan: Plan, certificates: list[Tree]) -> list[Tree]:
    """Definitions and configurations, the last after what they name."""
    annotations, trust = trust_of(plan, certificates)

    def client_config(path: str) -> Tree:
        service = {"namespace": plan.namespace, "name": plan.name, "port": 443, "path": path}
        return {"service": service, **trust}

    place = PlacedWebhooks(
        plan.name, client_config, plan.namespace, plan.labels, annotations, plan.options.failure_policy
    )
    return ClusterWebhooks(plan.resources, plan.code.admission, place).objects()


def _api_services(plan: Plan, certificates: list[Tree]) -> list[Tree]:
    annotations, trust = trust_of(plan, certificates)
    metadata: Tree = {"labels": plan.labels, **({"annotations": annotations} if annotations else {})}
    return [
        api_service(registration, (plan.namespace, plan.name), metadata, trust) for registration in plan.registrations
    ]


def api_service(registration: Registration, service: tuple[str, str], metadata: Tree, trust: Tree) -> Tree:
    """The APIService of a version that the Service answers for, which is given as namespace and name."""
    spec = {
        "group": registration.group,
        "version": registration.version,
        "service": {"namespace": service[0], "name": service[1], "port": 443},
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": registration.priority,
        **trust,
    }
    metadata = {"name": registration.name, **metadata}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec}
