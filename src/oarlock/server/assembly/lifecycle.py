"""Start, signals and shutdown of a server process, and its serving certificate: given, generated, or kept in a cluster.

SIGTERM or SIGINT begins the phases of ``Running.shut_down``; a second one ends the process at once, which is safe:
acknowledged writes are on disk.
Must not know: command lines. See also: `run`; ``serving.certificates``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import shlex
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from oarlock.client.clock import TimerClock
from oarlock.endpoints.http import Handler
from oarlock.meta.context import Clock, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.server.assembly.identities import Identities, check_anonymous
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.assembly.run import Running, assemble
from oarlock.server.config import EVERY_INTERFACE, ServerConfig
from oarlock.server.description import ServerDescription
from oarlock.server.files.credentials import first_token, trusted_by_clients
from oarlock.server.files.data_directory import Kubeconfig, prepare_data_directory, write_kubeconfig
from oarlock.server.files.reloaded import ReloadedFiles, reload_changed
from oarlock.server.metrics.page import WorkersMetrics
from oarlock.server.serving.certificates.serving_pair import ensure_certificates, held_certificates
from oarlock.server.serving.certificates.tls import (
    CIPHERS,
    VERSIONS,
    BadCertificateFile,
    NamedPair,
    TLSRules,
    openssl_ciphers,
    parse_named_pair,
    reload_certificate,
    server_context,
)
from oarlock.server.serving.config import ConnectionLimits, ServingConfig, Sharing
from oarlock.server.serving.listener import Listener, serve
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.url import check_storage, open_backend

if TYPE_CHECKING:
    from oarlock.client.clock import TimerClock
    from oarlock.server.cluster.certificate import ClusterCertificate
    from oarlock.server.encryption import ServerEncryption

log = logging.getLogger("oarlock.server")


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The serving certificate. `ca` is the CA clients must trust, None for one of the system's.

    `renew` replaces a generated certificate that is about to expire; then `files` are read again.
    """

    tls: ssl.SSLContext
    ca: bytes | None
    files: ReloadedFiles
    renew: Callable[[], Awaitable[None]] | None = None


def given_certificate(config: ServerConfig, certificate: Path, key: Path) -> ServingCertificate:
    """The certificate in the files that the user named."""
    files = ReloadedFiles([certificate, key], lambda: reload_certificate(tls, certificate, key), (BadCertificateFile,))
    tls = _tls(config, certificate, key)
    return ServingCertificate(tls, trusted_by_clients(certificate), files)


def kept_in_cluster(server: ServerDescription, config: ServerConfig, clock: TimerClock) -> ClusterCertificate | None:
    """The certificate that is kept in a Secret of the cluster, None if it isn't."""
    if not config.serving_certificate_secret or config.authentication_kubeconfig is None:
        return None
    from oarlock.server.cluster.certificate import ClusterCertificate, ClusterCertificateSettings  # noqa: PLC0415 (few servers keep it there)

    settings = ClusterCertificateSettings(
        config.authentication_kubeconfig,
        config.serving_certificate_secret,
        config.tls_sans,
        tuple(server.told_by()),
        config.certificates,
    )
    return ClusterCertificate(settings, clock)


def generated_certificate(config: ServerConfig, clock: Clock) -> ServingCertificate:
    """A generated certificate, renewed before it expires."""
    host = config.bind_address
    names = [socket.gethostname() if host in EVERY_INTERFACE else host, *config.tls_sans]

    async def renew() -> None:
        try:
            await asyncio.to_thread(ensure_certificates, config.certificates, names, clock.now())
        except BadCertificateFile as error:
            log.error("the certificate can't be renewed: %s", error)

    with held_certificates(config.certificates, names, clock.now()) as made:
        pair = made.certificate, made.key
        files = ReloadedFiles(pair, lambda: reload_certificate(tls, *pair), (BadCertificateFile,))
        tls = _tls(config, *pair)
        return ServingCertificate(tls, made.ca.read_bytes(), files, renew)


def _tls(config: ServerConfig, certificate: Path, key: Path) -> ssl.SSLContext:
    ca = config.client_ca_file or config.requestheader_client_ca_file
    suites = config.tls_cipher_suites
    rules = TLSRules(VERSIONS[config.tls_min_version], openssl_ciphers(suites) if suites else CIPHERS)
    return server_context(
        certificate,
        key,
        http2=config.http2,
        client_certificates=ca is not None or config.follows_cluster,
        client_ca=ca,
        rules=rules,
    )


