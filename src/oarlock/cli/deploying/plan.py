"""`Plan`: what is to run, read from a server and the options. See also: `objects`, which it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.deploying.needs import allowed_rule, cluster_needs
from oarlock.cli.deploying.options import ManifestOptions
from oarlock.cli.sources import sources_of
from oarlock.meta.dataclass import dataclass
from oarlock.meta.names import dns1035_label
from oarlock.policy.authz.known_rules import AccessRule
from oarlock.schema.definition import ResourceDefinition
from oarlock.server.app import DEFAULT_NAME, APIServer
from oarlock.server.command import CommandError

__all__ = ["GROUP_PRIORITY", "Plan", "Registration", "plan_of"]

GROUP_PRIORITY = 1000
"""As other extension servers have it."""

VERSION_STEP = 10


@dataclass(frozen=True, slots=True)
class Registration:
    """One APIService. The version with the highest priority of its group is the one that clients prefer."""

    group: str
    version: str
    priority: int

    @property
    def name(self) -> str:
        return f"{self.version}.{self.group}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run. `storage` is the URL of a store that servers share; empty for SQLite on a volume.

    `needs` is what the server may do with objects of the cluster.
    """

    name: str
    options: ManifestOptions
    server: str
    replicas: int
    registrations: tuple[Registration, ...]
    definitions: tuple[ResourceDefinition, ...]
    needs: tuple[AccessRule, ...] = ()

    @property
    def namespace(self) -> str:
        return self.options.namespace

    @property
    def storage(self) -> str:
        return self.options.storage

    @property
    def volume(self) -> bool:
        """Whether objects are kept on a volume of the server's own."""
        return not self.storage

    @property
    def secret(self) -> str:
        """The Secret of the serving certificate."""
        return f"{self.name}-certificate"

    @property
    def store_secret(self) -> str:
        """The Secret with the URL of the store."""
        return f"{self.name}-storage"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the serving certificate is for."""
        service = f"{self.name}.{self.namespace}"
        return (f"{service}.svc", f"{service}.svc.cluster.local")

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name}


def plan_of(server: APIServer, options: ManifestOptions) -> Plan:
    """What `options` and the server say. Raises `CommandError`."""
    registrations = tuple(_registrations(server))
    if not registrations:
        raise CommandError(f"{options.server}: it serves no resource, so a cluster has nothing to send to it")
    if any(not registration.group for registration in registrations):
        raise CommandError(f"{options.server}: the core group is the cluster's: serve your resources in another")
    in_memory = options.storage.startswith("memory:")
    one_process = not options.storage or in_memory
    if one_process and options.replicas > 1:
        what = "memory" if in_memory else "SQLite on a volume"
        raise CommandError(f"--replicas={options.replicas}: {what} is one server's: give a --storage that they share")
    return Plan(
        name=options.name or _name(server, options.server),
        options=options,
        server=options.path_in_image or sources_of(options.server).argument,
        replicas=options.replicas or (1 if one_process else 2),
        registrations=registrations,
        definitions=tuple(resource.definition for resource in server.catalog.resources),
        needs=(*cluster_needs(server), *(allowed_rule(text) for text in options.allow)),
    )


def _registrations(server: APIServer) -> Iterator[Registration]:
    for group in server.catalog.in_order():
        count = len(group.versions)
        for position, version in enumerate(group.versions):
            yield Registration(group.name, version, VERSION_STEP * (count - position))


def _name(server: APIServer, where: str) -> str:
    """A name for the objects of `server`, which is at `where`. Raises `CommandError`."""
    if server.name != DEFAULT_NAME and not dns1035_label(server.name):
        return server.name
    module = where.partition(":")[0]
    stem = Path(module).stem if module.endswith(".py") else module.rpartition(".")[2]
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if dns1035_label(name):
        raise CommandError(f"{where}: {name or stem!r} can't be the name of a Service: give --name")
    return name
