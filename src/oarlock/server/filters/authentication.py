"""Authenticates requests. Without credentials only `Anonymous` requests are let in.

Headers that carry credentials are removed: nobody behind this filter sees them. Source: k8s.io/apiserver
``endpoints/filters/authentication``. See also: ``policy.authn``; `identity_headers`, the next filter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.errors import Unauthorized
from oarlock.policy.authn.anonymous import NOBODY, Anonymous
from oarlock.policy.authn.authenticator import Authenticator, BadCredentials, Credentials
from oarlock.policy.authn.bearer import SUBPROTOCOLS, without_token
from oarlock.registry.waiting import in_task
from oarlock.server.authentication.counts import Outcome
from oarlock.server.filters.errors import LAST_ANSWER
from oarlock.server.filters.filter import Filter, Next

__all__ = ["Attempted", "authentication", "uncounted"]

log = logging.getLogger("oarlock.authn")

Attempted = Callable[[Outcome, float, str], None]
"""Told of each request: what authentication found, the seconds it took, the user's name."""


def uncounted(outcome: Outcome, seconds: float, name: str) -> None:
    """An `Attempted` that counts nothing."""


def authentication(
    authenticator: Authenticator,
    anonymous: Anonymous = NOBODY,
    audiences: frozenset[str] = frozenset(),
    attempted: Attempted = uncounted,
) -> Filter:
    """The filter. `anonymous` says who needs no credentials; it is asked with the path as it was sent.

    Invalid credentials are refused with 401 on every path, the anonymous ones too; so are those that were issued for
    other `audiences` than the server's.
    """

    async def authenticate(state: RequestState, next: Next) -> Response:
        request, headers, clock = state.request, state.request.headers, state.clock
        began = clock.monotonic()
        if authenticator.waits:
            await in_task()
        try:
            identity = await authenticator.authenticate(
                Credentials(headers, request.received_headers, request.peer, state.notes, request.http2)
            )
            if audiences and identity is not None and not identity.is_for(audiences):
                raise BadCredentials(f"the credential is for {identity.audiences}, not for {sorted(audiences)}")
        except BadCredentials as error:
            attempted("error", clock.monotonic() - began, "")
            address = request.peer.address
            log.info("unable to authenticate %s %s from %s: %s", request.method, request.path, address, error)
            raise Unauthorized from None
        if identity is None:
            let_in = anonymous.may_ask(request.path)
            name = ANONYMOUS.name if let_in else ""
            attempted("success" if let_in else "failure", clock.monotonic() - began, name)
            if not let_in:
                raise Unauthorized
            state.user = ANONYMOUS
        else:
            attempted("success", clock.monotonic() - began, identity.user.name)
            state.user = identity.user
            for name in identity.strip:
                headers.pop(name, None)
        headers.pop("authorization", None)
        if SUBPROTOCOLS in headers:
            offered = [value for name, value in request.all_headers if name == SUBPROTOCOLS]
            request.replace_header(SUBPROTOCOLS, without_token(offered))
        response = await next(state)
        if identity is None and request.http2:
            response.headers.append(LAST_ANSWER)
        return response

    return authenticate
