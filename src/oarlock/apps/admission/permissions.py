"""What expressions ask of the server's authorizer.

See also: ``policy.admission.expressions.waiting``, which asks.
"""

from __future__ import annotations

from oarlock.meta.context import Target, User
from oarlock.meta.errors import StatusError
from oarlock.policy.admission.expressions.waiting import DecidePermission
from oarlock.policy.authz.access import Access
from oarlock.schema.cel.library.authz import Permission

__all__ = ["permissions_of"]


def permissions_of(access: Access) -> DecidePermission:
    """Asks `access`; that it can't be found out is the permission's error."""

    async def decide(user: User, target: Target) -> Permission:
        try:
            decision = await access.decide(user, target)
        except StatusError as error:
            return Permission(False, "", str(error))
        return Permission(decision.allowed, decision.reason)

    return decide
