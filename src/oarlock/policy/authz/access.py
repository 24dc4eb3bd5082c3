"""`Access`: the authorization of the running server, for code that asks it: reviews, plugins, controllers.

One is made with a server, before it is known how the server decides; the server fills it in when it starts.
See also: `union`, what it usually asks.
"""

from __future__ import annotations

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import (
    AccessRule,
    Authorizer,
    CannotDecide,
    Decision,
    KnownRules,
    RuleSource,
    decided,
)
from oarlock.policy.authz.rbac.policy import RoleBasedPolicy
from oarlock.policy.authz.rbac.roles import RoleKey
from oarlock.registry.workers import ensure_task


class Access:
    """Asks the server's authorizer whether a user may do something. Before the server runs, nothing is allowed."""

    def __init__(self) -> None:
        self._authorizer: Authorizer | None = None
        self._policy = RoleBasedPolicy()

    def begin(self, authorizer: Authorizer, policy: RoleBasedPolicy) -> None:
        """Called by the server that starts."""
        self._authorizer = authorizer
        self._policy = policy

    async def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` says. Raises what the authorizer raises."""
        authorizer = self._authorizer
        if authorizer is None:
            return Decision.no_opinion("the server hasn't started")
        if authorizer.waits:
            await ensure_task()
        try:
            return decided(await authorizer.decide(user, target), type(authorizer).__qualname__)
        except CannotDecide as error:
            return Decision.no_opinion(f"{error} can't decide now")

    async def rules(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do in `namespace`, and anywhere, as far as that can be told."""
        authorizer = self._authorizer
        if isinstance(authorizer, RuleSource):
            return await authorizer.rules(user, namespace)
        return KnownRules(incomplete=True, error="the authorizer can't list the rules of a user")

    def role_rules(self, key: RoleKey) -> tuple[AccessRule, ...] | None:
        """The rules of a role that is stored; None if there is no such role."""
        return self._policy.role_rules(key)

    def held_by_roles(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do by roles and bindings alone."""
        return self._policy.rules(user, namespace)
