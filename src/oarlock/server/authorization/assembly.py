"""`ServerAuthorization`: the authorizers of a server, by its options, and what keeps them current.

See also: ``policy.authz``; ``options.groups.authorization``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.endpoints.catalog import Catalog
from oarlock.meta.context import Clock
from oarlock.policy.authz.authorizer import AlwaysAllow, Authorizer
from oarlock.policy.authz.fixed import AllowedPaths, AlwaysDeny
from oarlock.policy.authz.rbac.authorizer import RoleBasedAuthorizer
from oarlock.policy.authz.rbac.policy import RoleBasedPolicy
from oarlock.policy.authz.rbac.roles import GROUP
from oarlock.policy.authz.union import AuthorizerUnion
from oarlock.server.authorization.role_feed import KINDS, RoleFeed
from oarlock.server.options.groups.authorization import ALWAYS_ALLOW, ALWAYS_DENY, AuthorizationOptions
from oarlock.server.options.option import ConfigError, Problem

__all__ = ["ServerAuthorization"]


class ServerAuthorization:
    """Who may do what on a server.

    Without options it is the server's own authorizer alone, or else everybody may do everything. With options, these
    are asked in order: ``system:masters``, the paths that are always allowed, the server's own authorizer, the modes.
    """

    def __init__(self, own: Authorizer | None, options: AuthorizationOptions, clock: Clock) -> None:
        self.policy = RoleBasedPolicy()
        """Roles and bindings; empty if RBAC isn't among the modes."""
        self._feed: RoleFeed | None = None
        modes, paths = options.authorization_mode, options.authorization_always_allow_paths
        if not modes and not paths:
            self.authorizer = own or AlwaysAllow()
            return
        members: list[Authorizer] = [AllowedPaths(paths)] if paths else []
        members += [] if own is None else [own]
        if own is None and not modes:
            modes = (ALWAYS_ALLOW,)
        members += map(self._of_mode, modes)
        self.authorizer = AuthorizerUnion(members, clock)

    def check(self, catalog: Catalog) -> None:
        """Raises `ConfigError` if RBAC is on and its kinds aren't served."""
        group = catalog.groups.get(GROUP)
        missing = [plural for plural in KINDS if group is None or plural not in group.resources]
        if self._feed is not None and missing:
            why = f"RBAC needs {', '.join(missing)} of {GROUP} to be served: use oarlock up, or another mode"
            raise ConfigError([f"authorization_mode: {why}"], (Problem("authorization_mode", why),))

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Decide by what is in these resources from now on."""
        if self._feed is not None:
            self._feed.attach(resources)

    def _of_mode(self, mode: str) -> Authorizer:
        if mode == ALWAYS_ALLOW:
            return AlwaysAllow()
        if mode == ALWAYS_DENY:
            return AlwaysDeny()
        self._feed = RoleFeed(self.policy)
        return RoleBasedAuthorizer(self.policy)
