"""Authenticates requests. Without credentials only `Anonymous` requests are let in.

Headers that carry credentials are removed: nobody behind this filter sees them. Source: k8s.io/apiserver
``endpoints/filters/authentication``. See also: ``policy.authn``; `identity_headers`, the next filter.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.errors import Unauthorized
from oarlock.policy.authn.anonymous import NOBODY, Anonymous
from oarlock.policy.authn.authenticator import UNDECIDED, Authenticator, BadCredentials, Credentials, Identity
from oarlock.policy.authn.tokens.bearer import SUBPROTOCOLS, without_token
from oarlock.registry.workers import ensure_task, sync_variant
from oarlock.server.authentication.counts import AttemptResult

__all__ = ["Attempted", "authentication", "uncounted"]

log = logging.getLogger("oarlock.authn")

LOGGED = 500
"""So many characters of what a client spells are logged."""

Attempted = Callable[[AttemptResult, float, str], None]
"""Told of each request: what authentication found, the seconds it took (0 from memory), the user's name."""


def uncounted(outcome: AttemptResult, seconds: float, name: str) -> None:
    """An `Attempted` that counts nothing."""


def authentication(
    authenticator: Authenticator,
    anonymous: Anonymous = NOBODY,
    audiences: frozenset[str] = frozenset(),
    attempted: Attempted = uncounted,
) -> Callable[[RequestState], Awaitable[None] | None]:
    """What finds out who sends a request; it returns a coroutine where it has to wait.

    `anonymous` says who needs no credentials; it is asked with the path as it was sent.

    Invalid credentials are refused with 401 on every path, the anonymous ones too; so are those that were issued for
    other `audiences` than the server's.
    """

    authenticate_cached = sync_variant(authenticator, "authenticate", "authenticate_cached")

    def authenticate(state: RequestState) -> Awaitable[None] | None:
        request = state.request
        identity = UNDECIDED if authenticate_cached is None else authenticate_cached(request.headers, request.peer)
        if identity is UNDECIDED or (audiences and identity is not None and not identity.is_for(audiences)):
            return ask(state)
        found(state, identity, 0.0)
        return None

    async def ask(state: RequestState) -> None:
        request, began = state.request, state.clock.monotonic()
        if authenticator.waits:
            await ensure_task()
        try:
            identity = await authenticator.authenticate(
                Credentials(request.headers, request.received_headers, request.peer, state.notes, request.http2)
            )
            if audiences and identity is not None and not identity.is_for(audiences):
                raise BadCredentials(f"the credential is for {identity.audiences}, not for {sorted(audiences)}")
        except BadCredentials as error:
            attempted("error", state.clock.monotonic() - began, "")
            place, address, why = request.path[:LOGGED], request.peer.address, str(error)[:LOGGED]
            log.info("unable to authenticate %s %s from %s: %s", request.method, place, address, why)
            raise Unauthorized from None
        found(state, identity, state.clock.monotonic() - began)

    def found(state: RequestState, identity: Identity | None, seconds: float) -> None:
        request = state.request
        headers = request.headers
        if identity is None:
            let_in = anonymous.may_ask(request.path)
            name = ANONYMOUS.name if let_in else ""
            attempted("success" if let_in else "failure", seconds, name)
            if not let_in:
                raise Unauthorized
            state.user = ANONYMOUS
        else:
            state.user = user = identity.user
            attempted("success", seconds, user.name)
            for name in identity.strip:
                headers.pop(name, None)
        headers.pop("authorization", None)
        if SUBPROTOCOLS in headers:
            offered = [value for name, value in request.all_headers if name == SUBPROTOCOLS]
            request.replace_header(SUBPROTOCOLS, without_token(offered))

    return authenticate
