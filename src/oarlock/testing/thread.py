"""`ServerThread`: a server as ``oarlock serve`` runs it, on a free port of 127.0.0.1, in a thread.

    with ServerThread(server) as running:
        kubernetes.config.load_kube_config(str(running.kubeconfig))

TLS, HTTP/2, authentication and the store are the real ones; signals, logging and the garbage collector aren't touched.
Must not know: pytest. See also: ``server.lifecycle``, which starts it; `client`, for its `HTTPClient`.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oarlock.apps.api_server import APIServer
from oarlock.client.clock import SystemClock, TimerClock
from oarlock.net.trust import trusting
from oarlock.server.assembly.lifecycle import start
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.server.filters.filter import unchanged
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.client import HTTPClient
from oarlock.testing.faults import RequestFaults
from oarlock.testing.server import prepare

try:
    import uvloop
except ImportError:  # pragma: no cover - where it doesn't exist
    uvloop = None  # type: ignore[assignment]

T = TypeVar("T")
JOIN_S = 60.0
SHUTDOWN_S = 0.5
"""How long requests in progress may go on when the server is stopped, in seconds."""


class ServerThread:
    """Runs `server` while the context lasts. Several may run at once, each with an `APIServer` of its own.

    Certificates, keys, the token and the kubeconfig are files in `folder`, or in a temporary directory. With
    `config.data_dir` those that belong to a store are kept there. By default the store is in memory, and the token is
    an administrator's; `config` may change that. Its address, port, certificate and kubeconfig are ignored. The
    certificate is for localhost, 127.0.0.1 and ::1.
    """

    def __init__(
        self,
        server: APIServer,
        *,
        folder: Path | None = None,
        config: ServerConfig | None = None,
        clock: TimerClock | None = None,
    ) -> None:
        self.server = server
        self.url = ""
        """``https://127.0.0.1:`` and the port, once it runs."""
        self.token = ""
        """A bearer token, once it runs: an administrator's, or the first in `config`'s token file."""
        self._arguments = folder, config or _default_config(server)
        self.faults = RequestFaults(server, self._in_loop)
        """The faults of the server under test: none at first."""
        self._clock = clock or SystemClock()
        self._folder: Path | None = None
        self._run: _ServerRun | None = None
        self._exit_stack = ExitStack()

    @property
    def ca(self) -> Path:
        """The file of the CA that signed its certificate."""
        return self._in_folder("pki") / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig, for kubectl and clients in any language."""
        return self._in_folder("kubeconfig")

    def tls(self) -> ssl.SSLContext:
        """A TLS context that trusts the certificate, for clients in Python."""
        return trusting(file=self.ca)

    def client(self, token: str | None = None) -> HTTPClient:
        """A client with `token`, by default this server's. With an empty token its requests are unauthenticated."""
        return HTTPClient(self.url, self.tls(), self.token if token is None else token)

    def start(self) -> Self:
        """Start, and wait until the server is ready. Raises errors of the start."""
        if self._run is not None:
            raise RuntimeError("the server is running")
        folder, config = self._arguments
        self._folder = folder or Path(
            self._exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="oarlock-test-"))
        )
        config = _on_loopback(config, self._folder)
        _bring_token_key(self.server.configured(config))
        self.server.around_dispatch = self.faults.around
        run = _ServerRun(self.server, config, self._clock)
        try:
            self.url = run.start()
        except BaseException:
            self._exit_stack.close()
            raise
        self._run = run
        [user] = yaml.safe_load(self.kubeconfig.read_text())["users"]
        self.token = user["user"]["token"]
        return self

    def stop(self) -> None:
        """End watches, cut requests after half a second, and close the store. Raises errors of the shutdown."""
        run, self._run = self._run, None
        try:
            if run is not None:
                run.stop()
        finally:
            self.server.around_dispatch = unchanged
            self._exit_stack.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _in_loop(self, call: Callable[[], T]) -> T:
        if self._run is None:
            raise RuntimeError("the server isn't running")
        return self._run.call(call)

    def _in_folder(self, name: str) -> Path:
        if self._folder is None:
            raise RuntimeError("the server hasn't been started: write `with ServerThread(server) as running:`")
        return self._folder / name


