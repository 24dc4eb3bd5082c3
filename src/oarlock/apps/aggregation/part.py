"""All of the aggregation app, as a control plane takes it."""

from __future__ import annotations

from oarlock.apps.aggregation.api_services import APIServiceCollection
from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.controllers.api_services.availability import Availability
from oarlock.apps.controllers.api_services.forwarding import VersionForwarding
from oarlock.apps.controllers.api_services.made_certificate import MadeProxyCertificate
from oarlock.apps.controllers.api_services.registration import LocalRegistration
from oarlock.apps.controllers.own_objects.published_trust import PublishedTrust
from oarlock.apps.controlplane.part import ControlPlanePart, PartSurroundings
from oarlock.apps.kinds.apiregistration import APIService
from oarlock.client.client import Client
from oarlock.client.informers.informer import Informer

__all__ = ["aggregation_part"]


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
