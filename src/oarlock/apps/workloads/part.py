"""What Kubernetes' workload kinds add to a control plane; nothing where their data isn't installed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarlock.apps.kinds.released.release import HINT, NoReleases, installed, newest_release
from oarlock.apps.workloads.late_client import LateClient
from oarlock.apps.workloads.pods import pod_subresources
from oarlock.apps.workloads.serving import released_resources
from oarlock.client.client import Client
from oarlock.policy.admission.chain import AdmissionPlugin
from oarlock.server.own_work import Runnable

__all__ = ["Workloads", "workloads"]

log = logging.getLogger("oarlock.server")


@dataclass(frozen=True, slots=True)
class Workloads:
    """What is served, who is asked about writes, and what runs."""

    serve: Sequence[Any] = ()
    admission: Sequence[AdmissionPlugin] = ()
    controllers: Mapping[str, Runnable] = field(default_factory=dict)
    start: Callable[[Client], Awaitable[None]] | None = None


def workloads() -> Workloads:
    """The workload kinds of the newest release that is installed. Tells it in one line if none is."""
    if not installed():
        log.warning("only Kubernetes' control plane kinds are served: %s", HINT)
        return Workloads()
    try:
        release = newest_release()
    except NoReleases as error:
        log.warning("only Kubernetes' control plane kinds are served: %s", error)
        return Workloads()
    late = LateClient()
    serve = released_resources(release, {("", "pods"): pod_subresources(late)})
    return Workloads(serve, start=late.begin)
