"""What a control plane is made of: a list of `ControlPlanePart`.

Whoever adds to the control plane writes a module beside this one, with a function that makes its part, and lists it in
`standard_parts`. A part is made anew for each control plane: informers and plugins belong to one server.
See also: `control_plane`, which puts them together.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from oarlock.apps.admission.configuration_file import AdmissionConfiguration
from oarlock.apps.admission.part import WebhooksPart
from oarlock.apps.admission.permissions import permissions_of
from oarlock.apps.admission.policy_part import PolicyPart
from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.apps.aggregation.part import AggregationPart
from oarlock.apps.controllers.api_services.made_certificate import MadeProxyCertificate
from oarlock.apps.controllers.certificates.approving import ApprovingController
from oarlock.apps.controllers.certificates.authority import SigningAuthority
from oarlock.apps.controllers.certificates.cleaning import CleaningController
from oarlock.apps.controllers.certificates.permissions import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from oarlock.apps.controllers.certificates.requests import CertificateRequests
from oarlock.apps.controllers.certificates.signing import SigningController
from oarlock.apps.controllers.flow_control import FlowControl
from oarlock.apps.controllers.garbage.collector import GarbageCollector
from oarlock.apps.controllers.garbage.owners_admission import OwnerPermission
from oarlock.apps.controllers.migration import MigrateResource, StorageMigration, StorageMigrations
from oarlock.apps.controllers.namespaces.deletion import NamespaceDeletion
from oarlock.apps.controllers.namespaces.root_ca import RootCaPublisher
from oarlock.apps.controllers.namespaces.service_accounts import DefaultServiceAccounts
from oarlock.apps.controllers.own_objects.identity_leases import IdentityLeases
from oarlock.apps.controllers.own_objects.objects import OwnObjects, keep_tracking
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controllers.own_objects.upkeep import Upkeep
from oarlock.apps.controllers.quota.admission import QuotaAdmission
from oarlock.apps.controllers.quota.charging import QuotaLedger
from oarlock.apps.controllers.quota.limiting import LimitRanger
from oarlock.apps.controllers.quota.limits import LimitRangeCollection
from oarlock.apps.controllers.quota.quotas import ResourceQuotaCollection
from oarlock.apps.controllers.quota.recount import QuotaRecount
from oarlock.apps.controllers.roles.aggregation import RoleAggregation
from oarlock.apps.controllers.roles.default_roles import create_default_roles
from oarlock.apps.controllers.token_secrets import TokenSecrets
from oarlock.apps.controlplane.collections.access_reviews import (
    LocalSubjectAccessReviews,
    SelfSubjectAccessReviews,
    SelfSubjectRulesReviews,
    SubjectAccessReviews,
)
from oarlock.apps.controlplane.collections.config_maps import ConfigMapCollection
from oarlock.apps.controlplane.collections.escalation import (
    BindingEscalation,
    ClusterBindingEscalation,
    ClusterRoleEscalation,
    RoleEscalation,
)
from oarlock.apps.controlplane.collections.events import EventCollection
from oarlock.apps.controlplane.collections.flow_schemas import FlowSchemaCollection, PriorityLevelCollection
from oarlock.apps.controlplane.collections.identities import (
    IdentitiesSource,
    SelfSubjectReviews,
    ServiceAccounts,
    TokenReviews,
)
from oarlock.apps.controlplane.collections.leases import LeaseCollection
from oarlock.apps.controlplane.collections.namespaces import (
    NamespaceCollection,
    NamespaceLifecycle,
    create_system_namespaces,
)
from oarlock.apps.controlplane.collections.roles import (
    ClusterRoleBindingCollection,
    ClusterRoleCollection,
    RoleBindingCollection,
    RoleCollection,
)
from oarlock.apps.controlplane.collections.secrets import SecretCollection
from oarlock.apps.controlplane.options import ControlPlaneOptions
from oarlock.apps.crds.part import DefinitionsPart
from oarlock.apps.kinds import events
from oarlock.apps.kinds.core import objects as core
from oarlock.apps.kinds.pods.hooks import PodHooks
from oarlock.apps.kinds.quotas import LimitRange, ResourceQuota
from oarlock.apps.workloads.node_ports import port_range
from oarlock.apps.workloads.part import workloads
from oarlock.client.client import Client
from oarlock.client.informer import Informer
from oarlock.meta.dataclass import dataclass
from oarlock.net.trust import trusting
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.policy.admission.counts import AdmissionCounts
from oarlock.policy.admission.expressions.waiting import ExpressionRunner
from oarlock.policy.admission.plugin import Admission
from oarlock.policy.authn.tokens.token_issuer import TokenIssuer
from oarlock.policy.authz.access import Access
from oarlock.schema.types.declaring import KeywordError
from oarlock.server.address import ServerAddress
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.live_catalog import LiveCatalog
from oarlock.storage.backend import Backend

__all__ = ["ControlPlanePart", "PartSurroundings", "standard_parts"]

log = logging.getLogger("oarlock.controlplane")


@dataclass(frozen=True, slots=True)
class ControlPlanePart:
    """What one part adds to the server; see `APIServer` for each field.

    `name` is what ``disable`` calls it. `controllers` are by the names that ``--controllers`` takes: those of
    kube-controller-manager where it has the same one. Those that are `everywhere` run on each of several servers of a
    store, the others on one of them. `needs` are the parts that this one can't be without. `start` is
    called once everything is served, before anybody is told that the server is ready; that of a part that
    `fills_catalog` serves more.
    """

    name: str
    serve: Sequence[Any] = ()
    admission: Sequence[Admission[Any] | AdmissionPlugin] = ()
    informers: Sequence[Informer[Any]] = ()
    controllers: Mapping[str, Runnable] = field(default_factory=dict)
    everywhere: Sequence[str] = ()
    needs: Sequence[str] = ()
    fills_catalog: bool = False
    start: Callable[[Client], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class PartSurroundings:
    """What parts are given of the server that they are made for.

    `identities` are those that it lets in, and `address` is where it is reached, both once it runs; `access` asks what
    somebody may do; `live` is what it serves; `options` are the control plane's; `migrate` rewrites stored objects, and
    `store` has them, once it runs;
    `certificates` is where it keeps those that it makes, None in memory, `signs` whether clients are let in by what an
    authority of its own signs, and `front_proxy` where it keeps the one that
    it shows to backends, None if it makes none; `pods` answers for kubelets. Calls of webhooks are counted in
    `admission_counts`.
    """

    identities: IdentitiesSource
    address: Callable[[], ServerAddress | None]
    access: Access
    live: LiveCatalog
    options: ControlPlaneOptions
    migrate: MigrateResource
    store: Callable[[], Backend]
    certificates: Callable[[], Path | None] = lambda: None
    signs: Callable[[], bool] = lambda: True
    front_proxy: Callable[[], Path | None] = lambda: None
    pods: PodHooks | None = None
    admission_counts: AdmissionCounts = field(default_factory=AdmissionCounts)


def standard_parts(around: PartSurroundings) -> list[ControlPlanePart]:
    """Every part, in the order in which their admission plugins are asked and their `start` is called."""
    around = _told_address(around)
    namespaces, runner = Informer(core.Namespace), ExpressionRunner(permissions_of(around.access))
    trust = PublishedTrust(around.identities)
    return [
        _definitions(around.live, around.store),
        _aggregation(around, trust),
        _namespaces(around.live, namespaces),
        _configuration(),
        _identities(around, trust),
        _coordination(),
        _access(around.access),
        _flow_control(),
        _workloads(around),
        _garbage_collection(around),
        _system_objects(around, trust),
        _certificates(around),
        ControlPlanePart(
            "storagemigration",
            serve=[StorageMigrations],
            controllers={"storage-version-migrator-controller": StorageMigration(around.migrate)},
        ),
        _policies(around, namespaces, runner),
        _webhooks(around, namespaces, runner),
        _quotas(around.live),
    ]


def _definitions(live: LiveCatalog, store: Callable[[], Backend]) -> ControlPlanePart:
    """Resources that are defined by objects. The first, so that all others find what is defined."""
    part = DefinitionsPart(live, store)
    return ControlPlanePart(
        "crds",
        serve=part.serve,
        informers=part.informers,
        controllers=part.controllers,
        everywhere=(*part.controllers,),
        fills_catalog=True,
        start=part.start,
    )


def _aggregation(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """Groups and versions that other servers answer for."""
    certificate, key = around.options.proxy_client_cert_file, around.options.proxy_client_key_file
    made = MadeProxyCertificate(around.front_proxy, trust.publish_own) if certificate is None else None
    part = AggregationPart(around.live, made or ProxyCertificate(certificate, key))
    own = {} if made is None else {"front-proxy-certificate-controller": made}

    async def start(client: Client) -> None:
        trust.begin()
        if made is not None:
            made.begin()
        await part.start(client)

    return ControlPlanePart(
        "aggregation",
        serve=part.serve,
        informers=part.informers,
        controllers={**part.controllers, **own},
        everywhere=("apiservice-forwarding", *own),
        start=start,
    )


def _namespaces(live: LiveCatalog, known: Informer[core.Namespace]) -> ControlPlanePart:
    """Namespaces, and what they ask of every object in them. `known` are those that there are, for other parts too."""
    return ControlPlanePart(
        "namespaces",
        serve=[NamespaceCollection],
        admission=[NamespaceLifecycle(known)],
        informers=[known],
        controllers={"namespace-controller": NamespaceDeletion(live)},
        start=create_system_namespaces,
    )


def _configuration() -> ControlPlanePart:
    """Configuration and secrets of programs."""
    return ControlPlanePart("configuration", serve=[ConfigMapCollection, SecretCollection])


def _identities(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """Identities of programs, and questions about identities."""
    identities = around.identities

    def ca() -> bytes | None:
        address = around.address()
        return None if address is None else address.ca

    async def start(client: Client) -> None:
        if around.identities() is not None and ca() is None:
            log.warning("kube-root-ca.crt is published nowhere: say by --root-ca-file who signed --tls-cert-file")
        await trust.publish(client)

    def issuer() -> TokenIssuer | None:
        known = identities()
        return None if known is None else known.issuer

    return ControlPlanePart(
        "identities",
        serve=[ServiceAccounts(identities), TokenReviews(identities), SelfSubjectReviews],
        controllers={
            "serviceaccount-controller": DefaultServiceAccounts(),
            "serviceaccount-token-controller": TokenSecrets(issuer, ca),
            "root-ca-certificate-publisher-controller": RootCaPublisher(ca),
        },
        needs=("namespaces", "configuration"),
        start=start,
    )


def _told_address(around: PartSurroundings) -> PartSurroundings:
    """`around` whose address has the CAs of ``--root-ca-file``, if they are given. Raises KeywordError."""
    file, address = around.options.root_ca_file, around.address
    if file is None:
        return around
    try:
        text = file.read_bytes()
        trusting(text)
    except (OSError, ValueError) as error:
        raise KeywordError(
            "ControlPlane", f"root_ca_file={file}", f"it holds no certificates in PEM: {error}"
        ) from error

    def told() -> ServerAddress | None:
        found = address()
        return None if found is None else replace(found, ca=text)

    return replace(around, address=told)


def _coordination() -> ControlPlanePart:
    """What programs agree on and tell: leases and events."""
    return ControlPlanePart(
        "coordination",
        serve=[LeaseCollection, EventCollection, events.Event],
        controllers={"apiserver-identity-lease-controller": IdentityLeases()},
    )


def _access(access: Access) -> ControlPlanePart:
    """Roles and who has them; reviews of what somebody may do."""
    return ControlPlanePart(
        "access",
        serve=[
            RoleCollection,
            ClusterRoleCollection,
            RoleBindingCollection,
            ClusterRoleBindingCollection,
            SubjectAccessReviews(access),
            LocalSubjectAccessReviews(access),
            SelfSubjectAccessReviews(access),
            SelfSubjectRulesReviews(access),
        ],
        admission=[
            RoleEscalation(access),
            ClusterRoleEscalation(access),
            BindingEscalation(access),
            ClusterBindingEscalation(access),
        ],
        controllers={"clusterrole-aggregation-controller": RoleAggregation()},
        start=create_default_roles,
    )


def _workloads(around: PartSurroundings) -> ControlPlanePart:
    """Kubernetes' workload kinds: pods, services, deployments and their like."""
    options = around.options
    ports = port_range(options.service_node_port_range)
    made = workloads(options.service_cluster_ip_range, ports, around.store, around.pods)
    return ControlPlanePart(
        "workloads",
        serve=made.serve,
        admission=made.admission,
        controllers=made.controllers,
        everywhere=(*made.controllers,),
        start=made.start,
    )


