"""`Credential`: the headers and certificates that a client shows, kept current; `CredentialTls`, its TLS contexts.

Files are read again when they change. A plugin is run again, an OpenID Connect token renewed, before it expires or
after a 401: once for all requests that wait for it. Tokens are kept in memory: the kubeconfig isn't written. Secrets
are never in an error or a log line. See also: `config`.
Source: client.authentication.k8s.io/v1 (KEP-541), client-go ``plugin/pkg/client/auth/exec``; OpenID Connect Core §12.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote_plus, urlencode

from oarlock.client.login.kubeconfig import ClientConfig, ClientConfigError, ExecPlugin, OIDCProvider
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.times import TimeError, parse_rfc3339
from oarlock.net.connecting import Address
from oarlock.net.files import FileSignature, file_signature
from oarlock.net.messages import Header, HttpRequest, HttpResponse
from oarlock.net.pool import ask_once
from oarlock.net.trust import trusting
from oarlock.net.url import is_https, parse_url

T = TypeVar("T")


class CredentialSource(Generic[T]):
    """`value` is what there is, `generation` how often it has been fetched. All who wait raise what `fetch` raises."""

    def __init__(self, fetch: Callable[[], Awaitable[T]], value: T | None = None) -> None:
        self.value = value
        self.generation = 0
        self._fetch = fetch
        self._running = asyncio.Lock()
        self._failures = 0
        self._error = Exception()

    async def current(self, lasts: Callable[[T], bool]) -> T:
        """The value, if it `lasts`, else another."""
        value = self.value
        if value is not None and lasts(value) and not self._running.locked():
            return value
        return await self._wanted(lambda found: found is not None and lasts(found))

    async def instead(self, generation: int) -> None:
        """Fetch another value than that of `generation`, which was refused."""
        await self._wanted(lambda found: found is not None and self.generation != generation)

    async def _wanted(self, does: Callable[[T | None], bool]) -> T:
        """The value, if it `does`, else another. A failure is that of all who waited for the same attempt."""
        failures = self._failures
        async with self._running:
            value = self.value
            if value is not None and does(value):
                return value
            if self._failures != failures:
                raise type(self._error)(*self._error.args)
            try:
                value = await self._fetch()
            except Exception as error:
                self._failures += 1
                self._error = error
                raise
            self.value = value
            self.generation += 1
            return value


PLUGIN_TIMEOUT_S = 60.0
MAX_OUTPUT_BYTES = 1024 * 1024
EARLY_S = 10.0
"""Credentials are renewed this long before they expire."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a plugin answered: a token, or a certificate with its key, or both; `expires` is in epoch seconds."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: float = float("inf")


