"""`ChainConfig`: the parameters of the filters of one server. See also: `chain`, their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.dataclass import dataclass
from oarlock.policy.authn.authenticator import NOBODY, Anonymous, Authenticator
from oarlock.policy.authn.front_proxy_headers import FrontProxyHeaders
from oarlock.policy.authz.authorizer import AccessCounts, AlwaysAllow, Authorizer
from oarlock.server.filters.access import Attempted, uncounted
from oarlock.server.filters.answer_headers import Cors
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.fairness import FairnessFilter, MaxInFlight
from oarlock.server.filters.filter import Finish
from oarlock.server.filters.memory import MemoryReserve
from oarlock.server.filters.shutdown import Shutdown

if TYPE_CHECKING:
    from oarlock.server.pages.static_files import StaticFiles


def _unobserved(state: RequestState, response: Response) -> None:
    """Records no metrics."""


@dataclass(frozen=True, slots=True)
class ChainConfig:
    """The parameters of the filters of one server."""

    resolve: Callable[[RequestState], None]
    authenticator: Authenticator
    authorizer: Authorizer = field(default_factory=AlwaysAllow)
    access: AccessCounts = field(default_factory=AccessCounts)
    observe: Callable[[RequestState, Response], None] = _unobserved
    shutdown: Shutdown = field(default_factory=Shutdown)
    max_in_flight: MaxInFlight | FairnessFilter | None = field(default_factory=MaxInFlight)
    memory: MemoryReserve | None = None
    anonymous: Anonymous = NOBODY
    front_proxy: FrontProxyHeaders = field(default_factory=FrontProxyHeaders)
    audit: Audit | None = None
    cors: Cors | None = None
    files: Sequence[StaticFiles] = ()
    connection_headers: Sequence[Finish] = ()
    audiences: frozenset[str] = frozenset()
    attempted: Attempted = uncounted
    request_timeout_s: float = 60.0
    random: Callable[[int], bytes] = os.urandom