def _flow_control() -> ControlPlanePart:
    """How requests share the server."""
    return ControlPlanePart(
        "flowcontrol",
        serve=[FlowSchemaCollection, PriorityLevelCollection],
        controllers={"priority-and-fairness-controller": FlowControl()},
        everywhere=("priority-and-fairness-controller",),
    )


def _garbage_collection(around: PartSurroundings) -> ControlPlanePart:
    """What becomes of objects whose owners are gone, and who sets owners."""
    return ControlPlanePart(
        "garbagecollection",
        admission=[OwnerPermission(around.access, around.live)],
        controllers={"garbage-collector-controller": GarbageCollector(around.live)},
    )


def _system_objects(around: PartSurroundings, trust: PublishedTrust) -> ControlPlanePart:
    """What the server says of itself in objects, and brings back when it is removed."""
    own = OwnObjects(around.address, around.options)
    steps = (create_system_namespaces, trust.publish, own.publish, keep_tracking)
    return ControlPlanePart(
        "systemobjects",
        controllers={"system-objects-controller": Upkeep(own.renew, steps)},
        everywhere=("system-objects-controller",),
        needs=("namespaces", "configuration", "coordination"),
        start=own.start,
    )


def _policies(
    around: PartSurroundings, namespaces: Informer[core.Namespace], runner: ExpressionRunner
) -> ControlPlanePart:
    """What must be true of requests, in CEL. Asked when every object is final, and before quotas are charged."""
    made = PolicyPart(around.live, around.access, runner, namespaces, around.admission_counts.policies)
    return ControlPlanePart(
        "policies",
        serve=made.serve,
        admission=made.admission,
        informers=made.informers,
        controllers=made.controllers,
        needs=("namespaces",),
        start=made.start,
    )


