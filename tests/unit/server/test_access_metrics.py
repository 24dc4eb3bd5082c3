"""Metrics of authorization: how requests ended, who decided, and how other services answered."""

from __future__ import annotations

import asyncio

import pytest

from oarlock.meta.context import Target, User
from oarlock.policy.authz.authorizer import ALLOWED, AccessCounts, Authorizer, AuthorizerLabels, CannotDecide, Decision
from oarlock.policy.authz.union import AuthorizerUnion
from oarlock.policy.authz.webhook import WebhookAuthorizer, WebhookRules
from oarlock.testing import VirtualClock

pytestmark = pytest.mark.anyio

ANN = User("ann", groups=("dev",))
PODS = Target("get", "", "v1", "pods", namespace="x", name="p")


def samples(counts: AccessCounts) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and the values of its labels; of a histogram, how much is in it."""
    told: dict[tuple[str, ...], float] = {}
    for family in counts.families():
        for values, number in family.samples.items():
            if isinstance(number, tuple):
                told[f"{family.name}_count", *values] = sum(number[0])
            else:
                told[family.name, *values] = number
    return told


class Ours(Authorizer):
    """Denies what is about secrets."""

    waits = False

    async def decide(self, user: User, target: Target) -> Decision:
        return Decision.deny() if target.resource == "secrets" else Decision.no_opinion()


async def test_who_decided_is_counted_by_its_configured_name() -> None:
    counts, clock = AccessCounts(), VirtualClock()

    async def allow(tree: object) -> object:
        return {"kind": "SubjectAccessReview", "status": {"allowed": True}}

    webhook = WebhookAuthorizer(allow, WebhookRules(name="corp"), clock, counts)
    union = AuthorizerUnion([Ours(), webhook], clock, counts)
    assert (await asyncio.create_task(union.decide(ANN, PODS))).allowed
    assert not (await union.decide(ANN, Target("get", "", "v1", "secrets"))).allowed
    assert await union.decide(User("root", groups=("system:masters",)), PODS) is ALLOWED
    told = samples(counts)
    assert told[("apiserver_authorization_decisions_total", "Webhook", "corp", "allowed")] == 1
    assert told[("apiserver_authorization_decisions_total", "Ours", "Ours", "denied")] == 1
    assert counts.decisions.total() == 2, "system:masters need nobody's decision"
    assert told[("apiserver_authorization_webhook_evaluations_total", "corp", "success")] == 1
    assert told[("apiserver_authorization_webhook_duration_seconds_count", "corp", "success")] == 1


@pytest.mark.parametrize(("failure", "left_open"), [("NoOpinion", 1), ("Deny", 0)])
async def test_a_service_that_fails_is_counted(failure: str, left_open: int) -> None:
    counts = AccessCounts()

    async def crash(tree: object) -> object:
        raise ConnectionResetError

    rules = WebhookRules(name="corp", failure=failure)  # type: ignore[arg-type]  # one of the two
    asking = asyncio.create_task(WebhookAuthorizer(crash, rules, VirtualClock(), counts).decide(ANN, PODS))
    try:
        assert not (await asking).allowed
    except CannotDecide:
        assert left_open
    told = samples(counts)
    assert told[("apiserver_authorization_webhook_evaluations_total", "corp", "error")] == 1
    name = "apiserver_authorization_webhook_evaluations_fail_open_total"
    assert told.get((name, "corp", "error"), 0) == left_open


def test_a_configured_authorizer_has_labels_of_its_own() -> None:
    rules = WebhookRules(name="corp")
    assert WebhookAuthorizer(None, rules, VirtualClock()).labels == AuthorizerLabels("Webhook", "corp")  # type: ignore[arg-type]  # it is never asked