class ExecRunner:
    """The credentials of one plugin. Who asks while it runs waits for the same run."""

    def __init__(self, plugin: ExecPlugin, config: ClientConfig) -> None:
        self._plugin = plugin
        self._config = config
        self._secrets = CredentialSource(self._answered)

    @property
    def last(self) -> Secrets:
        """What the plugin last answered; empty before."""
        return self._secrets.value or Secrets()

    @property
    def generation(self) -> int:
        """How often the plugin has answered."""
        return self._secrets.generation

    async def secrets(self) -> Secrets:
        """The credentials, from the plugin if there are none that last. Raises ClientConfigError."""
        return await self._secrets.current(lambda secrets: time.time() < secrets.expires - EARLY_S)

    async def renew(self, generation: int) -> None:
        """The server refused the credentials of `generation`: run the plugin again. Raises ClientConfigError."""
        await self._secrets.instead(generation)

    async def _answered(self) -> Secrets:
        return self._parsed(await self._run())

    async def _run(self) -> bytes:
        plugin = self._plugin
        info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": self._spec()}
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_OUTPUT_BYTES,
            )
        except OSError as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            raise ClientConfigError(f"exec plugin {plugin.command}: {error.strerror}{hint}") from None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                output = b""
                while chunk := await process.stdout.read(MAX_OUTPUT_BYTES):
                    output += chunk
                    if len(output) > MAX_OUTPUT_BYTES:
                        raise self._failure(f"printed more than {MAX_OUTPUT_BYTES} bytes")
                status = await process.wait()
        except TimeoutError:
            raise self._failure(f"printed nothing within {PLUGIN_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                while await process.stdout.read(MAX_OUTPUT_BYTES):
                    pass  # asyncio waits for the end of the pipe too
                await process.wait()
        if status:
            raise self._failure(f"ended with status {status}")
        return output

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            config = self._config
            ca = config.ca_data or (config.ca_file.read_bytes() if config.ca_file is not None else b"")
            cluster = {
                "server": config.server,
                "tls-server-name": config.tls_server_name,
                "insecure-skip-tls-verify": config.insecure,
                "certificate-authority-data": base64.b64encode(ca).decode(),
                "proxy-url": config.proxy_url,
            }
            spec["cluster"] = {name: value for name, value in cluster.items() if value}
        return spec

    def _parsed(self, output: bytes) -> Secrets:
        try:
            tree = json.decode(output)
        except DecodeError as error:
            raise self._failure(f"printed no JSON: {error}") from None
        status = tree.get("status") if isinstance(tree, dict) else None
        if not isinstance(status, dict) or tree.get("kind") != "ExecCredential":
            raise self._failure("printed no ExecCredential with a status")
        wanted = self._plugin.api_version
        if tree.get("apiVersion") != wanted:
            raise self._failure(f"answered in version {tree.get('apiVersion')!r} instead of {wanted}")
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        given = [text for text in (token, certificate, key) if text is not None]
        if not given or not all(isinstance(text, str) for text in given) or (certificate is None) != (key is None):
            raise self._failure("returned neither a token nor a certificate with its key")
        expiry = status.get("expirationTimestamp")
        try:
            expires = float("inf") if expiry is None else parse_rfc3339(str(expiry))
        except TimeError as error:
            raise self._failure(f"expirationTimestamp: {error}") from None
        return Secrets(token or "", (certificate or "").encode(), (key or "").encode(), expires)

    def _failure(self, why: str) -> ClientConfigError:
        return ClientConfigError(f"exec plugin {self._plugin.command} {why}")


PROVIDER_TIMEOUT_S = 30.0
MAX_BYTES = 1024 * 1024


class OIDCTokens:
    """The id token of `provider`. Who asks while it is renewed waits for the same answer."""

    def __init__(self, provider: OIDCProvider) -> None:
        self._provider = provider
        self._refresh_token = provider.refresh_token
        self._id_token = CredentialSource(self._renewed, provider.id_token or None)

    @property
    def generation(self) -> int:
        """How often the token was renewed."""
        return self._id_token.generation

    async def token(self) -> str:
        """A token that hasn't expired, as far as can be told. Raises ClientConfigError."""
        return await self._id_token.current(lambda token: time.time() < _expiry(token) - EARLY_S)

    async def renew(self, generation: int) -> bool:
        """The server refused the token of `generation`: get another. Returns whether that is possible."""
        if not self._refresh_token:
            return False
        await self._id_token.instead(generation)
        return True

    async def _renewed(self) -> str:
        provider = self._provider
        if not self._refresh_token:
            raise ClientConfigError("the OpenID Connect token has expired and there is no refresh-token: log in again")
        found = await self._fetch(f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token, "client_id": provider.client_id}
        methods = found.get("token_endpoint_auth_methods_supported")
        posted = isinstance(methods, list) and "client_secret_post" in methods
        if posted and provider.client_secret:
            form["client_secret"] = provider.client_secret
        endpoint = found.get("token_endpoint")
        if not isinstance(endpoint, str) or not is_https(endpoint):
            raise ClientConfigError(f"{provider.issuer}: its configuration names no https token_endpoint")
        tokens = await self._fetch(endpoint, form, {} if posted else self._basic())
        if not isinstance(tokens.get("id_token"), str):
            raise ClientConfigError(f"{provider.issuer}: the answer to the refresh token has no id_token: log in again")
        if isinstance(tokens.get("refresh_token"), str):
            self._refresh_token = tokens["refresh_token"]
        return str(tokens["id_token"])

    def _basic(self) -> dict[str, str]:
        """How a client with a secret says who it is unless the issuer wants it in the form. Source: RFC 6749 §2.3.1."""
        if not self._provider.client_secret:
            return {}
        pair = f"{quote_plus(self._provider.client_id)}:{quote_plus(self._provider.client_secret)}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    async def _fetch(
        self, url: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        provider, at = self._provider, parse_url(url)
        lines = [("accept", "application/json"), ("user-agent", "oarlock"), *(headers or {}).items()]
        if form:
            lines.append(("content-type", "application/x-www-form-urlencoded"))
        outgoing = HttpRequest(
            "POST" if form else "GET", at.sent_host, at.request_path, tuple(lines), urlencode(form or {}).encode()
        )
        try:
            tls = trusting(provider.ca_data, file=provider.ca_file) if at.tls else None
            async with asyncio.timeout(PROVIDER_TIMEOUT_S):
                answer = await ask_once(Address(at.hostname, at.port, at.hostname), outgoing, tls)
                data = await answer.read(MAX_BYTES)
            if answer.status != 200:
                raise ClientConfigError(f"{url}: answered {answer.status}: log in again")
        except (OSError, ValueError) as error:
            if isinstance(error, ClientConfigError):
                raise
            raise ClientConfigError(f"{url}: {str(error) or type(error).__name__}") from None
        try:
            tree = json.decode(data)
        except DecodeError as error:
            raise ClientConfigError(f"{url}: {error}") from None
        return tree if isinstance(tree, dict) else {}


def _expiry(token: str) -> float:
    """When a JWT expires, in epoch seconds. It isn't verified: the server does that."""
    try:
        claims = json.decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return float(claims["exp"])
    except (DecodeError, binascii.Error, IndexError, KeyError, TypeError, ValueError):
        return float("inf")


MAX_TOKEN_BYTES = 1024 * 1024


class Credential:
    """The credentials of one `ClientConfig`. Nothing is read before it is needed."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._exec = None if config.exec_plugin is None else ExecRunner(config.exec_plugin, config)
        self._oidc = None if config.oidc is None else OIDCTokens(config.oidc)
        self._token = ""
        self._token_signature: FileSignature | None = None

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
            raise ClientConfigError(f"{self._source()}: the token has characters that aren't allowed in a header")
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
            signature = file_signature(file)
            if signature is None or signature != self._token_signature:
                if signature is not None and signature.size > MAX_TOKEN_BYTES:
                    raise ClientConfigError(f"{file}: a token has at most {MAX_TOKEN_BYTES} bytes")
                self._token = file.read_text().strip()
                self._token_signature = signature
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
        return (*(file and file_signature(file) for file in files), certificate)

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
