"""Refuses impersonation (``kubectl --as``) with 403.

It isn't implemented, and ignoring the headers would run the request with the sender's own permissions. Source:
k8s.io/apiserver ``endpoints/filters/impersonation``.
"""

from __future__ import annotations

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import Target
from oarlock.meta.errors import BadRequest
from oarlock.policy.authz.authorizer import forbidden
from oarlock.server.filters.filter import Next

__all__ = ["no_impersonation"]

PREFIX = "impersonate-"


async def no_impersonation(state: RequestState, next: Next) -> Response:
    if PREFIX in "\n".join(state.request.headers):  # one search is faster than a loop over the names
        names = [name for name in state.request.headers if name.startswith(PREFIX)]
        if names:
            raise _refusal(state, names)
    return await next(state)


def _refusal(state: RequestState, names: list[str]) -> Exception:
    user = state.request.headers.get(PREFIX + "user")
    if not user:
        return BadRequest(f"requested {names} without impersonating a user")
    target = Target("impersonate", resource="users", name=user)
    return forbidden(state.user, target, "impersonation is not supported by this server")
