"""Authorizes requests. Source: k8s.io/apiserver ``endpoints/filters/authorization``. See also: ``policy.authz``."""

from __future__ import annotations

from collections.abc import Awaitable

from oarlock.endpoints.request_state import RequestState
from oarlock.policy.audit.event import AuditRecord
from oarlock.policy.authz.authorizer import ALLOWED, Authorizer, Decision, Outcome, decided, forbidden
from oarlock.policy.authz.counts import AccessCounts
from oarlock.registry.hooks.hook_caller import HookCaller
from oarlock.registry.workers import ensure_task, sync_variant
from oarlock.server.filters.filter import FilterStep

__all__ = ["authorization"]


def authorization(authorizer: Authorizer, counts: AccessCounts) -> FilterStep:
    """The filter: 403 for what `authorizer` doesn't allow. `counts` are told of each request."""
    attempts = counts.attempts
    code = HookCaller(f"{type(authorizer).__qualname__}.decide")
    waits = authorizer.waits
    at_once = sync_variant(authorizer, "decide", "authorize_cached")

    def authorize(state: RequestState) -> Awaitable[None] | None:
        decision = None if at_once is None else at_once(state.user, state.target)
        if decision is ALLOWED and state.audit is None:
            attempts["allowed"] += 1
            return None
        if decision is None:
            return ask(state)
        judge(state, decision)
        return None

    async def ask(state: RequestState) -> None:
        try:
            if waits:
                await ensure_task()
                decision = await code.timed(state.clock, authorizer.decide(state.user, state.target))
            else:
                decision = await authorizer.decide(state.user, state.target)
        except Exception:
            attempts["error"] += 1
            raise
        judge(state, decision)

    def judge(state: RequestState, decision: Decision) -> None:
        if state.audit is not None:
            _annotate(state.audit, decision)
        if decision is not ALLOWED and not decided(decision, code.name).allowed:
            attempts["denied" if decision.outcome is Outcome.DENY else "no-opinion"] += 1
            raise forbidden(state.user, state.target, decision.reason)
        attempts["allowed"] += 1

    return authorize


def _annotate(record: AuditRecord, decision: object) -> None:
    """Say in the audit log who decided, and why."""
    if isinstance(decision, Decision):
        record.annotate("authorization.k8s.io/decision", "allow" if decision.allowed else "forbid")
        record.annotate("authorization.k8s.io/reason", decision.reason)
