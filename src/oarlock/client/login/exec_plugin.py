"""Runs an exec plugin for credentials and keeps them until they expire.

Source: client.authentication.k8s.io/v1 (KEP-541), client-go ``plugin/pkg/client/auth/exec``.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from typing import Any

from oarlock.client.login.config import ClientConfig, ClientConfigError, ExecPlugin
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.times import TimeError, parse_rfc3339
from oarlock.net.renewal import CredentialSource

__all__ = ["ExecRunner", "Secrets"]

TIMEOUT_S = 60.0
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
            async with asyncio.timeout(TIMEOUT_S):
                output = b""
                while chunk := await process.stdout.read(MAX_OUTPUT_BYTES):
                    output += chunk
                    if len(output) > MAX_OUTPUT_BYTES:
                        raise self._failure(f"printed more than {MAX_OUTPUT_BYTES} bytes")
                status = await process.wait()
        except TimeoutError:
            raise self._failure(f"printed nothing within {TIMEOUT_S:g} s") from None
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
            raise self._failure(f"answered in version {tree.get('apiVersion')!r}, and was asked for {wanted}")
        token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        given = [text for text in (token, certificate, key) if text is not None]
        if not given or not all(isinstance(text, str) for text in given) or (certificate is None) != (key is None):
            raise self._failure("answered neither a token nor a certificate with its key")
        expiry = status.get("expirationTimestamp")
        try:
            expires = float("inf") if expiry is None else parse_rfc3339(str(expiry))
        except TimeError as error:
            raise self._failure(f"expirationTimestamp: {error}") from None
        return Secrets(token or "", (certificate or "").encode(), (key or "").encode(), expires)

    def _failure(self, why: str) -> ClientConfigError:
        return ClientConfigError(f"exec plugin {self._plugin.command} {why}")