def _default_config(server: APIServer) -> ServerConfig:
    return ServerConfig(storage="memory://") if server.storage is None else ServerConfig()


class _ServerRun:
    """One run of a server in a thread, from `start` to `stop`."""

    def __init__(self, server: APIServer, config: ServerConfig, clock: TimerClock) -> None:
        self._server, self._config, self._clock = server, config, clock
        self._thread = threading.Thread(target=self._run, name="oarlock-server", daemon=True)
        self._started_or_failed = threading.Event()
        self._stop_requested: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._url = ""

    def start(self) -> str:
        """The URL, once it is served there."""
        self._thread.start()
        self._started_or_failed.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._url

    def call(self, call: Callable[[], T]) -> T:
        """What `call` returns, called in the server's event loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(_called(call), self._loop).result()

    def stop(self) -> None:
        if self._loop is not None and self._stop_requested is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop_requested.set)
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the server did not leave within {JOIN_S:g} s")
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._started_or_failed.set()

    async def _serve(self) -> None:
        self._loop, self._stop_requested = asyncio.get_running_loop(), asyncio.Event()
        async with self._prepared_store() as config:
            running = await start(self._server, config, self._clock, _SilentTerminal())
            self._url = running.url
            self._started_or_failed.set()
            await self._stop_requested.wait()
            await _shut_down(running)

    @asynccontextmanager
    async def _prepared_store(self) -> AsyncIterator[ServerConfig]:
        """The configuration; where it says a new store in memory, the server is given one that is prepared."""
        server, config = self._server, self._config
        if server.storage is not None or config.storage != "memory://":
            yield config
            return
        store = MemoryBackend(self._clock)
        await prepare(server, config, store, self._clock)
        server.storage = store
        try:
            yield replace(config, storage=ServerConfig().storage)
        finally:
            server.storage = None


async def _called(call: Callable[[], T]) -> T:
    return call()


class _SilentTerminal:
    """A `Terminal` that prints nothing."""

    def print_result(self, line: str) -> None:
        return None

    def print_message(self, line: str) -> None:
        return None


async def _shut_down(running: Running) -> None:
    """Shut down like a process, but don't wait for requests that don't end."""
    shutdown = asyncio.ensure_future(running.shut_down())
    done, _ = await asyncio.wait((shutdown,), timeout=SHUTDOWN_S)
    if not done:
        shutdown.cancel()
        await asyncio.wait((shutdown,))
        await running.close()
    else:
        shutdown.result()


@cache
def _token_key() -> bytes:
    """The key by which servers of this process sign tokens of service accounts: making one takes some 50 ms."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _bring_token_key(config: ServerConfig) -> None:
    """Put the key where the server would make one, if it would."""
    file = config.service_account_key
    made = config.service_account_issuer and config.service_account_signing_key_file is None
    if made and file.parent.is_dir() and not file.exists():
        file.touch(0o600)
        file.write_bytes(_token_key())


def _on_loopback(config: ServerConfig, folder: Path) -> ServerConfig:
    folder.mkdir(parents=True, exist_ok=True)
    tokens = config.token_auth_file
    if tokens is None:
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{secrets.token_urlsafe(32)},admin,admin,"system:masters"\n')
        tokens.chmod(0o600)
    return replace(
        config,
        bind_address="127.0.0.1",
        secure_port=0,
        data_dir=config.data_dir or folder,
        cert_dir=folder / "pki",
        tls_cert_file=None,
        tls_private_key_file=None,
        token_auth_file=tokens,
        write_kubeconfig=folder / "kubeconfig",
    )
