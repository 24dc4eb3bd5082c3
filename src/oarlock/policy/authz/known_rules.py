"""`AccessRule`, what a role allows; and `KnownRules`, what an authorizer knows that a user may do.

See also: ``rbac``, which decides by rules. Source: k8s.io/api ``rbac/v1`` AccessRule; SelfSubjectRulesReview.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass

__all__ = ["EVERYTHING", "AccessRule", "KnownRules", "RuleSource"]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Verbs on resources, or on non-resource URLs. ``*`` stands for all; no `resource_names` for all names."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()


EVERYTHING = (AccessRule(("*",), ("*",), ("*",)), AccessRule(("*",), non_resource_urls=("*",)))


@dataclass(frozen=True, slots=True)
class KnownRules:
    """What is known of a user's rules. `incomplete`: there may be more, and `error` says why."""

    rules: tuple[AccessRule, ...] = ()
    incomplete: bool = False
    error: str = ""

    def joined(self, more: KnownRules) -> KnownRules:
        """Both together."""
        error = ", ".join(filter(None, (self.error, more.error)))
        return KnownRules(self.rules + more.rules, self.incomplete or more.incomplete, error)


@runtime_checkable
class RuleSource(Protocol):
    """An authorizer that can list what a user may do."""

    async def rules(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do in `namespace`, and anywhere."""
        ...
