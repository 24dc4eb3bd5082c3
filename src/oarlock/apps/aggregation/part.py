"""All of the aggregation app, as a control plane takes it."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.apps.aggregation.trust import BackendTrust, ProxyCertificate
from oarlock.apps.controllers.api_services import (
    Availability,
    LocalRegistration,
    MadeProxyCertificate,
    VersionForwarding,
)
from oarlock.apps.controllers.own_objects import PublishedTrust
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.apiregistration import APIService, APIServiceStatus, ServiceReference
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer
from oarlock.meta import names
from oarlock.meta.context import Context
from oarlock.meta.fielderrors import FieldError, Invalid, NotSupported, Required
from oarlock.registry.hooks.collection import StoredCollection

HIGHEST_GROUP, HIGHEST_VERSION = 20_000, 1_000
HTTPS = 443
_STATUSES = ["True", "False", "Unknown"]
_PORT = "port is not valid: must be between 1 and 65535, inclusive"


class APIServiceCollection(StoredCollection[APIService]):
    """APIServices name a backend, or nobody for this server itself."""

    def prepare(self, new: APIService, old: APIService | None, ctx: Context) -> None:
        if old is None:
            new.status = APIServiceStatus()
        if new.spec.service is not None and new.spec.service.port is None:
            new.spec.service.port = HTTPS

    def validate(self, new: APIService, old: APIService | None, ctx: Context) -> Iterator[FieldError]:
        spec = new.spec
        name = f"{spec.version}.{spec.group}"
        if new.metadata.name != name:
            yield Invalid("metadata.name", new.metadata.name, f'must be `spec.version+"."+spec.group`: "{name}"')
        if spec.group:
            for text in names.dns1123_subdomain(spec.group):
                yield Invalid("spec.group", spec.group, text)
        elif spec.version != "v1":
            yield Required("spec.group", "only v1 may have an empty group and it better be legacy kube")
        for text in names.dns1035_label(spec.version):
            yield Invalid("spec.version", spec.version, text)
        if not 0 < spec.group_priority_minimum <= HIGHEST_GROUP:
            text = f"must be positive and less than {HIGHEST_GROUP}"
            yield Invalid("spec.groupPriorityMinimum", spec.group_priority_minimum, text)
        if not 0 < spec.version_priority <= HIGHEST_VERSION:
            text = f"must be positive and less than {HIGHEST_VERSION}"
            yield Invalid("spec.versionPriority", spec.version_priority, text)
        for at, condition in enumerate(new.status.conditions if new.status is not None else ()):
            if condition.status not in _STATUSES:
                yield NotSupported(f"status.conditions[{at}].status", condition.status, _STATUSES)
        if spec.service is None:
            yield from _local(new)
            return
        yield from _service(spec.service)
        if spec.insecure_skip_tls_verify and spec.ca_bundle:
            yield Invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _local(new: APIService) -> Iterator[FieldError]:
    if new.spec.ca_bundle:
        yield Invalid("spec.caBundle", new.spec.ca_bundle, "local APIServices may not have a caBundle")
    if new.spec.insecure_skip_tls_verify:
        yield Invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")


def _service(service: ServiceReference) -> Iterator[FieldError]:
    if not service.namespace:
        yield Required("spec.service.namespace")
    if not service.name:
        yield Required("spec.service.name")
    if service.port is not None and not 0 < service.port < 65_536:
        yield Invalid("spec.service.port", service.port, _PORT)


def aggregation_part(around: PartSurroundings, published: PublishedTrust) -> ControlPlanePart:
    """Groups and versions that other servers answer for. An authority that is made for it is `published`."""
    certificate, key = around.options.proxy_client_cert_file, around.options.proxy_client_key_file
    made = MadeProxyCertificate(around.front_proxy, published.publish_own) if certificate is None else None
    registered, trust = Informer(APIService), BackendTrust(made or ProxyCertificate(certificate, key))
    forwarding = VersionForwarding(around.live, registered, trust)
    own = {} if made is None else {"front-proxy-certificate-controller": made}

    async def start(client: Client) -> None:
        published.begin()
        if made is not None:
            made.begin()
        await forwarding.start(client)

    return ControlPlanePart(
        "aggregation",
        serve=[APIServiceCollection],
        informers=[registered],
        controllers={
            "apiservice-forwarding": forwarding,
            "apiservice-registration-controller": LocalRegistration(around.live, registered),
            "apiservice-status-remote-available-controller": Availability(trust),
            **own,
        },
        everywhere=("apiservice-forwarding", *own),
        start=start,
    )