def _webhooks(
    around: PartSurroundings, namespaces: Informer[core.Namespace], runner: ExpressionRunner
) -> ControlPlanePart:
    """Programs elsewhere that are asked about what is written."""
    file = around.options.admission_control_config_file
    configuration = AdmissionConfiguration() if file is None else AdmissionConfiguration.read(file)
    part = WebhooksPart(namespaces, runner, around.admission_counts, configuration.kubeconfigs)
    return ControlPlanePart(
        "webhooks",
        serve=part.serve,
        admission=part.admission,
        informers=part.informers,
        controllers=part.controllers,
        everywhere=(*part.controllers,),
        needs=("namespaces",),
        start=part.start,
    )


def _quotas(live: LiveCatalog) -> ControlPlanePart:
    """How much of what namespaces may have. Asked last, so that nothing is charged that others refuse."""
    quotas, ranges, ledger = Informer(ResourceQuota), Informer(LimitRange), QuotaLedger()

    async def start(client: Client) -> None:
        ledger.client = client

    return ControlPlanePart(
        "quotas",
        serve=[ResourceQuotaCollection, LimitRangeCollection],
        admission=[LimitRanger(ranges), QuotaAdmission(quotas, ledger)],
        informers=[quotas, ranges],
        controllers={"resourcequota-controller": QuotaRecount(live)},
        needs=("namespaces",),
        start=start,
    )


