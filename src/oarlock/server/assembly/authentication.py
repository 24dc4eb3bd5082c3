"""`ServerAuthentication`: what the filters of a server need to know of those who are let in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oarlock.meta.metrics import MetricFamily
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.server.assembly.identities import Identities, anonymous_of
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.config import ServerConfig

__all__ = ["ServerAuthentication"]


class ServerAuthentication:
    """Only anonymous users are known until `let_in`."""

    def __init__(self, config: ServerConfig) -> None:
        self.anonymous = anonymous_of(config)
        self.front_proxy = FrontProxyHeaders()
        self.audiences: frozenset[str] = frozenset()
        self.counts = AuthenticationCounts()
        self._remembered: Callable[[], dict[str, int]] | None = None

    def let_in(self, identities: Identities) -> None:
        """Authenticate with `identities`. Call it before handlers are made."""
        self.front_proxy, self.audiences = identities.front_proxy, frozenset(identities.audiences)
        self.anonymous, self.counts = identities.anonymous, identities.counts
        self._remembered = identities.remembered

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        if self._remembered is not None:
            self.counts.remembered = self._remembered()
        return self.counts.families()
