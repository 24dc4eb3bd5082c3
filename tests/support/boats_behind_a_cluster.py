"""A server of boats behind a cluster, which is a control plane in memory, over HTTPS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from silent_terminal import Silent

from oarlock import APIServer, Model, ObjectMeta, Resource
from oarlock.apps.controlplane.control_plane import ControlPlane
from oarlock.apps.controlplane.options import for_control_plane
from oarlock.client.clock import SystemClock
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ExtensionConfig, ServerConfig


class BoatSpec(Model):
    sails: int = 1


class Boat(Resource, group="boats.example.com", version="v1"):
    spec: BoatSpec


def boat(name: str, namespace: str = "default") -> Boat:
    return Boat(metadata=ObjectMeta(name=name, namespace=namespace), spec=BoatSpec())


async def cluster_in(folder: Path, **keywords: Any) -> Running:
    config = ServerConfig(storage="memory://", data_dir=folder / "cluster", secure_port=0)
    return await start(ControlPlane(**keywords), for_control_plane(config), SystemClock(), Silent())


@asynccontextmanager
async def behind(folder: Path, server: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[Running]:
    """The server of boats with `options`; `server` has more keywords of its `APIServer`."""
    options = {"cluster_kubeconfig": folder / "cluster" / "oarlock.kubeconfig", **options}
    config = ExtensionConfig(storage="memory://", data_dir=folder / "boats", secure_port=0, **options)
    made = APIServer(**{"serve": [Boat], "name": "boats", **(server or {})})
    running = await start(made, config, SystemClock(), Silent())
    try:
        yield running
    finally:
        await running.shut_down()


async def login_of(cluster: Running, folder: Path, user: str, rules: Iterable[AccessRule]) -> Path:
    """A kubeconfig for `user`, who has these rights in the cluster and no others."""
    admin = cluster.client(None, "test")
    shown = [
        {"verbs": [*rule.verbs], "apiGroups": [*rule.api_groups], "resources": [*rule.resources]} for rule in rules
    ]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": user}}
    await admin.create({**head, "kind": "ClusterRole", "rules": shown})
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "User", "name": user}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": user}
    await admin.create({**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]})
    config = yaml.safe_load((folder / "cluster" / "oarlock.kubeconfig").read_text())
    config["users"][0]["user"]["as"] = user
    file = folder / f"{user}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
