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
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from oarlock.endpoints.http import Handler
from oarlock.meta.context import Clock
from oarlock.server.config import EVERY_INTERFACE, ServerConfig
from oarlock.server.credentials import (
    Kubeconfig,
    ServerCredentials,
    credentials_of,
    trusted_by_clients,
    write_kubeconfig,
)
from oarlock.server.following import FollowedFiles, follow
from oarlock.server.run import Running, ServerDescription, ServerParts, assemble
from oarlock.server.serving.certs import ensure_certificates, held_certificates
from oarlock.server.serving.config import ConnectionLimits, ServingConfig
from oarlock.server.serving.server import Listening, serve
from oarlock.server.serving.tls import BadCertificateFile, reload_certificate, server_context
from oarlock.storage.backend import StorageError
from oarlock.storage.url import check_storage, open_backend

__all__ = ["Terminal", "live", "start"]

log = logging.getLogger("oarlock.server")

YOUNG_OBJECTS, OLDER_TIMES, OLDEST_TIMES = 2_000, 10, 5_000
"""When the collector looks for cycles: at the young objects, when there are so many more; at those that stayed, after
so many times, when there are 20,000; at all, which takes seconds, after so many times again, at 100 million.

It looks in one piece, at two or three million a second. Requests make no objects that stay, and none in cycles; large
trees and schemas that are compiled are many objects.
"""

SWITCH_S = 0.001
"""How long a thread that works on a large object may keep the loop waiting for its turn."""


class Terminal(Protocol):
    """Where a process says what it does."""

    def announce(self, line: str) -> None:
        """The one line to try, once the server is ready."""
        ...

    def tell(self, line: str) -> None:
        """Where it serves, at the start, and that it has stopped, at the end."""
        ...


async def live(server: ServerDescription, config: ServerConfig, clock: Clock, terminal: Terminal) -> None:
    """Serve until told to leave.

    Raises what keeps it from starting: `BadFile`, `BadCertificateFile`, `TokenFileError`, `CertificateBundleError`,
    `CannotListen`, `StorageError`, `StoreTooNew`.
    """
    told = _signals()
    starting = asyncio.ensure_future(_start_to_stay(server, config, clock, terminal))
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
        terminal.tell(f"{server.name}: stopped")
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


async def start(server: ServerDescription, config: ServerConfig, clock: Clock, terminal: Terminal) -> Running:
    """Listen, load the store and write the kubeconfig. Signals and the collector are left alone.

    `Running.leave` ends what this begins. Raises what `live` does.
    """
    try:
        check_storage(config.storage)
    except StorageError as error:  # before anything is made beside a store that can't be there
        raise StorageError(f"--storage={config.storage}: {error}") from None
    credentials = credentials_of(config, clock)
    identity = _given(config) if config.tls_cert_file is not None else _generated(config, clock)
    limits = ConnectionLimits(max_request_bytes=config.max_request_bytes, answer_timeout_s=config.request_timeout_s)
    serving = ServingConfig(
        host=config.bind_address, port=config.secure_port, tls=identity.tls, http2=config.http2, limits=limits
    )

    parts = ServerParts(server, config, open_backend(config.storage, clock), clock)

    async def listen(handler: Handler) -> Listening:
        return await serve(handler, serving, clock, parts.unsent)

    running = await assemble(parts, credentials.authenticator, listen)
    try:
        await running.load()
        running.accompany(follow((*credentials.files, identity.files), identity.renew))
        _introduce(running, credentials, identity.ca, terminal)
    except BaseException:
        await running.close()
        raise
    return running


async def _start_to_stay(server: ServerDescription, config: ServerConfig, clock: Clock, terminal: Terminal) -> Running:
    """`start`, in a process that does nothing else."""
    with _nothing_to_collect():
        sys.setswitchinterval(SWITCH_S)
        return await start(server, config, clock, terminal)


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a server shows its clients. `ca` is the authority they must trust for it, None for one of the system's.

    `renew` makes a certificate that is about to expire anew, if it was made here; `files` are then read again.
    """

    tls: ssl.SSLContext
    ca: bytes | None
    files: FollowedFiles
    renew: Callable[[], Awaitable[None]] | None = None


def _given(config: ServerConfig) -> _Identity:
    """The certificate that is named in `config`."""
    certificate, key = config.tls_cert_file, config.tls_private_key_file
    assert certificate is not None
    assert key is not None
    files = FollowedFiles([certificate, key], lambda: reload_certificate(tls, certificate, key), (BadCertificateFile,))
    tls = _tls(config, certificate, key)
    return _Identity(tls, trusted_by_clients(certificate), files)


def _generated(config: ServerConfig, clock: Clock) -> _Identity:
    """A certificate that is made here, and made anew before it expires."""
    host = config.bind_address
    names = [socket.gethostname() if host in EVERY_INTERFACE else host, *config.tls_sans]

    async def renew() -> None:
        try:
            await asyncio.to_thread(ensure_certificates, config.certificates, names, clock.now())
        except BadCertificateFile as error:
            log.error("the certificate can't be renewed: %s", error)

    with held_certificates(config.certificates, names, clock.now()) as made:
        pair = made.certificate, made.key
        files = FollowedFiles(pair, lambda: reload_certificate(tls, *pair), (BadCertificateFile,))
        tls = _tls(config, *pair)
        return _Identity(tls, made.ca.read_bytes(), files, renew)


def _tls(config: ServerConfig, certificate: Path, key: Path) -> ssl.SSLContext:
    return server_context(
        certificate,
        key,
        http2=config.http2,
        client_certificates=config.client_ca_file is not None,
        client_ca=config.client_ca_file,
    )


def _introduce(running: Running, credentials: ServerCredentials, ca: bytes | None, terminal: Terminal) -> None:
    """Write the kubeconfig; say where the server is, how it is used and how it is stopped."""
    config, server = running.parts.config, running.parts.server
    url = running.url
    for everywhere, local in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        url = url.replace(everywhere, local)
    file = config.kubeconfig
    if file is not None:
        write_kubeconfig(file, Kubeconfig(url, ca, credentials.user, credentials.token, server.name))
    kept = "objects in memory, gone when it stops" if config.storage == "memory://" else f"objects in {config.storage}"
    terminal.tell(f"{server.name}: serving at {url}, {kept}; Ctrl-C stops it")
    if file is None:
        terminal.announce(f"serving at {url}")
        return
    terminal.announce(f"kubectl --kubeconfig {_quoted(file)} {_first_words(server)}")


def _first_words(server: ServerDescription) -> str:
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
        gc.set_threshold(YOUNG_OBJECTS, OLDER_TIMES, OLDEST_TIMES)
        gc.enable()