def named_certificates(config: ServerConfig, default: ssl.SSLContext) -> tuple[ReloadedFiles, ...]:
    """Let `default` serve the certificates for other names too: their files."""
    pairs = [parse_named_pair(text) for text in config.tls_sni_cert_key]
    if not pairs:
        return ()
    watched: list[ReloadedFiles] = []
    others: list[tuple[NamedPair, ssl.SSLContext]] = []
    for pair in pairs:
        files = pair.certificate, pair.key
        context = _tls(config, *files)

        def read(context: ssl.SSLContext = context, files: tuple[Path, Path] = files) -> None:
            reload_certificate(context, *files)
            names.refresh()

        watched.append(ReloadedFiles(files, read, (BadCertificateFile,)))
        others.append((pair, context))
    from oarlock.server.serving.certificates.sni import ServerNames  # noqa: PLC0415 (few servers have several certificates)

    names = ServerNames(default, others)
    return tuple(watched)


FIRST_S = 2.0
"""A step that takes less isn't reported."""

AGAIN_S = 10.0
"""The interval of further reports."""

LOOK_S = 0.5


class Starting(Protocol):
    """What starts. `starting` is the step that it is at, as ``reading the store``."""

    name: str
    starting: str


async def tell_steps(server: Starting, clock: TimerClock, tell: Callable[[str], None]) -> None:
    """Tell each step that takes long, until cancelled."""
    step, begun, due_s = "", clock.monotonic(), FIRST_S
    while True:
        await clock.sleep(LOOK_S)
        if server.starting != step:
            step, begun, due_s = server.starting, clock.monotonic(), FIRST_S - LOOK_S
        seconds = clock.monotonic() - begun
        if step and seconds >= due_s:
            tell(f"{server.name}: {step}, for {seconds:.0f} s")
            due_s = seconds + AGAIN_S


GC_THRESHOLDS = (2_000, 10, 5_000)
"""Thresholds of Python's garbage collector: fewer, and larger, collections than by default.

The young generation is collected after this many new objects; the second after so many collections of the first
(20,000 objects); the oldest, which takes seconds, after so many of the second (100 million). A collection stops the
process, at two or three million objects a second. Requests make no long-lived objects and no cycles; large trees and
compiled schemas are many objects.
"""

THREAD_SWITCH_S = 0.001
"""Python's thread switch interval, in seconds: how long a worker thread may keep the event loop waiting."""


class Terminal(Protocol):
    """Where a process prints its messages."""

    def print_result(self, line: str) -> None:
        """The one line to try, when the server is ready."""
        ...

    def print_message(self, line: str) -> None:
        """A message: the address at the start, the stop at the end."""
        ...


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What the processes of one server have in common: their listening sockets, and how they share connections."""

    sockets: tuple[socket.socket, ...] = ()
    sharing: Sharing | None = None
    metrics: WorkersMetrics | None = None


async def serve_until_signal(
    server: ServerDescription, config: ServerConfig, clock: TimerClock, terminal: Terminal
) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises errors of the start: `BadFile`, `BadCertificateFile`, `TokenFileError`, `CertificateBundleError`,
    `CannotListen`, `StorageError`, `StoreTooNew`.
    """
    if await serve_until(_signal_event(), start_process(server, config, clock, terminal)):
        terminal.print_message(f"{server.name}: stopped")


async def serve_until(
    leaving: asyncio.Event, starting: Coroutine[Any, Any, Running], started: Callable[[Running], None] | None = None
) -> bool:
    """Start, call `started`, serve until `leaving` is set, and shut down.

    Returns whether it has served: if `leaving` is set earlier, the start is cancelled. Raises errors of the start.
    """
    start_task = asyncio.ensure_future(starting)
    leaving_task = asyncio.ensure_future(leaving.wait())
    await asyncio.wait((start_task, leaving_task), return_when=asyncio.FIRST_COMPLETED)
    if not start_task.done():
        start_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start_task
        return False
    try:
        running = start_task.result()
        if started is not None:
            started(running)
        await leaving_task
        log.info("leaving")
        await running.shut_down()
        return True
    finally:
        leaving_task.cancel()


def _signal_event() -> asyncio.Event:
    """An event that the first signal sets; the second signal ends the process."""
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()

    def handle(number: signal.Signals) -> None:
        if signalled.is_set():
            os._exit(128 + number)
        signalled.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle, number)
    return signalled


