"""`AggregationPart`: all of the aggregation app, as a control plane takes it. See also: ``controlplane.parts``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from oarlock.apps.aggregation.api_services import APIServiceCollection
from oarlock.apps.aggregation.certificate import ProxyCertificate
from oarlock.apps.aggregation.trust import BackendTrust
from oarlock.apps.controllers.api_services.availability import Availability
from oarlock.apps.controllers.api_services.forwarding import VersionForwarding
from oarlock.apps.controllers.api_services.registration import LocalRegistration
from oarlock.apps.kinds.apiregistration import APIService
from oarlock.client.client import Client
from oarlock.client.informer import Informer
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.live_catalog import LiveCatalog

__all__ = ["AggregationPart"]


class AggregationPart:
    """What `APIServer` is given for APIServices; `live` is that server's, `certificate` shows it to backends."""

    def __init__(self, live: LiveCatalog, certificate: ProxyCertificate) -> None:
        registered = Informer(APIService)
        trust = BackendTrust(certificate)
        forwarding = VersionForwarding(live, registered, trust)
        self.serve: Sequence[Any] = [APIServiceCollection]
        self.informers: Sequence[Informer[Any]] = [registered]
        self.controllers: Mapping[str, Runnable] = {
            "apiservice-forwarding": forwarding,
            "apiservice-registration-controller": LocalRegistration(live, registered),
            "apiservice-status-remote-available-controller": Availability(trust),
        }
        self.start: Callable[[Client], Awaitable[None]] = forwarding.start
