"""`Plan`: what is to run in a cluster, read from a server and the options of ``oarlock manifests``.

See also: `objects`, which makes objects of a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from oarlock.apps.admission.cluster_plugins import rights_of
from oarlock.apps.api_server import DEFAULT_NAME, APIServer
from oarlock.apps.webhooks.server import reviewed
from oarlock.cli.loading import DeclaredCode, ServerArgument, sources_of
from oarlock.client.informers.informer import Informer
from oarlock.client.kinds import ref_of_class, split_kind
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.controller import ClusterControllers
from oarlock.controllers.running.group import ControllerGroup
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersion
from oarlock.meta.names import dns1035_label, dns1123_label
from oarlock.meta.quantities import QuantityError, parse_quantity
from oarlock.policy.authz.authorizer import AccessRule
from oarlock.registry.served import Served
from oarlock.schema.definition import ResourceDefinition
from oarlock.schema.types.definitions import plural_of
from oarlock.server.assembly.own_work import lease_of
from oarlock.server.command import CommandError
from oarlock.server.description import UserCode
from oarlock.server.fairness.cluster import FLOW_CONTROL_RIGHTS
from oarlock.server.options.groups.generic import CLUSTER_PLUGINS
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import (
    BooleanType,
    IntegerType,
    PathType,
    SeparateListType,
    StringListType,
    StringType,
    URLType,
    WordType,
)

READ = ("get", "list", "watch")
CHANGE = (*READ, "patch", "update")
OWN = (*READ, "create", "delete", "patch", "update")
EVENTS = AccessRule(("create", "patch"), ("events.k8s.io", ""), ("events",))
LEASES = AccessRule(("create", "get", "update"), ("coordination.k8s.io",), ("leases",))


def cluster_needs(server: APIServer) -> Iterator[AccessRule]:
    """What controllers on the cluster need, a rule for each resource."""
    groups = [group for group in server.controllers if isinstance(group, ClusterControllers)]
    controllers = [controller for group in groups for controller in group.controllers]
    yield from _needs(controllers, (), elected=any(group.election is not None for group in groups))
    # What those on the server's own objects tell, and which of them leads, is in the cluster too.
    beside = [found for found in server.controllers if not isinstance(found, ClusterControllers)]
    served = server.catalog.groups
    recorders = any(isinstance(found, ControllerBase | ControllerGroup) for found in beside)
    if recorders and EVENTS.api_groups[0] not in served:
        yield EVENTS
    if any(lease_of(found) for found in beside) and LEASES.api_groups[0] not in served:
        yield LEASES


def _needs(
    controllers: Sequence[ControllerBase[Any]], informers: Iterable[Informer[Any]], *, elected: bool
) -> Iterator[AccessRule]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for controller in controllers:
        for resource, needed in _of_controller(controller):
            verbs.setdefault(resource, set()).update(needed)
    for informer in informers:
        verbs.setdefault(_resource(informer.kind), set()).update(READ)
    for (group, plural), all_verbs in sorted(verbs.items()):
        yield AccessRule(tuple(sorted(all_verbs)), (group,), (plural,))
    if controllers:
        yield EVENTS
    if elected:
        yield LEASES


def _of_controller(controller: ControllerBase[Any]) -> Iterator[tuple[tuple[str, str], Iterable[str]]]:
    options = controller.__options__
    group, resource = _resource(controller.__kind__)
    yield (group, resource), CHANGE
    yield (group, f"{resource}/status"), ("patch", "update")
    if options.finalizer or options.owns:
        yield (group, f"{resource}/finalizers"), ("update",)  # who may set owners that block their deletion
    for kind in options.owns:
        yield _resource(kind), OWN
    for watched in options.watches:
        yield _resource(watched.kind), READ


def _resource(kind: Any) -> tuple[str, str]:
    """Group and plural of a declared class, or of ``group/version/Kind``."""
    if isinstance(kind, str):
        api_version, name = split_kind(kind)
        return GroupVersion.parse(api_version).group, plural_of(name)
    ref = ref_of_class(kind)
    return ref.group, ref.plural


def reached(text: str) -> tuple[str, int]:
    """``5432`` or ``10.0.0.0/8:5432`` as a block of addresses, empty for all, and a port. Raises ValueError."""
    block, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: write PORT or CIDR:PORT, such as 5432 or 10.0.0.0/8:5432")
    return (str(ip_network(block.strip("[]"))) if block else ""), int(port)


def allowed_rule(text: str) -> AccessRule:
    """``get,list:pods,deployments.apps`` as a rule; all resources of one rule in one group. Raises ValueError."""
    verbs, colon, resources = text.partition(":")
    named = [resource.partition(".")[::2] for resource in resources.split(",")]
    if not colon or not all(verbs.split(",")) or not all(name for name, _ in named):
        raise ValueError(f"{text!r}: write VERBS:RESOURCES, such as get,list,watch:nodes or get:deployments.apps")
    groups = {group for _, group in named}
    if len(groups) > 1:
        raise ValueError(f"{text!r} has resources of several groups: repeat the flag for each group")
    return AccessRule(tuple(verbs.split(",")), tuple(groups), tuple(name for name, _ in named))


CERTIFICATES = ("generated", "cert-manager", "renewed")
"""Where the serving certificate comes from; see --certificates."""


def _reached(text: str) -> str:
    reached(text)
    return text


def _plugin(text: str) -> str:
    """The name of an admission plugin. Raises ValueError."""
    if text not in CLUSTER_PLUGINS:
        raise ValueError(f"{text} is not one of {', '.join(CLUSTER_PLUGINS)}")
    return text


def _rule(text: str) -> str:
    allowed_rule(text)
    return text


SERVER, DEFINITIONS = "server", "crd"


@dataclass(frozen=True, kw_only=True, repr=False)
class ManifestOptions(ServerArgument):
    """The options of ``oarlock manifests``."""

    title = ""

    home: str = option(
        SERVER,
        WordType("HOME", SERVER, DEFINITIONS),
        "Where objects are stored. server: in the server's own store, behind the cluster's API server. crd: in "
        "the cluster, with CustomResourceDefinitions and webhooks.",
        in_file=False,
    )
    failure_policy: str = option(
        "Fail",
        WordType("POLICY", "Fail", "Ignore"),
        "What happens to writes while no webhook answers, with --home=crd: Fail refuses them, Ignore accepts them "
        "unchecked.",
        in_file=False,
    )
    namespace: str = option("", StringType("NAME"), "The namespace to run in.", short="n", in_file=False)
    image: str = option(
        "", StringType("IMAGE"), "The image to run, such as the output of oarlock image.", in_file=False
    )
    name: str = option(
        "",
        StringType("NAME"),
        "The name of the objects. By default the name of the APIServer, or that of its file.",
        in_file=False,
    )
    path_in_image: str = option(
        "",
        StringType("PATH"),
        "The argument of oarlock serve in the image. By default the server's file in the working directory.",
        in_file=False,
    )
    replicas: int = option(
        0,
        IntegerType(maximum=100),
        "The number of servers. 0 means two, and one if the store is for one process.",
        in_file=False,
    )
    storage: str = option(
        "",
        URLType(),
        "The shared store of the servers: postgresql://…, mysql://… or etcd://…. By default SQLite on a volume.",
        in_file=False,
    )
    storage_size: str = option("1Gi", StringType("QUANTITY"), "The size of the SQLite volume.", in_file=False)
    storage_class: str = option(
        "",
        StringType("NAME"),
        "The StorageClass of the SQLite volume. By default the cluster's.",
        in_file=False,
    )
    certificates: str = option(
        "renewed",
        StringType("WHO"),
        "Who makes the serving certificate. renewed: the servers, which also renew it. generated: this command, "
        "for a year. cert-manager: cert-manager.",
        in_file=False,
    )
    allow: tuple[str, ...] = option(
        (),
        SeparateListType("VERBS:RESOURCES", _rule),
        "Permit the server these verbs on resources of the cluster, such as get,list,watch:nodes or "
        "get:deployments.apps. The permissions of its ClusterControllers are included anyway. Repeat it for more.",
        in_file=False,
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        StringListType("PLUGINS", _plugin),
        "Don't apply these rules of the cluster to what is written to the server, and don't give it the rights for "
        f"them: {', '.join(CLUSTER_PLUGINS)}.",
        in_file=False,
    )
    egress: tuple[str, ...] = option(
        (),
        SeparateListType("PORT", _reached),
        "Let the server's own code connect to this port, of any address or of a block of addresses: 5432 or "
        "10.0.0.0/8:5432. DNS, HTTPS, the cluster and the store are permitted anyway. Repeat it for more.",
        in_file=False,
    )
    output: Path | None = option(
        None, PathType("DIR"), "Write a kustomize base to this directory instead of printing.", short="o", in_file=False
    )
    compare: bool = option(
        False,
        BooleanType(),
        "Compare with the cluster instead, and print what is missing or differs. The exit code is 1 if anything does.",
        flag="check",
        in_file=False,
    )
    kubeconfig: Path | None = option(
        None,
        PathType(),
        "The kubeconfig for --check; by default KUBECONFIG, a pod's service account, or ~/.kube/config.",
        in_file=False,
    )
    context: str = option("", StringType("NAME"), "The context of the kubeconfig to use.", in_file=False)

    def check(self) -> Iterator[Problem]:
        if not self.namespace or dns1123_label(self.namespace):
            yield Problem("namespace", "must be the name of a namespace, such as shop")
        if not self.image or any(character.isspace() for character in self.image):
            yield Problem("image", "must be the name of an image, such as registry.example.com/shop:1.0")
        if self.name and dns1035_label(self.name):
            yield Problem("name", "must be lower-case letters, digits and dashes, and begin with a letter")
        if self.certificates not in CERTIFICATES:
            yield Problem("certificates", f"must be one of {', '.join(CERTIFICATES)}")
        if self.storage.startswith("sqlite:"):
            yield Problem("storage", "must be a shared store: leave it out for SQLite on a volume")
        try:
            parse_quantity(self.storage_size)
        except QuantityError:
            yield Problem("storage_size", "must be a quantity, such as 10Gi")
        if self.home == DEFINITIONS and self.storage:
            yield Problem("storage", "leave it out: with `home` crd the cluster keeps the objects")
        if self.output is not None and self.compare:
            yield Problem("output", "writes, and `compare` writes nothing: leave one out")


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

    `needs` is what the server may do with objects of the cluster. `resources` and `code` are those of webhooks.
    """

    name: str
    options: ManifestOptions
    server: str
    replicas: int
    registrations: tuple[Registration, ...]
    definitions: tuple[ResourceDefinition, ...]
    needs: tuple[AccessRule, ...] = ()
    resources: tuple[Served, ...] = ()
    code: UserCode = UserCode()
    controllers: bool = False

    @property
    def namespace(self) -> str:
        return self.options.namespace

    @property
    def storage(self) -> str:
        return self.options.storage

    @property
    def volume(self) -> bool:
        """Whether objects are kept on a volume of the server's own."""
        return not self.storage and not self.webhooks

    @property
    def webhooks(self) -> bool:
        """Whether the cluster keeps the objects, and asks webhooks."""
        return self.options.home == DEFINITIONS

    @property
    def asks_webhooks(self) -> bool:
        """Whether the server calls webhooks of the cluster."""
        on = {*CLUSTER_PLUGINS} - {*self.options.disable_admission_plugins}
        return not self.webhooks and any(name.endswith("Webhook") for name in on)

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
    registrations = tuple(registrations_of(server))
    if not registrations:
        raise CommandError(f"{options.server}: it serves no resource: add resources to serve=[…]")
    if any(not registration.group for registration in registrations):
        raise CommandError(
            f"{options.server}: the core group belongs to the cluster: serve your resources in another group"
        )
    in_memory = options.storage.startswith("memory:")
    one_process = not options.storage or in_memory
    if one_process and options.replicas > 1:
        what = "memory" if in_memory else "SQLite on a volume"
        raise CommandError(f"--replicas={options.replicas}: {what} is for one server: set --storage to a shared store")
    return Plan(
        name=options.name or service_name(server.name, options.server),
        options=options,
        server=options.path_in_image or sources_of(options.server).argument,
        replicas=options.replicas or (1 if one_process else 2),
        registrations=registrations,
        definitions=tuple(resource.definition for resource in server.catalog.resources),
        needs=(
            *rights_of([name for name in CLUSTER_PLUGINS if name not in options.disable_admission_plugins]),
            FLOW_CONTROL_RIGHTS,
            *cluster_needs(server),
            *(allowed_rule(text) for text in options.allow),
        ),
    )


