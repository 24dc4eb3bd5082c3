"""A control plane with users of its own, and what runs behind it, as processes.

See also: `server_process`; `go_programs`, the servers of Kubernetes' own code.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from database_process import free_port
from server_process import ControlPlaneProcess, ServerProcess

from oarlock.server.serving.certificates.issuing import CertificatePair, issue, new_authority

__all__ = [
    "Front",
    "GoServer",
    "Wardle",
    "api_service",
    "kubeconfig",
    "of_extension",
    "roles",
    "serving_files",
]

USERS = ("admin", "alice", "bob", "extension")
Tree = dict[str, Any]


class Front(ControlPlaneProcess):
    """A control plane with the certificate of a front proxy that it makes for itself.

    `USERS` log in with ``NAME-token``.
    """

    def __init__(self, folder: Path, options: Iterable[str] = ()) -> None:
        super().__init__(folder, "memory://", options)
        rows = [f'{user}-token,{user},{user}-uid,"{"system:masters" if user == "admin" else ""}"' for user in USERS]
        (folder / "tokens.csv").write_text("\n".join([*rows, ""]))
        self.token = "admin-token"

    def login(self, user: str) -> Path:
        """The kubeconfig of one of `USERS`."""
        return kubeconfig(self, user)


class Behind(ServerProcess):
    """A server behind a control plane: `front` is asked who may do what, as the user ``extension``."""

    def __init__(self, folder: Path, front: Front, service: str) -> None:
        super().__init__(folder, "wardle")
        self.port = free_port()  # such a port stays free while the server is down
        self.front = front
        self.service = service

    @property
    def delegated(self) -> list[str]:
        login = str(self.front.login("extension"))
        return ["--authentication-kubeconfig", login, "--authorization-kubeconfig", login]


class Wardle(Behind):
    """The wardle example behind `front`, with one token of its own that it doesn't use."""

    def __init__(self, folder: Path, front: Front, service: str = "wardle", options: Iterable[str] = ()) -> None:
        super().__init__(folder, front, service)
        self.authority = new_authority(datetime.now(UTC))
        self.files = serving_files(folder, self.authority, f"{service}.default.svc")
        self.options = [
            *self.delegated,
            *("--tls-cert-file", str(self.files[0]), "--tls-private-key-file", str(self.files[1]), *options),
        ]


class GoServer(Behind):
    """One of the servers of Kubernetes' own code, with a certificate for ``SERVICE.default.svc``."""

    def __init__(self, folder: Path, front: Front, command: Sequence[str], service: str, etcd: str) -> None:
        super().__init__(folder, front, service)
        self.command = list(command)
        self.authority = new_authority(datetime.now(UTC))
        self.files = serving_files(folder, self.authority, f"{service}.default.svc", "127.0.0.1")
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self.authority.certificate_pem)
        self.options = [
            *("--etcd-servers", etcd, "--etcd-prefix", f"/{service}-{os.getpid()}-{self.port}"),
            *("--kubeconfig", str(front.login("extension")), *self.delegated),
        ]

    def stop(self) -> None:
        """End it at once: asked to leave, it waits a minute for the watches of others."""
        self.kill()

    def record_requests(self) -> Path:
        """Have it say who asks for what, in an audit log."""
        policy, log = self.folder / "audit.json", self.folder / "audit.log"
        rules = [{"level": "Metadata", "omitStages": ["RequestReceived"]}]
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        self.options += ["--audit-policy-file", str(policy), "--audit-log-path", str(log)]
        return log

    def _command(self) -> list[str]:
        return [
            *(*self.command, "--secure-port", str(self.port), "--bind-address", "127.0.0.1"),
            *("--tls-cert-file", str(self.files[0]), "--tls-private-key-file", str(self.files[1]), *self.options),
        ]


def serving_files(folder: Path, authority: CertificatePair, *hosts: str) -> tuple[Path, Path]:
    """A serving certificate for `hosts` and its key, written into `folder`."""
    pair = issue(authority, hosts, datetime.now(UTC))
    files = folder / "serving.crt", folder / "serving.key"
    files[0].write_bytes(pair.certificate_pem)
    files[1].write_bytes(pair.key_pem)
    return files


def api_service(group: str, version: str, server: Wardle | GoServer, **spec: Any) -> Tree:
    """An APIService that sends requests to `server`."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "annotations": {"oarlock.dev/url": server.url}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"namespace": "default", "name": server.service},
            "caBundle": base64.b64encode(server.authority.certificate_pem).decode(),
            **spec,
        },
    }


def kubeconfig(server: ServerProcess, user: str, ca: Path | None = None) -> Path:
    """The kubeconfig of a user with the token ``USER-token``."""
    cluster = {
        "server": server.url,
        "certificate-authority-data": base64.b64encode((ca or server.ca).read_bytes()).decode(),
    }
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": f"{user}-token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file = server.folder / f"{user}.kubeconfig"
    file.write_text(json.dumps(tree))
    return file


def roles(user: str, *rules: Tree, also: Sequence[str] = ()) -> Tree:
    """A ClusterRole with these rules, bound to a user as are the ClusterRoles `also`: a list that kubectl applies."""
    rbac = "rbac.authorization.k8s.io"
    to = {"subjects": [{"apiGroup": rbac, "kind": "User", "name": user}]}
    own = f"test-{user}"
    made: list[Tree] = [{"kind": "ClusterRole", "metadata": {"name": own}, "rules": list(rules)}]
    for name in (own, *also):
        ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
        made.append({"kind": "ClusterRoleBinding", "metadata": {"name": f"{user}-{name}"}, "roleRef": ref, **to})
    items = [{"apiVersion": f"{rbac}/v1", **one} for one in made]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def of_extension() -> Tree:
    """What the user ``extension`` needs: what k8s.io/sample-apiserver asks for, to charge quotas, and to delegate."""
    looks = ["get", "list", "watch"]
    told = roles(
        "extension",
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": looks},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": looks},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": looks},
        {"apiGroups": ["flowcontrol.apiserver.k8s.io"], "resources": ["*"], "verbs": looks},
        {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": looks},
        {"apiGroups": [""], "resources": ["resourcequotas/status"], "verbs": ["update"]},
        also=["system:auth-delegator"],
    )
    rbac = "rbac.authorization.k8s.io"
    reader: Tree = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "extension", "namespace": "kube-system"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "extension"}],
    }
    told["items"].append(reader)
    return told
