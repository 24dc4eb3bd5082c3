"""`Credential`: the headers and certificates that a client shows, kept current; `CredentialTls`, its TLS contexts.

Files are read again when they change; a plugin is run again, an OpenID Connect token renewed, before it expires or
after a 401. Secrets are never in an error or a log line. See also: `config`, `exec_plugin`, `oidc`.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from oarlock.client.login.config import ClientConfig, ClientConfigError
from oarlock.client.login.exec_plugin import ExecRunner
from oarlock.client.login.oidc import OIDCTokens
from oarlock.net.messages import Header, HttpResponse
from oarlock.net.trust import trusting

__all__ = ["Credential", "CredentialTls"]

MAX_TOKEN_BYTES = 1024 * 1024


class Credential:
    """The credentials of one `ClientConfig`. Nothing is read before it is needed."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._exec = None if config.exec_plugin is None else ExecRunner(config.exec_plugin, config)
        self._oidc = None if config.oidc is None else OIDCTokens(config.oidc)
        self._token = ""
        self._token_stamp: tuple[int, int] | None = None

    async def ask(self, send: Callable[[Sequence[Header]], Awaitable[HttpResponse]]) -> HttpResponse:
        """What is answered to a request with these headers, after a 401 with others. Raises ClientConfigError."""
        headers, shown = await self.headers(), self.generation
        response = await send(headers)
        if response.status == 401 and await self.renew(shown):
            response.close()
            response = await send(await self.headers())
        return response

    async def headers(self) -> list[Header]:
        """The ``authorization`` line of the next request, if any. Raises ClientConfigError."""
        token = await self._current_token()
        if not (token.isascii() and token.isprintable()):  # such a line would end, or not be sent
            raise ClientConfigError(f"{self._source()}: the token has characters in it that no header may have")
        if token:
            return [("authorization", f"Bearer {token}")]
        if self._config.username:
            basic = base64.b64encode(f"{self._config.username}:{self._config.password}".encode()).decode()
            return [("authorization", f"Basic {basic}")]
        return []

    async def _current_token(self) -> str:
        if self._exec is not None:
            return (await self._exec.secrets()).token
        if self._oidc is not None:
            return await self._oidc.token()
        if self._config.token_file is not None:
            return self._token_of_file(self._config.token_file)
        return self._config.token

    def _source(self) -> str:
        """Where the token is from, for errors."""
        config = self._config
        if config.exec_plugin is not None:
            return f"exec plugin {config.exec_plugin.command}"
        return str("id-token" if config.oidc is not None else config.token_file or "token")

    def _token_of_file(self, file: Path) -> str:
        """A service account's token is replaced every hour: a look at the file's time is cheap."""
        try:
            status = file.stat()
            stamp = status.st_mtime_ns, status.st_size
            if stamp != self._token_stamp:
                if status.st_size > MAX_TOKEN_BYTES:
                    raise ClientConfigError(f"{file}: a token has at most {MAX_TOKEN_BYTES} bytes")
                self._token = file.read_text().strip()
                self._token_stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            if not self._token:
                raise ClientConfigError(f"cannot read the token in {file}: {error}") from None
        return self._token

    @property
    def generation(self) -> int:
        """Which credentials `headers` gives now: another number than before means others."""
        source = self._exec or self._oidc
        return 0 if source is None else source.generation

    async def renew(self, generation: int) -> bool:
        """After a 401 to the credentials of `generation`: get others, once for all who were refused with them.

        Returns whether there are any. Raises ClientConfigError.
        """
        if self._exec is not None:
            await self._exec.renew(generation)
            return True
        return self._oidc is not None and await self._oidc.renew(generation)

    def stamp(self) -> object:
        """Changes when `tls` would be another context."""
        files = (self._config.ca_file, self._config.cert_file, self._config.key_file)
        certificate = b"" if self._exec is None else self._exec.last.certificate
        return (*(_stamp(file) for file in files), certificate)

    def tls(self) -> ssl.SSLContext | None:
        """The context for connections; None without TLS. Reads files. Raises ClientConfigError."""
        config = self._config
        if not config.url.tls:
            return None
        try:
            context = trusting(config.ca_data, file=config.ca_file)
        except (OSError, ValueError) as error:
            where = config.ca_file or "certificate-authority-data"
            raise ClientConfigError(f"{where}: no CA certificate: {error}") from None
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._load_certificate(context)
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        config = self._config
        certificate = config.cert_data or (b"" if self._exec is None else self._exec.last.certificate)
        key = config.key_data or (b"" if self._exec is None else self._exec.last.key)
        if config.cert_file is None and not certificate:
            return  # a pod with a token may have no folder for temporary files
        with tempfile.TemporaryDirectory(prefix="oarlock-client-") as folder:  # OpenSSL reads a chain from files only
            cert_file, key_file = config.cert_file, config.key_file
            if certificate:
                cert_file = Path(folder) / "cert"
                cert_file.write_bytes(certificate)
            if key:
                key_file = Path(folder) / "key"
                key_file.touch(mode=0o600)
                key_file.write_bytes(key)
            assert cert_file is not None
            try:
                context.load_cert_chain(cert_file, key_file)
            except (OSError, ValueError) as error:
                where = config.cert_file or "client-certificate-data"
                raise ClientConfigError(f"{where}: no client certificate and its key: {error}") from None


class CredentialTls:
    """A `TlsSource`: another context when files have changed, if what they have now can be used."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._stamp: object = None
        self._context: ssl.SSLContext | None = None
        self._reading = asyncio.Lock()

    async def __call__(self) -> ssl.SSLContext | None:
        """Raises ClientConfigError."""
        if self._credential.stamp() == self._stamp:
            return self._context
        async with self._reading:  # one context, however many wait for it
            stamp = self._credential.stamp()
            if stamp != self._stamp:
                try:
                    self._context = await asyncio.to_thread(self._credential.tls)
                except ClientConfigError:
                    if self._stamp is None:
                        raise
                self._stamp = stamp
        return self._context


def _stamp(file: Path | None) -> tuple[int, int]:
    try:
        status = None if file is None else file.stat()
    except OSError:
        status = None
    return (0, 0) if status is None else (status.st_mtime_ns, status.st_size)
