"""`ServerAuthorization`: the authorizers of a server, by its options, and what keeps them current.

See also: ``policy.authz``; ``options.groups.authorization``; `configuration`, the file that may say the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oarlock.endpoints.catalog import Catalog
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authz.authorizer import AccessCounts, AlwaysAllow, Authorizer
from oarlock.policy.authz.role_based import RoleBasedAuthorizer, RoleBasedPolicy
from oarlock.policy.authz.roles import GROUP
from oarlock.policy.authz.union import AllowedPaths, AlwaysDeny, AuthorizerUnion
from oarlock.policy.authz.webhook import WebhookAuthorizer, WebhookRules
from oarlock.server.authorization.role_feed import KINDS, RoleFeed
from oarlock.server.files.reloaded import ReloadedFiles
from oarlock.server.files.strict_reader import configured
from oarlock.server.options.groups.authorization import ALWAYS_ALLOW, ALWAYS_DENY, NODE, RBAC, AuthorizationOptions
from oarlock.server.options.option import ConfigError

if TYPE_CHECKING:
    from oarlock.server.authorization.configuration import ConfiguredAuthorizer
    from oarlock.server.cluster.review_caller import ReviewCaller


@dataclass(frozen=True, slots=True)
class _ReviewPlace:
    """Where reviews go: what a kubeconfig names, for messages with the option; without one, the cluster around."""

    option: str
    kubeconfig: Path | None
    is_cluster: bool = False


class ServerAuthorization:
    """Who may do what on a server. Raises `ConfigError`.

    Without options and `default_modes` it is the server's own authorizer alone, or else everybody may do everything.
    With either, these decide in order: ``system:masters``, the paths that are always allowed, the server's own
    authorizer, the modes or what is configured, the cluster that is delegated to.
    """

    def __init__(
        self, own: Authorizer | None, options: AuthorizationOptions, clock: Clock, default_modes: tuple[str, ...] = ()
    ) -> None:
        self.policy = RoleBasedPolicy()
        """Roles and bindings; empty unless RBAC decides."""
        self.counts = AccessCounts()
        self.files: tuple[ReloadedFiles, ...] = ()
        """Those that are read again when they change."""
        self.authorizer: Authorizer = own or AlwaysAllow()
        self._options = options
        self._modes = options.authorization_mode if options.says_who_decides else default_modes
        self._clock = clock
        self._first: list[Authorizer] = []
        self._feed = RoleFeed(self.policy)
        self._rbac: RoleBasedAuthorizer | None = None
        self._served: frozenset[str] | None = None
        self._callers: list[ReviewCaller] = []
        self._closing: set[asyncio.Task[None]] = set()
        paths = options.authorization_always_allow_paths
        if not options.says_who_decides and not paths and not default_modes:
            return
        self._first = [AllowedPaths(paths)] if paths else []
        self._first += [] if own is None else [own]
        file = options.authorization_config
        if file is not None:
            self.files = (ReloadedFiles([file], self._read_again, (ConfigError,)),)
        members, self._callers = self._made(file)
        self.authorizer = AuthorizerUnion(members, clock, self.counts)

    def check(self, catalog: Catalog) -> None:
        """Raises `ConfigError` if RBAC is on and its kinds aren't served."""
        group = catalog.groups.get(GROUP)
        self._served = frozenset(group.resources if group is not None else ())
        if self._rbac is not None:
            self._check_kinds()

    def attach(self, resources: Mapping[tuple[str, str], Any]) -> None:
        """Decide by what is in these resources from now on."""
        self._feed.attach(resources)

    async def close(self) -> None:
        """Close connections, and follow roles no longer."""
        self._feed.close()
        for caller in self._callers:
            await caller.close()

    def _read_again(self) -> None:
        """Use the authorizers of the present configuration. Raises `ConfigError`, and changes nothing then."""
        members, callers = self._made(self._options.authorization_config)
        assert isinstance(self.authorizer, AuthorizerUnion)
        before, self._callers = self._callers, callers
        self.authorizer.replace(members)
        for caller in before:
            task = asyncio.ensure_future(caller.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _made(self, file: Path | None) -> tuple[list[Authorizer], list[ReviewCaller]]:
        callers: list[ReviewCaller] = []
        options = self._options
        members = [*self._first]
        if file is not None:
            members += [self._configured(configured, callers, file) for configured in _configuration(file)]
        else:
            modes = self._modes
            if (
                not modes
                and not options.says_who_decides
                and all(isinstance(member, AllowedPaths) for member in members)
            ):
                modes = (ALWAYS_ALLOW,)
            members += [self._of_mode(mode, callers) for mode in modes if mode != NODE]
        if options.authorization_kubeconfig is not None:
            rules = self._remembering("the cluster of --authorization-kubeconfig")
            place = _ReviewPlace("--authorization-kubeconfig", options.authorization_kubeconfig, is_cluster=True)
            members.append(self._webhook(place, rules, callers))
        return members, callers

    def _of_mode(self, mode: str, callers: list[ReviewCaller]) -> Authorizer:
        if mode == ALWAYS_ALLOW:
            return AlwaysAllow()
        if mode == ALWAYS_DENY:
            return AlwaysDeny()
        if mode == RBAC:
            return self._role_based()
        options, file = self._options, self._options.authorization_webhook_config_file
        assert file is not None, "checked with the options"
        rules = self._remembering("webhook", options.authorization_webhook_version)
        return self._webhook(_ReviewPlace("--authorization-webhook-config-file", file), rules, callers)

    def _configured(self, configured: ConfiguredAuthorizer, callers: list[ReviewCaller], file: Path) -> Authorizer:
        if configured.rules is None:
            return self._of_mode(configured.type, callers)
        option = f"--authorization-config={file}: {configured.name}"
        place = _ReviewPlace(option, configured.kubeconfig, is_cluster=configured.kubeconfig is None)
        return self._webhook(place, configured.rules, callers)

    def _remembering(self, name: str, version: str = "v1") -> WebhookRules:
        options = self._options
        return WebhookRules(
            name,
            version,
            options.authorization_webhook_cache_authorized_ttl_s,
            options.authorization_webhook_cache_unauthorized_ttl_s,
        )

    def _webhook(self, place: _ReviewPlace, rules: WebhookRules, callers: list[ReviewCaller]) -> Authorizer:
        # Imported here, because few servers ask others, which needs an HTTP client.
        from oarlock.server.cluster.review_caller import review_caller  # noqa: PLC0415 (see above)

        caller = review_caller(place.option, place.kubeconfig, rules.timeout_s, is_cluster=place.is_cluster)
        callers.append(caller)
        return WebhookAuthorizer(caller, rules, self._clock, self.counts)

    def _role_based(self) -> Authorizer:
        if self._served is not None:
            self._check_kinds()
        if self._rbac is None:
            self._rbac = RoleBasedAuthorizer(self.policy)
        return self._rbac

    def _check_kinds(self) -> None:
        missing = [plural for plural in KINDS if plural not in (self._served or ())]
        if missing:
            why = f"the mode RBAC needs {', '.join(missing)} of {GROUP} to be served"
            raise ConfigError([f"--authorization-mode: {why}: use oarlock up, or another mode"])


def _configuration(file: Path) -> Sequence[ConfiguredAuthorizer]:
    # Imported here, because it compiles CEL, and few servers have the file.
    from oarlock.server.authorization.configuration import authorizers_of  # noqa: PLC0415 (see above)

    return configured("authorization-config", file, authorizers_of)[0]
