"""`RoleBasedAuthorizer`: the `Authorizer` of a `RoleBasedPolicy`. It remembers decisions until something changes.

See also: `policy`, which decides.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from oarlock.meta.context import Target, User
from oarlock.meta.errors import ServiceUnavailable
from oarlock.meta.memo import Memo
from oarlock.policy.authz.authorizer import Authorizer, AuthorizerLabels, Decision, KnownRules
from oarlock.policy.authz.rbac.policy import UNSETTLED, RoleBasedPolicy
from oarlock.storage.pacing import Pacer

_DecisionKey = tuple[str, tuple[str, ...], Target]

MANY_GROUPS = 512
"""A user of more groups is looked at in slices."""

REMEMBERED_BYTES = 8 * 1024 * 1024
_ENTRY_BYTES = 800


class RoleBasedAuthorizer(Authorizer):
    """Decides by roles and bindings. What it remembers is bounded by `limit_bytes`."""

    waits = False
    labels = AuthorizerLabels("RBAC", "rbac")

    def __init__(self, policy: RoleBasedPolicy, limit_bytes: int = REMEMBERED_BYTES) -> None:
        self.policy = policy
        self._limit_bytes = limit_bytes
        self._generation = -1
        self._decisions: Memo[_DecisionKey, Decision]
        self._forget()

    @property
    def remembered_bytes(self) -> int:
        """An estimate of what the remembered decisions take."""
        return self._decisions.held_bytes

    async def decide(self, user: User, target: Target) -> Decision:
        """Raises ServiceUnavailable while roles and bindings aren't loaded."""
        decision = self.authorize_cached(user, target)
        announced = self.policy.announced
        while decision is None:
            if not self.policy.has_arrived(announced):
                await self._arrived(announced)
            decision = self.policy.decide(await self._bound(user, target.namespace), target, announced)
            if decision is UNSETTLED:  # what would allow it is changing again
                await self._arrived(announced)
                decision = None
        return decision

    def authorize_cached(self, user: User, target: Target) -> Decision | None:
        """The decision; None if it has to wait, for a user of many groups or for a large change."""
        policy = self.policy
        if policy.renew is not None or not policy.is_loaded:
            self._renew()
        if len(user.groups) > MANY_GROUPS:
            return None
        if self._generation != self.policy.generation:
            self._forget()
        key = (user.name, user.groups, target)
        decision = self._decisions.get(key)
        if decision is None:
            decision = policy.decide(user, target)
            if decision is UNSETTLED:
                return None
            self._decisions.put(key, decision, _size(user, target))
        return decision

    async def rules(self, user: User, namespace: str) -> KnownRules:
        self._renew()
        if not self.policy.has_arrived(self.policy.announced):
            await self._arrived(self.policy.announced)
        return self.policy.rules(await self._bound(user, namespace), namespace)

    async def _bound(self, user: User, namespace: str) -> User:
        """The user without the groups that are bound to nothing, if they are many; found in slices."""
        groups = user.groups
        if len(groups) <= MANY_GROUPS:
            return user
        pacer, found = Pacer(), []
        for at in range(0, len(groups), MANY_GROUPS):
            found += self.policy.bound_groups(groups[at : at + MANY_GROUPS], namespace)
            await pacer.turn()
        return replace(user, groups=tuple(found))

    async def _arrived(self, announced: int) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.policy.when_arrived(announced, partial(_settle, arrived))
        await arrived

    def _renew(self) -> None:
        policy = self.policy
        if policy.renew is not None:
            policy.renew()
        if not policy.is_loaded:
            raise ServiceUnavailable("roles and bindings aren't loaded yet, please try again", retry_after_s=1)

    def _forget(self) -> None:
        self._generation = self.policy.generation
        self._decisions = Memo(self._limit_bytes, entry_bytes=_ENTRY_BYTES, per_byte=4)


def _settle(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


def _size(user: User, target: Target) -> int:
    """The characters of a question: what a client can make long."""
    texts = (user.name, *user.groups, target.group, target.resource, target.subresource, target.namespace)
    more = (target.name, target.path, target.field_selector, target.label_selector)
    return 16 * len(user.groups) + sum(map(len, texts)) + sum(map(len, more))
