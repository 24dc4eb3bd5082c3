"""Authorizers that need no configuration: `AlwaysDeny`, and `AllowedPaths` for what everybody may ask for.

See also: `authorizer`, which has `AlwaysAllow`. Source: k8s.io/apiserver ``authorization/path``, ``authorizerfactory``.
"""

from __future__ import annotations

from collections.abc import Iterable

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import ALLOWED, NO_OPINION, Authorizer, AuthorizerLabels, Decision, KnownRules


class AlwaysDeny(Authorizer):
    """Allows nothing. It has no opinion, so that a later authorizer may still allow."""

    waits = False
    labels = AuthorizerLabels("AlwaysDeny", "alwaysdeny")

    async def decide(self, user: User, target: Target) -> Decision:
        return Decision.no_opinion("Everything is forbidden.")

    async def rules(self, user: User, namespace: str) -> KnownRules:
        return KnownRules()


class AllowedPaths(Authorizer):
    """Allows everybody every method on these paths, none of them a resource's; ``/healthz/*`` is all below it."""

    waits = False

    def __init__(self, paths: Iterable[str]) -> None:
        paths = tuple(paths)
        self._exact = frozenset(path for path in paths if not path.endswith("*"))
        self._prefixes = tuple(path.removesuffix("*") for path in paths if path.endswith("*"))

    async def decide(self, user: User, target: Target) -> Decision:
        if target.resource:
            return NO_OPINION
        allowed = target.path in self._exact or target.path.startswith(self._prefixes)
        return ALLOWED if allowed else NO_OPINION

    async def rules(self, user: User, namespace: str) -> KnownRules:
        return KnownRules()
