"""Start, signals and shutdown of a server process.

SIGTERM or SIGINT begins the phases of ``Running.leave``; a second one ends the process at once, which is safe:
acknowledged writes are on disk.
Must not know: command lines. See also: `run`.
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
from oarlock.server.data_directory import prepare_data_directory
from oarlock.server.following import FollowedFiles, follow
from oarlock.server.run import Running, ServerDescription, ServerParts, assemble
from oarlock.server.serving.certs import ensure_certificates, held_certificates
from oarlock.server.serving.config import ConnectionLimits, ServingConfig
from oarlock.server.serving.server import Listening, serve
from oarlock.server.serving.tls import BadCertificateFile, reload_certificate, server_context
from oarlock.storage.backend import StorageError
from oarlock.storage.url import check_storage, open_backend, without_password

__all__ = ["Terminal", "live", "start"]

log = logging.getLogger("oarlock.server")

YOUNG_OBJECTS, OLDER_TIMES, OLDEST_TIMES = 2_000, 10, 5_000
"""Thresholds of Python's garbage collector: fewer, and larger, collections than by default.

The young generation is collected after this many new objects; the second after so many collections of the first
(20,000 objects); the oldest, which takes seconds, after so many of the second (100 million). A collection stops the
process, at two or three million objects a second. Requests make no long-lived objects and no cycles; large trees and
compiled schemas are many objects.
"""

SWITCH_S = 0.001
"""Python's thread switch interval, in seconds: how long a worker thread may keep the event loop waiting."""


class Terminal(Protocol):
    """Where a process prints its messages."""

    def announce(self, line: str) -> None:
        """The one line to try, when the server is ready."""
        ...

    def tell(self, line: str) -> None:
        """A message: the address at the start, the stop at the end."""
        ...


async def live(server: ServerDescription, config: ServerConfig, clock: Clock, terminal: Terminal) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises errors of the start: `BadFile`, `BadCertificateFile`, `TokenFileError`, `CertificateBundleError`,
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
    """An event that the first signal sets; the second signal ends the process."""
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
    """Listen, load the store and write the kubeconfig. Doesn't touch signals and garbage collector.

    End it with `Running.leave`. Raises what `live` does.
    """
    try:
        check_storage(config.storage)
    except StorageError as error:  # before creating files next to a store whose directory can't exist
        raise StorageError(f"--storage={without_password(config.storage)}: {error}") from None
    prepare_data_directory(config)
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
    """`start`, with settings for a process that does nothing else."""
    with _nothing_to_collect():
        sys.setswitchinterval(SWITCH_S)
        return await start(server, config, clock, terminal)


@dataclass(frozen=True, slots=True)
class _Identity:
    """The serving certificate. `ca` is the CA clients must trust, None for one of the system's.

    `renew` replaces a generated certificate that is about to expire; then `files` are read again.
    """

    tls: ssl.SSLContext
    ca: bytes | None
    files: FollowedFiles
    renew: Callable[[], Awaitable[None]] | None = None


def _given(config: ServerConfig) -> _Identity:
    """The certificate in the files that `config` names."""
    certificate, key = config.tls_cert_file, config.tls_private_key_file
    assert certificate is not None
    assert key is not None
    files = FollowedFiles([certificate, key], lambda: reload_certificate(tls, certificate, key), (BadCertificateFile,))
    tls = _tls(config, certificate, key)
    return _Identity(tls, trusted_by_clients(certificate), files)


def _generated(config: ServerConfig, clock: Clock) -> _Identity:
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
    """Write the kubeconfig; print the address, how to use and how to stop the server."""
    config, server = running.parts.config, running.parts.server
    url = running.url
    for everywhere, local in (("//0.0.0.0:", "//127.0.0.1:"), ("//[::]:", "//[::1]:")):
        url = url.replace(everywhere, local)
    file = config.kubeconfig
    if file is not None:
        write_kubeconfig(file, Kubeconfig(url, ca, credentials.user, credentials.token, server.name))
    kept = (
        "objects in memory, gone when it stops"
        if config.storage == "memory://"
        else f"objects in {without_password(config.storage)}"
    )
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
    """Exclude the objects made so far from garbage collection: they live as long as the process."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, OLDER_TIMES, OLDEST_TIMES)
        gc.enable()