def _certificates(around: PartSurroundings) -> ControlPlanePart:
    """Certificates on request."""
    options, access = around.options, around.access

    def authority(now: float) -> SigningAuthority | None:
        longest = timedelta(seconds=options.cluster_signing_duration_s)
        certificate, key = options.cluster_signing_cert_file, options.cluster_signing_key_file
        if certificate is not None and key is not None:
            return SigningAuthority.read(certificate, key, longest)
        if not around.signs():
            return None
        directory = around.certificates()
        return (
            SigningAuthority.made(now, longest) if directory is None else SigningAuthority.kept(directory, now, longest)
        )

    in_use: list[SigningAuthority | None] = []

    async def start(client: Client) -> None:
        in_use.clear()  # a server that ran before may have had another directory

    def kept(now: float) -> SigningAuthority | None:
        if not in_use:
            in_use.append(authority(now))
        return in_use[0]

    return ControlPlanePart(
        "certificates",
        serve=[CertificateRequests],
        admission=[CertificateApproval(access), CertificateSigning(access), CertificateSubjectRestriction()],
        controllers={
            "certificatesigningrequest-approving-controller": ApprovingController(access),
            "certificatesigningrequest-signing-controller": SigningController(kept),
            "certificatesigningrequest-cleaner-controller": CleaningController(),
        },
        start=start,
    )
