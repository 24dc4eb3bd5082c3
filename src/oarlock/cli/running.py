"""``oarlock run``: the controllers of a file, against the server that a kubeconfig or a pod's service account names.

The same file may have an `APIServer` that runs them: it isn't started here. A page of its own has the metrics.
Must not know: how controllers work. See also: ``controllers.running.group``; `loading`, which finds the controllers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oarlock.cli.cluster_options import ElectionOptions, RunOptions
from oarlock.cli.loading import load_controllers
from oarlock.client.client import Client
from oarlock.client.clock import SystemClock
from oarlock.client.http_transport import connect
from oarlock.client.keywords import RetryPolicy
from oarlock.client.login.kubeconfig import ClientConfig, ClientConfigError, load_config
from oarlock.client.transport import TransportError
from oarlock.codec.prometheus_text import metrics_text
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.metrics import controller_families
from oarlock.controllers.running.group import ControllerGroup
from oarlock.controllers.running.leases import LeaderElection
from oarlock.meta.errors import NotFound, StatusError
from oarlock.net.backoff import Backoff
from oarlock.server.command import CommandError, set_up_logging

LEASE = "coordination.k8s.io/v1/Lease"

REQUEST_S = 5.0
MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 32


class NumbersPage:
    """Serves at `address`, ``host:port`` or a port of 127.0.0.1. Raises CommandError for another text."""

    def __init__(self, address: str, controllers: Sequence[ControllerBase[Any]]) -> None:
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise CommandError(f"--metrics-bind-address {address!r}: write ADDRESS:PORT, such as 127.0.0.1:8080")
        self._address = address
        self._host = host.strip("[]") or "127.0.0.1"
        self._port = int(port)
        self._controllers = controllers
        self._server: asyncio.Server | None = None
        self._open = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._connected, self._host, self._port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            what = f"cannot listen on {self._address}: {error.strerror or error}"
            raise CommandError(f"{what}: choose another --metrics-bind-address") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return _response("405 Method Not Allowed", b"only GET\n")
        if path == b"/healthz":
            return _response("200 OK", b"ok\n")
        if path != b"/metrics":
            return _response("404 Not Found", b"there are /metrics and /healthz\n")
        numbers = [numbers for controller in self._controllers for numbers in controller.numbers()]
        text = await asyncio.to_thread(metrics_text, controller_families(numbers))
        return _response("200 OK", text, "text/plain; version=0.0.4; charset=utf-8")


def _response(status: str, body: bytes, content_type: str = "text/plain") -> bytes:
    lines = (
        f"HTTP/1.1 {status}",
        f"content-type: {content_type}",
        f"content-length: {len(body)}",
        "x-content-type-options: nosniff",
        "connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


AGAIN = Backoff(1.0, 30.0)


def run(options: RunOptions) -> int:
    """Run controllers until SIGTERM or SIGINT: the exit code. Raises CommandError, DeclarationError."""
    set_up_logging(options.verbosity)
    controllers = load_controllers(options.controllers)
    try:
        config = load_config(options.kubeconfig, context=options.context)
        groups = _groups(controllers, options, config)
        client = connect(config, field_manager=Path(options.controllers.partition(":")[0]).stem)
    except (ClientConfigError, TransportError, ValueError) as error:
        raise CommandError(str(error)) from None
    page = None if not options.metrics_bind_address else NumbersPage(options.metrics_bind_address, controllers)
    asyncio.run(_run(groups, client, config, page))
    return 0


def _print(line: str) -> None:
    print(f"oarlock: {line}", file=sys.stderr, flush=True)


def election_of(options: ElectionOptions, where: str, namespace: str) -> LeaderElection | None:
    """The election that the options ask for. The controllers are at `where`; the Lease is in `namespace` by default."""
    if not options.leader_elect:
        return None
    name = options.leader_elect_resource_name or Path(where.partition(":")[0]).stem.replace("_", "-")
    lease = f"{options.leader_elect_resource_namespace or namespace}/{name}"
    return LeaderElection(lease, times=options.times())


def by_lease(
    controllers: Sequence[ControllerBase[object]], election: LeaderElection | None
) -> Iterator[tuple[Sequence[ControllerBase[object]], LeaderElection | None]]:
    """Those that have the same lease together, with its election; those without one under that of `election`."""
    groups: dict[str, list[ControllerBase[object]]] = {}
    for controller in controllers:
        groups.setdefault(controller.__options__.lease, []).append(controller)
    for lease, several in groups.items():
        yield several, replace(election, lease=lease or election.lease) if election else None


def _groups(
    controllers: Sequence[ControllerBase[object]], options: RunOptions, config: ClientConfig
) -> list[ControllerGroup]:
    election = election_of(options, options.controllers, options.namespace or config.namespace)
    return [
        ControllerGroup(
            several,
            election=own,
            namespace=options.namespace,
            grace_s=options.graceful_shutdown_timeout_s,
            tell=_print,
        )
        for several, own in by_lease(controllers, election)
    ]


async def _run(
    groups: Sequence[ControllerGroup], client: Client, config: ClientConfig, page: NumbersPage | None
) -> None:
    leaving = _signal_event()
    async with client, page or contextlib.nullcontext():
        if page is not None:
            _print(f"metrics at http://{page.address}/metrics")
        work = asyncio.ensure_future(_work(groups, client, config))
        leave = asyncio.ensure_future(leaving.wait())
        try:
            await asyncio.wait((work, leave), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                _print("stopping")
        finally:
            work.cancel()
            leave.cancel()
            await asyncio.wait((work, leave))
        if not work.cancelled():
            work.result()
    _print("stopped")


async def _work(groups: Sequence[ControllerGroup], client: Client, config: ClientConfig) -> None:
    await _reach(client, config)
    await check_leases(groups, client)
    clock = SystemClock()
    running = [asyncio.ensure_future(group.run(client, clock)) for group in groups]
    try:
        await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


async def _reach(client: Client, config: ClientConfig) -> None:
    """Wait until the server answers. Raises CommandError when it doesn't accept our credentials."""
    pauses = AGAIN.pauses()
    client = client.using(retries=RetryPolicy(retries=0))
    while True:
        try:
            version = await client.request("GET", "/version")
        except TransportError as error:
            _print(f"the server can't be reached, trying again in {pauses.next_s:g} s: {error}")
        except StatusError as error:
            if error.code == 401:
                raise CommandError(f"{config.server} doesn't accept the credentials: {error.message}") from None
            if error.code not in (429, 500, 503, 504):
                _print(f"connected to {config.server}")
                return
            _print(f"{config.server} isn't ready, trying again in {pauses.next_s:g} s: {error.message}")
        else:
            release = version.get("gitVersion", "") if isinstance(version, dict) else ""
            _print(f"connected to {config.server} {release}".rstrip())
            return
        await asyncio.sleep(pauses.take())


async def check_leases(groups: Sequence[ControllerGroup], client: Client) -> None:
    """Raises CommandError if a group has to hold a Lease and the server has none."""
    lease = next((group.needed_lease() for group in groups if group.needed_lease()), "")
    if not lease:
        return
    try:
        await client.ref(LEASE)
    except NotFound:
        raise CommandError(
            f"the controllers have the lease {lease}, and the server has no Leases ({LEASE}): run them without "
            "--leader-elect and lease=…, or on a server that serves them"
        ) from None
    except (StatusError, TransportError):
        return  # the election tries again, and tells


def _signal_event() -> asyncio.Event:
    """An event that the first signal sets; the second ends the process."""
    signalled = asyncio.Event()

    def handle(number: signal.Signals) -> None:
        if signalled.is_set():
            os._exit(128 + number)
        signalled.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle, number)
    return signalled
