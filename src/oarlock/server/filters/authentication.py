"""Authenticates requests. Without credentials only the anonymous paths are allowed.

Source: k8s.io/apiserver ``endpoints/filters/authentication``. See also: ``policy.authn``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import ANONYMOUS, RequestState
from oarlock.meta.errors import Unauthorized
from oarlock.policy.authn.authenticator import Authenticator, BadCredentials, Credentials
from oarlock.registry.waiting import in_task
from oarlock.server.filters.filter import Filter, Next

__all__ = ["authentication"]

log = logging.getLogger("oarlock.authn")


def authentication(authenticator: Authenticator, anonymous_paths: Collection[str] = ()) -> Filter:
    """The filter. `anonymous_paths` are compared exactly, with the path as it was sent.

    Invalid credentials are refused with 401 on every path, the anonymous ones too.
    """
    open_paths = frozenset(anonymous_paths)

    async def authenticate(state: RequestState, next: Next) -> Response:
        request = state.request
        peer = request.peer
        if authenticator.waits:
            await in_task()
        try:
            user = await authenticator.authenticate(
                Credentials(request.headers, peer.certificate, peer.chain, state.notes)
            )
        except BadCredentials as error:
            log.info("unable to authenticate %s %s from %s: %s", request.method, request.path, peer.address, error)
            raise Unauthorized from None
        if user is None:
            if request.path not in open_paths:
                raise Unauthorized
            user = ANONYMOUS
        state.user = user
        return await next(state)

    return authenticate