def plan_of_webhooks(code: DeclaredCode, options: ManifestOptions) -> Plan:
    """What `options` and the declared classes say, for a cluster that keeps their objects. Raises `CommandError`."""
    resources = tuple(reviewed(code.resources))
    if not resources:
        raise CommandError(f"{options.server}: it stores no resource of its own: add resources to serve=[…]")
    needs = _needs(code.controllers, code.user_code.informers, elected=bool(code.controllers))
    return Plan(
        name=options.name or service_name(code.name, options.server),
        options=options,
        server=options.path_in_image or sources_of(options.server).argument,
        replicas=options.replicas or 2,
        registrations=(),
        definitions=tuple(served.definition for served in resources),
        needs=(*needs, *(allowed_rule(text) for text in options.allow)),
        resources=resources,
        code=code.user_code,
        controllers=bool(code.controllers),
    )


def registrations_of(server: APIServer) -> Iterator[Registration]:
    """The versions that a server answers for."""
    for group in server.catalog.in_order():
        count = len(group.versions)
        for position, version in enumerate(group.versions):
            yield Registration(group.name, version, VERSION_STEP * (count - position))


def service_name(given: str, where: str) -> str:
    """A name for the objects of a server, which is called `given` and is at `where`. Raises `CommandError`."""
    if given != DEFAULT_NAME and not dns1035_label(given):
        return given
    module = where.partition(":")[0]
    stem = Path(module).stem if module.endswith(".py") else module.rpartition(".")[2]
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if dns1035_label(name):
        raise CommandError(f"{where}: {name or stem!r} isn't a valid name of a Service: set --name")
    return name
