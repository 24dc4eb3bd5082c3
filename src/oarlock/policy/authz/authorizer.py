"""`Authorizer`: the interface, `AlwaysAllow`, and the 403 messages.

Must not know: HTTP, what is served. See also: ``server.filters.access``, which calls it for every request.
Source: k8s.io/apiserver ``authorization/authorizer`` and ``endpoints/handlers/responsewriters``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from oarlock.meta.context import Target, User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import Forbidden
from oarlock.meta.go.gotext import html_escape, quote
from oarlock.meta.metrics import Histogram, MetricFamily, histogram_of, histograms


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Verbs on resources, or on non-resource URLs. ``*`` means all. No `resource_names` means all names."""

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


DURATION_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class AuthorizerLabels(NamedTuple):
    """What an authorizer is called in metrics: the name comes from the configuration."""

    type: str
    name: str


class AccessCounts:
    """The numbers of one server. Labels come from its configuration or a fixed list, never from a client."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        """Requests by result: ``allowed``, ``denied``, ``no-opinion``, ``error``."""
        self.decisions: Counter[tuple[AuthorizerLabels, str]] = Counter()
        """What authorizers decided, ``allowed`` or ``denied``; having no opinion is no decision."""
        self.calls: defaultdict[tuple[str, str], Histogram] = histograms(DURATION_BOUNDS_S)
        """Questions to other services, by their name and result."""
        self.open_failures: Counter[tuple[str, str]] = Counter()
        """Those without an answer that were left to the next authorizer, by name and result."""
        self.condition_errors: Counter[str] = Counter()
        self.exclusions: Counter[str] = Counter()
        """Requests that weren't sent to a service because of its conditions."""

    def called(self, name: str, result: str, seconds: float) -> None:
        """A service was called, with this result."""
        self.calls[name, result].add(seconds)

    def families(self) -> Iterator[MetricFamily]:
        """What has been counted, as metrics."""
        about = "Requests by the result of authorization."
        attempts = {(result,): count for result, count in self.attempts.items()}
        yield MetricFamily("authorization_attempts_total", about, attempts, ("result",), "counter")
        decisions = {(*labels, decision): count for (labels, decision), count in self.decisions.items()}
        name, by = "apiserver_authorization_decisions_total", ("type", "name", "decision")
        yield MetricFamily(name, "Decisions of an authorizer.", decisions, by, "counter")
        webhook, by_result = "apiserver_authorization_webhook", ("name", "result")
        calls = {labels: times.count for labels, times in self.calls.items()}
        yield MetricFamily(f"{webhook}_evaluations_total", "Questions to another service.", calls, by_result, "counter")
        about = "Questions without an answer that were left to the next authorizer."
        yield MetricFamily(
            f"{webhook}_evaluations_fail_open_total", about, dict(self.open_failures), by_result, "counter"
        )
        for name, about, counts in (
            ("evaluation_errors", "Match conditions that couldn't be evaluated.", self.condition_errors),
            ("exclusions", "Requests that match conditions kept from an authorizer.", self.exclusions),
        ):
            by_name = {("Webhook", authorizer): count for authorizer, count in counts.items()}
            name = f"apiserver_authorization_match_condition_{name}_total"
            yield MetricFamily(name, about, by_name, ("type", "name"), "counter")
        about = "How long another service took, in seconds."
        yield histogram_of(f"{webhook}_duration_seconds", about, by_result, self.calls, DURATION_BOUNDS_S)


class CannotDecide(Exception):
    """An authorizer can't decide now, and has logged why. The text names it."""


class Outcome(Enum):
    """With `NO_OPINION` the next authorizer decides. If none allows the request, it is refused."""

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
        """Answer 403 with this reason. No other authorizer is called."""
        return cls(Outcome.DENY, reason)

    @classmethod
    def no_opinion(cls, reason: str = "") -> Decision:
        """Answer 403 with this reason, unless another authorizer allows the request."""
        return cls(Outcome.NO_OPINION, reason)


ALLOWED = Decision(Outcome.ALLOW)
NO_OPINION = Decision(Outcome.NO_OPINION)


@runtime_checkable
class Authorizer(Protocol):
    """Decides which requests users may send. Write a subclass, for ``APIServer(authorizer=…)``."""

    waits: bool = True
    """Whether `decide` may wait; it then runs in a task. Set False if it never does, which is faster."""

    @abstractmethod
    async def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` describes.

        Called for every request, after authentication and before the request is executed. Called again if the request
        needs another verb (a PUT that creates, an ``exec`` sent with GET). So cache the answers of other services. A
        `StatusError` that it raises is the answer to the request.
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