async def start(
    server: ServerDescription,
    config: ServerConfig,
    clock: TimerClock,
    terminal: Terminal,
    shared: SharedParts | None = None,
) -> Running:
    """Listen, load the store and write the kubeconfig. Doesn't touch signals and garbage collector.

    End it with `Running.shut_down`. Raises what `serve_until_signal` does.
    """
    config = server.configured(config)
    backend = _backend(server, config, clock)  # before creating files next to a store whose directory can't exist
    shared = shared or SharedParts()
    prepare_data_directory(config)
    config = server.prepared(config)
    identities = Identities(config, clock, server.authenticators)
    kept = kept_in_cluster(server, config, clock)
    if kept is not None:
        await kept.start()
        certificate = given_certificate(config, kept.certificate, kept.key)
    elif config.tls_cert_file is not None and config.tls_private_key_file is not None:
        certificate = given_certificate(config, config.tls_cert_file, config.tls_private_key_file)
    else:
        certificate = generated_certificate(config, clock)
    named = named_certificates(config, certificate.tls)
    limits = ConnectionLimits(
        max_request_bytes=config.max_request_bytes,
        answer_timeout_s=config.request_timeout_s,
        max_concurrent_streams=config.http2_max_streams_per_connection or ConnectionLimits().max_concurrent_streams,
    )
    serving = ServingConfig(
        host=config.bind_address,
        port=config.secure_port,
        tls=certificate.tls,
        sockets=shared.sockets,
        sharing=shared.sharing,
        http2=config.http2,
        limits=limits,
    )

    server.cluster_rules = server.rules_of_cluster(config, clock)
    encryption = _encryption(config, backend, clock)
    parts = ServerParts(server, config, backend, clock, shared.metrics, encryption)
    if backend.caps.durable:
        parts.storage.remember()

    async def listen(handler: Handler) -> Listener:
        return await serve(handler, serving, clock, parts.filters.unsent)

    check_anonymous(identities.anonymous, parts.authorization.authorizer)
    server.identities = identities
    await identities.start()
    parts.let_in(identities)
    running = await assemble(parts, identities.authenticator, listen, certificate.ca)
    telling = asyncio.ensure_future(tell_steps(server, clock, terminal.print_message))
    try:
        await running.load()
        running.files = (*identities.files, *parts.authorization.files, certificate.files, *named)
        running.run_in_background(identities.follow())
        if kept is not None:
            running.run_in_background(kept.follow())
        running.run_in_background(reload_changed(running.files, certificate.renew))
        _print_usage(running, first_token(identities.tokens_in_file), certificate.ca, terminal)
    except BaseException:
        await running.close()
        raise
    finally:
        telling.cancel()
    return running


def _backend(server: ServerDescription, config: ServerConfig, clock: Clock) -> Backend:
    """The server's own backend, or that of ``--storage``; not yet started. Raises `StorageError`."""
    if server.storage is None:
        try:
            check_storage(config.storage, clock)
        except StorageError as error:
            raise StorageError(f"--storage={config.shown_storage}: {error}") from None
        return open_backend(config.storage, clock)
    if config.storage != ServerConfig().storage:
        raise StorageError(
            f"--storage={config.shown_storage}: can't be combined with APIServer(storage=…): leave it out"
        )
    return server.storage


def _encryption(config: ServerConfig, backend: Backend, clock: Clock) -> ServerEncryption | None:
    path = config.encryption_provider_config
    if path is None:
        return None
    from oarlock.server.encryption import ServerEncryption  # noqa: PLC0415 (few servers need the ciphers)

    return ServerEncryption(backend, path, clock, reload=config.encryption_provider_config_automatic_reload)


async def start_process(
    server: ServerDescription,
    config: ServerConfig,
    clock: TimerClock,
    terminal: Terminal,
    shared: SharedParts | None = None,
) -> Running:
    """`start`, and settings of the interpreter for a process that does nothing else."""
    with _without_garbage_collection():
        sys.setswitchinterval(THREAD_SWITCH_S)
        return await start(server, config, clock, terminal, shared)


def _print_usage(running: Running, token: tuple[str, User], ca: bytes | None, terminal: Terminal) -> None:
    """Write the kubeconfig; print the address, how to use and how to stop the server."""
    config, server = running.parts.config, running.parts.server
    url = running.url
    for everywhere, local in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        url = url.replace(everywhere, local)
    file = config.kubeconfig
    context = ""
    if server.reached_by is not None:
        file = server.reached_by
    elif file is not None and not write_kubeconfig(file, Kubeconfig(url, ca, token[1].name, token[0], server.name)):
        context = f" --context {shlex.quote(server.name)}"
    place = "memory, gone when it stops" if config.storage == "memory://" else config.shown_storage
    what = server.work or f"objects in {place}"
    by = f" with {config.workers} workers" if config.workers > 1 else ""
    terminal.print_message(f"{server.name}: serving at {url}{by}, {what}; Ctrl-C stops it")
    if file is None or server.work:
        terminal.print_result(f"serving at {url}")
        return
    terminal.print_result(f"kubectl --kubeconfig {shlex.quote(str(file))}{context} {_example_arguments(server)}")


def _example_arguments(server: ServerDescription) -> str:
    users_first = sorted(server.catalog.resources, key=lambda entry: entry.definition.group in BUILT_IN_GROUPS)
    for entry in users_first:
        if "list" in entry.verbs():
            return f"get {entry.definition.names.plural}.{entry.definition.group}".rstrip(".")
    return "api-resources"


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Exclude the objects made so far from garbage collection: they live as long as the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
