"""`AuthorizerUnion`: the authorizers of a server, asked in order; the first that allows or denies decides.

Members of the group ``system:masters`` may do everything, whatever the others say. `AlwaysDeny` and `AllowedPaths` are
the simplest members. `Access` is the authorization of the running server, for code that needs it: one is made with a
server, before it is known how the server decides. See also: `authorizer`, the interface.
Source: k8s.io/apiserver ``authorization/union``, ``authorizerfactory``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from oarlock.meta.context import Clock, Target, User
from oarlock.meta.errors import InternalError, StatusError
from oarlock.policy.authz.authorizer import (
    ALLOWED,
    NO_OPINION,
    AccessCounts,
    AccessRule,
    Authorizer,
    AuthorizerLabels,
    CannotDecide,
    Decision,
    KnownRules,
    Outcome,
    RuleSource,
    decided,
)
from oarlock.policy.authz.role_based import RoleBasedPolicy
from oarlock.policy.authz.roles import RoleKey
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.workers import ensure_task, sync_variant

log = logging.getLogger("oarlock.authz")
_AtOnce = Callable[[User, Target], Decision | None]
MASTERS = "system:masters"
"""The group that may do everything."""


class AuthorizerUnion(Authorizer):
    """Asks each of `members` in turn. Without members, only ``system:masters`` may do anything.

    One that fails has no opinion, and the log says why: if nobody else allows the request, it is refused with 500. A
    `StatusError` of a member refuses at once. A request gets a task when the first member that waits is asked.
    """

    waits = False

    def __init__(self, members: Sequence[Authorizer], clock: Clock, counts: AccessCounts | None = None) -> None:
        self._clock = clock
        self._decisions = (counts or AccessCounts()).decisions
        self._members: tuple[tuple[Authorizer, HookCaller], ...] = ()
        self._quick: tuple[tuple[_AtOnce | None, tuple[AuthorizerLabels, str]], ...] = ()
        self.replace(members)

    def replace(self, members: Sequence[Authorizer]) -> None:
        """Ask these members from the next request on."""
        self._members = tuple((member, HookCaller(f"{type(member).__qualname__}.decide")) for member in members)
        self._quick = tuple(
            (sync_variant(member, "decide", "authorize_cached"), (_labels(member), "allowed")) for member in members
        )

    @property
    def members(self) -> tuple[Authorizer, ...]:
        return tuple(member for member, _ in self._members)

    def authorize_cached(self, user: User, target: Target) -> Decision | None:
        """The decision, if a member allows the request from memory, and none that waits is asked before it; else None.

        A member that fails counts as if it had to wait: `decide` says what comes of that.
        """
        if MASTERS in user.groups:
            return ALLOWED
        try:
            for quick, series in self._quick:
                decision = None if quick is None else quick(user, target)
                if decision is None or decision.outcome is Outcome.DENY:
                    return None
                if decision.outcome is Outcome.ALLOW:
                    self._decisions[series] += 1
                    return decision
        except Exception:
            return None
        return None

    async def decide(self, user: User, target: Target) -> Decision:
        if MASTERS in user.groups:
            return ALLOWED
        reasons: list[str] = []
        failed = ""
        for member, code in self._members:
            try:
                if member.waits:
                    await ensure_task()
                    decision = await code.timed(self._clock, member.decide(user, target))
                else:
                    decision = await member.decide(user, target)
                outcome = decided(decision, code.name).outcome
            except StatusError:
                raise
            except CannotDecide as error:
                failed = failed or str(error)
                continue
            except Exception as error:
                log.error("%s failed", code.name, exc_info=error)
                failed = failed or type(member).__qualname__
                continue
            if outcome is not Outcome.NO_OPINION:
                self._decisions[_labels(member), "allowed" if outcome is Outcome.ALLOW else "denied"] += 1
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        if failed:
            raise InternalError(f"{failed}, an authorizer, failed: the log of the server says why")
        return Decision(Outcome.NO_OPINION, "\n".join(reasons)) if reasons else NO_OPINION

    async def rules(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do in `namespace`, as far as the members can tell."""
        known = KnownRules()
        for member, _ in self._members:
            if isinstance(member, RuleSource):
                known = known.joined(await member.rules(user, namespace))
            else:
                known = known.joined(KnownRules(incomplete=True, error=_cannot_list(member)))
        return known


def _labels(member: Authorizer) -> AuthorizerLabels:
    """What it is called in metrics; one of a user's own by its class."""
    labels: AuthorizerLabels | None = getattr(member, "labels", None)
    return labels or AuthorizerLabels(type(member).__qualname__, type(member).__qualname__)


def _cannot_list(member: Authorizer) -> str:
    return f"{type(member).__qualname__} can't list the rules of a user"


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


class Access:
    """Asks the server's authorizer whether a user may do something. Before the server runs, nothing is allowed."""

    def __init__(self) -> None:
        self._authorizer: Authorizer | None = None
        self._policy = RoleBasedPolicy()

    def begin(self, authorizer: Authorizer, policy: RoleBasedPolicy) -> None:
        """Called by the server that starts."""
        self._authorizer = authorizer
        self._policy = policy

    async def decide(self, user: User, target: Target) -> Decision:
        """Whether `user` may do what `target` says. Raises what the authorizer raises."""
        authorizer = self._authorizer
        if authorizer is None:
            return Decision.no_opinion("the server hasn't started")
        if authorizer.waits:
            await ensure_task()
        try:
            return decided(await authorizer.decide(user, target), type(authorizer).__qualname__)
        except CannotDecide as error:
            return Decision.no_opinion(f"{error} can't decide now")

    async def rules(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do in `namespace`, and anywhere, as far as that is known."""
        authorizer = self._authorizer
        if isinstance(authorizer, RuleSource):
            return await authorizer.rules(user, namespace)
        return KnownRules(incomplete=True, error="the authorizer can't list the rules of a user")

    def role_rules(self, key: RoleKey) -> tuple[AccessRule, ...] | None:
        """The rules of a role that is stored; None if there is no such role."""
        return self._policy.role_rules(key)

    def held_by_roles(self, user: User, namespace: str) -> KnownRules:
        """What `user` may do by roles and bindings alone."""
        return self._policy.rules(user, namespace)
