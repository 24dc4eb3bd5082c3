"""`IssuerPages`: what others read to verify tokens of service accounts themselves (OpenID Connect discovery).

See also: ``policy.authn.token_issuer``, which writes the documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import parse_accept
from oarlock.meta.errors import MethodNotAllowed, NotAcceptable

if TYPE_CHECKING:
    from oarlock.policy.authn.tokens.token_issuer import TokenIssuer

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/openid/v1/jwks"
KEY_SET = "application/jwk-set+json"
_CACHE = ("cache-control", "public, max-age=3600")


class IssuerPages:
    """Answers `paths`. `keys_url` says where the keys are; at the host that a request names unless given."""

    paths = (DISCOVERY, KEYS)

    def __init__(self, issuer: TokenIssuer, keys_url: str) -> None:
        self._issuer = issuer
        self._keys_url = keys_url

    def respond(self, state: RequestState) -> Response | None:
        """The answer, or None for a path that isn't in `paths`. Raises NotAcceptable, MethodNotAllowed."""
        request = state.request
        if request.path not in self.paths:
            return None
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed()
        if request.path == KEYS:
            clauses = parse_accept(request.headers.get("accept", "") or "*/*")
            if not any(clause.matches(KEY_SET) for clause in clauses):
                raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {KEY_SET}", details={})
            return Response(200, [("content-type", KEY_SET), _CACHE], self._issuer.published_keys())
        url = self._keys_url or f"https://{request.headers.get('host', 'localhost')}{KEYS}"
        return Response(200, [("content-type", "application/json"), _CACHE], self._issuer.discovery(url))
