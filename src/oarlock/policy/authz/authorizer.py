"""`Authorizer`: the interface, `AlwaysAllow`, and the 403 messages.

Must not know: HTTP, what is served. See also: ``server.filters.access``, which calls it for every request.
Source: k8s.io/apiserver ``authorization/authorizer`` and ``endpoints/handlers/responsewriters``.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Protocol, runtime_checkable

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden
from oarlock.meta.go.gotext import html_escape, quote
from oarlock.policy.authz.counts import AuthorizerLabels
from oarlock.policy.authz.known_rules import EVERYTHING, KnownRules

__all__ = [
    "ALLOWED",
    "NO_OPINION",
    "AlwaysAllow",
    "Authorizer",
    "CannotDecide",
    "Decision",
    "Outcome",
    "decided",
    "forbidden",
]


class CannotDecide(Exception):
    """An authorizer can't decide now, and has told the log why. The text names it."""


class Outcome(Enum):
    """`NO_OPINION` leaves it to the next authorizer; if none allows the request, it is refused."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of an authorizer; `reason` is shown to the client of a refused request, and may be empty."""

    outcome: Outcome
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.outcome is Outcome.ALLOW

    @classmethod
    def allow(cls) -> Decision:
        """Allow the request."""
        return ALLOWED

    @classmethod
    def deny(cls, reason: str = "") -> Decision:
        """403 with this reason; no other authorizer is asked."""
        return cls(Outcome.DENY, reason)

    @classmethod
    def no_opinion(cls, reason: str = "") -> Decision:
        """403 with this reason, unless another authorizer allows the request."""
        return cls(Outcome.NO_OPINION, reason)


ALLOWED = Decision(Outcome.ALLOW)
NO_OPINION = Decision(Outcome.NO_OPINION)


@runtime_checkable
class Authorizer(Protocol):
    """Decides who may do what. Write one as a subclass, for ``APIServer(authorizer=…)``."""

    waits: bool = True
    """Whether `decide` may wait; it then runs in a task. Set False if it never does, which is faster."""

    @abstractmethod
    async def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` says.

        Called for every request, after authentication and before the request is carried out; a second time when a
        request turns out to need another verb (a PUT that creates, an ``exec`` requested with GET). So cache the
        answers of other services. Raising a `StatusError` refuses with that.
        """
        ...


class AlwaysAllow(Authorizer):
    """Allows every authenticated user everything."""

    waits = False
    labels = AuthorizerLabels("AlwaysAllow", "alwaysallow")

    async def decide(self, user: User, target: Target) -> Decision:
        return ALLOWED

    def authorize_cached(self, user: User, target: Target) -> Decision | None:
        return ALLOWED

    async def rules(self, user: User, namespace: str) -> KnownRules:
        return KnownRules(EVERYTHING)


def decided(decision: object, who: str) -> Decision:
    """The decision that `who` returned. Raises TypeError if it isn't a `Decision`."""
    if not isinstance(decision, Decision):
        raise TypeError(f"{who} returned {decision!r:.100}: it returns a Decision")
    return decision


def forbidden(user: User, target: Target, reason: str = "") -> Forbidden:
    """The 403 of a refused request, with Kubernetes' message; the client's own words in it are HTML-escaped."""
    why = f": {reason}" if reason else ""
    if not target.resource:
        error = Forbidden.for_path(user.name, target.verb, target.path)
        error.message += why
        return error
    resource = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
    place = f"in the namespace {quote(target.namespace)}" if target.namespace else "at the cluster scope"
    text = (
        f"User {quote(user.name)} cannot {target.verb} resource {quote(resource)}"
        f" in API group {quote(target.group)} {place}"
    )
    return Forbidden(target.group_resource, target.name, html_escape(text) + why)
