"""The life of a server process: start, say where it is, wait for a signal, leave in order.

SIGTERM or SIGINT begins the phases of ``Running.leave``; a second one ends the process at once, which is safe:
what was acknowledged is on disk. Must not know: command lines. Next: `run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

from oarlock.endpoints.http import Handler
from oarlock.meta.context import Clock
from oarlock.server.app import APIServer
from oarlock.server.config import EVERY_INTERFACE, ServerConfig
from oarlock.server.credentials import Credentials, Kubeconfig, credentials_of, trusted_by_clients, write_kubeconfig
from oarlock.server.run import Parts, Running, assemble
from oarlock.server.serving.certs import ensure_certificates
from oarlock.server.serving.config import Limits, ServingConfig
from oarlock.server.serving.server import Listening, serve
from oarlock.server.serving.tls import server_context
from oarlock.storage.url import open_backend

__all__ = ["live"]

log = logging.getLogger("oarlock.server")

YOUNG_OBJECTS = 50_000
"""How many objects are made before the collector looks at the young ones: a request makes dozens, none in cycles."""


async def live(server: APIServer, config: ServerConfig, clock: Clock, announce: Callable[[str], None]) -> None:
    """Serve until told to leave. `announce` is handed the one line to try, once the server is ready.

    Raises what keeps it from starting: `BadFile`, `BadCertificateFile`, `TokenFileError`, `CertificateBundleError`,
    `CannotListen`, `StorageError`, `StoreTooNew`.
    """
    told = _signals()
    starting = asyncio.ensure_future(_start(server, config, clock, announce))
    waiting = asyncio.ensure_future(told.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return
    try:
        running = starting.result()
        await waiting
        log.info("leaving")
        await running.leave()
    finally:
        waiting.cancel()


def _signals() -> asyncio.Event:
    """Set by the first signal; the second ends the process."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()

    def heard(number: signal.Signals) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard, number)
    return told


async def _start(server: APIServer, config: ServerConfig, clock: Clock, announce: Callable[[str], None]) -> Running:
    credentials = credentials_of(config, clock)
    serving, ca = _serving(config, clock)

    async def listen(handler: Handler) -> Listening:
        return await serve(handler, serving, clock)

    parts = Parts(server, config, open_backend(config.storage, clock), clock)
    running = await assemble(parts, credentials.authenticator, listen)
    try:
        with _nothing_to_collect():
            await running.load()
        _introduce(running, credentials, ca, announce)
    except BaseException:
        await running.close()
        raise
    return running


def _serving(config: ServerConfig, clock: Clock) -> tuple[ServingConfig, bytes | None]:
    """How to listen, and the authority clients must trust for it."""
    host = config.bind_address
    if config.tls_cert_file is not None and config.tls_private_key_file is not None:
        certificate, key = config.tls_cert_file, config.tls_private_key_file
        ca = None
    else:
        names = [socket.gethostname()] if host in EVERY_INTERFACE else [host]
        files = ensure_certificates(config.certificates, names, clock.now())
        certificate, key, ca = files.certificate, files.key, files.ca.read_bytes()
    tls = server_context(
        certificate,
        key,
        http2=config.http2,
        client_certificates=config.client_ca_file is not None,
        client_ca=config.client_ca_file,
    )
    limits = Limits(max_request_bytes=config.max_request_bytes)
    serving = ServingConfig(host=host, port=config.secure_port, tls=tls, http2=config.http2, limits=limits)
    return serving, ca if ca is not None else trusted_by_clients(certificate)


def _introduce(running: Running, credentials: Credentials, ca: bytes | None, announce: Callable[[str], None]) -> None:
    """Write the kubeconfig and say how to use it."""
    config, server = running.parts.config, running.parts.server
    url = running.url
    for everywhere, local in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        url = url.replace(everywhere, local)
    file = config.kubeconfig
    log.info("serving at %s", url)
    if file is None:
        announce(f"serving at {url}")
        return
    write_kubeconfig(file, Kubeconfig(url, ca, credentials.user, credentials.token, server.name))
    announce(f"kubectl --kubeconfig {_quoted(file)} {_first_words(server)}")


def _first_words(server: APIServer) -> str:
    for entry in server.catalog.entries:
        if "list" in entry.verbs():
            return f"get {entry.definition.names.plural}.{entry.definition.group}".rstrip(".")
    return "api-resources"


def _quoted(file: Path) -> str:
    text = str(file)
    return text if text.replace("/", "").replace(".", "").replace("-", "").replace("_", "").isalnum() else f"'{text}'"


@contextlib.contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """Loading makes many objects that stay: looking through them for cycles, then or later, finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, 20, 100)
        gc.enable()
