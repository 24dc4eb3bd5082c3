"""Looks at APIServices of a cluster, and prints one page. See also: `checks`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from oarlock.cli.doctor.checks import look_at
from oarlock.cli.doctor.cluster import ClusterView, Missing, Unreadable
from oarlock.cli.doctor.findings import Finding, FindingState
from oarlock.cli.doctor.options import DoctorOptions
from oarlock.client.client import Client
from oarlock.client.connecting import connect
from oarlock.client.login.config import ClientConfigError
from oarlock.client.login.kubeconfig import load_config
from oarlock.client.retries import RetryPolicy
from oarlock.client.transport import TransportError
from oarlock.meta.json_trees import Tree
from oarlock.server.command import CommandError

__all__ = ["page", "run"]

DEADLINE_S = 60.0
PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


def run(options: DoctorOptions) -> int:
    """The exit code: 1 if something is wrong. Raises `CommandError`."""
    try:
        client = connect(load_config(options.kubeconfig, context=options.context))
        lines, healthy = asyncio.run(_examine(client, options.api_service))
    except (ClientConfigError, TransportError, ValueError) as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"the cluster takes longer than {DEADLINE_S:g} s to answer") from None
    for line in lines:
        print(line)
    return 0 if healthy else 1


async def _examine(client: Client, name: str) -> tuple[list[str], bool]:
    async with asyncio.timeout(DEADLINE_S), client:
        return await page(client, name, time.time())


async def page(client: Client, name: str, now: float) -> tuple[list[str], bool]:
    """The lines of the page, and whether everything is as it should be. Raises `CommandError`, TransportError.

    `name` is the APIService to look at; ``""`` is all that name a Service.
    """
    view = ClusterView(client.using(retries=RetryPolicy(retries=0)))
    lines: list[str] = []
    healthy = True
    for api_service in await _api_services(view, name):
        findings = [finding async for finding in look_at(view, api_service, now)]
        wrong = [finding for finding in findings if finding.state is FindingState.BAD]
        healthy = healthy and not wrong
        lines += [*([""] if lines else []), f"APIService {api_service['metadata']['name']}"]
        lines += [line for finding in findings for line in _lines(finding)]
        cause = next((finding for finding in wrong if finding.subject != "Available"), None)
        if cause is not None:
            lines.append(f"  first to do: {cause.subject} {cause.text}: {cause.advice}")
    return lines or ["there is no APIService that names a Service"], healthy


async def _api_services(view: ClusterView, name: str) -> list[Tree]:
    try:
        found = [await view.read(f"{PATH}/{name}")] if name else await view.items(PATH)
    except Missing:
        what = f"APIService {name}" if name else "resource APIService"
        raise CommandError(f"the cluster has no {what}; kubectl get apiservices shows what there is") from None
    except Unreadable as error:
        raise CommandError(f"APIServices can't be read: {error}") from None
    remote = [api_service for api_service in found if (api_service.get("spec") or {}).get("service")]
    if name and not remote:
        raise CommandError(f"APIService {name} names no Service: the cluster serves it itself")
    return remote


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.state.value:<4}{finding.subject}: {' '.join(finding.text.split())}"
    if finding.advice:
        yield f"      → {finding.advice}"
