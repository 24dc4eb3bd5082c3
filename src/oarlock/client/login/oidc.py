"""The tokens of an OpenID Connect login, renewed with the refresh token.

They are kept in memory: the kubeconfig isn't written. Source: OpenID Connect Core §12; kubectl's ``oidc`` provider.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from typing import Any
from urllib.parse import quote_plus, urlencode

from oarlock.client.login.config import ClientConfigError, OIDCProvider
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpRequest
from oarlock.net.pool import ask_once
from oarlock.net.renewal import CredentialSource
from oarlock.net.trust import trusting
from oarlock.net.url import is_https, parse_url

__all__ = ["OIDCTokens"]

EARLY_S = 10.0
TIMEOUT_S = 30.0
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
        asked = HttpRequest(
            "POST" if form else "GET", at.sent_host, at.request_path, tuple(lines), urlencode(form or {}).encode()
        )
        try:
            tls = trusting(provider.ca_data, file=provider.ca_file) if at.tls else None
            async with asyncio.timeout(TIMEOUT_S):
                answer = await ask_once(Address(at.hostname, at.port, at.hostname), asked, tls)
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
