"""Requests that ask to be treated as somebody else's (``kubectl --as``) are refused.

Impersonation isn't built. Carrying such a request out as its sender would do, with the sender's rights, what
the sender wanted to see tried with somebody else's; so it ends here, with the wording of a user who may not.
Source: k8s.io/apiserver ``endpoints/filters/impersonation``.
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
    if PREFIX in "\n".join(state.request.headers):  # one search is cheaper than a loop over the names
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
