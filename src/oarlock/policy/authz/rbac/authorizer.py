"""`RoleBasedAuthorizer`: the `Authorizer` of a `RoleBasedPolicy`. It remembers decisions until something changes.

See also: `policy`, which decides.
"""

from __future__ import annotations

from oarlock.meta.context import Target, User
from oarlock.meta.errors import ServiceUnavailable
from oarlock.meta.memo import Memo
from oarlock.policy.authz.authorizer import Authorizer, Decision
from oarlock.policy.authz.counts import AuthorizerLabels
from oarlock.policy.authz.known_rules import KnownRules
from oarlock.policy.authz.rbac.policy import RoleBasedPolicy

__all__ = ["RoleBasedAuthorizer"]

_Key = tuple[str, tuple[str, ...], Target]

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
        self._decisions: Memo[_Key, Decision]
        self._forget()

    @property
    def remembered_bytes(self) -> int:
        """An estimate of what the remembered decisions take."""
        return self._decisions.held_bytes

    async def decide(self, user: User, target: Target) -> Decision:
        return self.decided_at_once(user, target)

    def decided_at_once(self, user: User, target: Target) -> Decision:
        """The decision; it never waits. Raises ServiceUnavailable while roles and bindings aren't loaded."""
        policy = self.policy
        if policy.renew is not None or not policy.is_loaded:
            self._renew()
        if self._generation != self.policy.generation:
            self._forget()
        key = (user.name, user.groups, target)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self.policy.decide(user, target)
            self._decisions.put(key, decision, _size(user, target))
        return decision

    async def rules(self, user: User, namespace: str) -> KnownRules:
        self._renew()
        return self.policy.rules(user, namespace)

    def _renew(self) -> None:
        policy = self.policy
        if policy.renew is not None:
            policy.renew()
        if not policy.is_loaded:
            raise ServiceUnavailable("roles and bindings aren't loaded yet, please try again", retry_after_s=1)

    def _forget(self) -> None:
        self._generation = self.policy.generation
        self._decisions = Memo(self._limit_bytes, entry_bytes=_ENTRY_BYTES, per_byte=4)


def _size(user: User, target: Target) -> int:
    """The characters of a question: what a client can make long."""
    texts = (user.name, *user.groups, target.group, target.resource, target.subresource, target.namespace)
    more = (target.name, target.path, target.field_selector, target.label_selector)
    return 16 * len(user.groups) + sum(map(len, texts)) + sum(map(len, more))
