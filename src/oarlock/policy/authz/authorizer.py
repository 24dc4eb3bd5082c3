"""`Authorizer`: may this user do this? `AlwaysAllow` is the one there is; the 403 texts are here for all to come.

Must not know: HTTP, what is served. Next: ``server.filters.authorization``, which asks for every request.
Source: k8s.io/apiserver ``authorization/authorizer`` and ``endpoints/handlers/responsewriters``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from oarlock.meta.context import Target, User
from oarlock.meta.errors import Forbidden
from oarlock.meta.gotext import html_escape, quote

__all__ = ["ALLOWED", "AlwaysAllow", "Authorizer", "Decision", "Outcome", "decided", "forbidden"]


class Outcome(Enum):
    """`NO_OPINION` leaves it to the next authorizer; when nobody allows, the request is refused."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


@dataclass(frozen=True, slots=True)
class Decision:
    """What an authorizer says; `reason` is shown to the client of a refused request, and may be empty."""

    outcome: Outcome
    reason: str = ""

    @property
    def allowed(self) -> bool:
        return self.outcome is Outcome.ALLOW

    @classmethod
    def allow(cls) -> Decision:
        """Go ahead."""
        return ALLOWED

    @classmethod
    def deny(cls, reason: str = "") -> Decision:
        """403 with this reason, whatever anybody else says."""
        return cls(Outcome.DENY, reason)

    @classmethod
    def no_opinion(cls, reason: str = "") -> Decision:
        """Not mine to allow: 403 with this reason, unless somebody else allows it."""
        return cls(Outcome.NO_OPINION, reason)


ALLOWED = Decision(Outcome.ALLOW)


@runtime_checkable
class Authorizer(Protocol):
    """Decides who may do what. Write one as a subclass, for ``APIServer(authorizer=…)``."""

    waits: bool = True
    """Could `decide` wait? Then it runs inside a task. One that never does says ``waits = False``, which costs less."""

    @abstractmethod
    async def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` says.

        Runs for every request, after authentication and before anything of it is carried out; a second time where a
        request turns out to need another verb (a PUT that creates, an ``exec`` that was asked for with GET). So what
        it asks others it should remember. Raising an error of `errors` refuses with that.
        """
        ...


class AlwaysAllow(Authorizer):
    """Everybody who is known may do everything."""

    waits = False

    async def decide(self, user: User, target: Target) -> Decision:
        return ALLOWED


def decided(decision: object, who: str) -> Decision:
    """What `who` returned, if it is one. Raises TypeError."""
    if not isinstance(decision, Decision):
        raise TypeError(f"{who} returned {decision!r:.100}: it returns a Decision")
    return decision


def forbidden(user: User, target: Target, reason: str = "") -> Forbidden:
    """The 403 of a refused request, worded as clients know it; what the client wrote is HTML-escaped."""
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
