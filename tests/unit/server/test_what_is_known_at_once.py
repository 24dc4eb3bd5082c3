"""What the filters decide from memory, without waiting: the same as when it is asked, in the same order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from oarlock.endpoints.http import Response
from oarlock.meta.context import Notes, Peer, Target, User
from oarlock.meta.errors import NotFound
from oarlock.meta.kinds import GroupResource
from oarlock.policy.audit.event import AuditEvent
from oarlock.policy.audit.policy import policy_of
from oarlock.policy.authn.authenticator import UNDECIDED, Authenticator, Credentials, Identity, Union
from oarlock.policy.authz.authorizer import ALLOWED, AccessCounts, AlwaysAllow, Authorizer, Decision
from oarlock.policy.authz.union import AuthorizerUnion
from oarlock.policy.fairness.engine import Fairness
from oarlock.server.audit.sink import AuditCounts, AuditSink, Failures, ServerAudit
from oarlock.server.filters.audit import Audit
from oarlock.server.filters.fairness import FairnessFilter, MaxInFlight
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio

ALICE = User("alice", groups=("system:authenticated",))
BOB = User("bob", groups=("system:authenticated",))
PEER = Peer("127.0.0.1", 1)


class Knows(Authenticator):
    """Knows a user; `at_once` is what it says from memory."""

    waits = False

    def __init__(self, user: User | None, at_once: Identity | None) -> None:
        self.user, self.at_once = user, at_once

    def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
        return self.at_once

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return None if self.user is None else Identity(self.user)


class Overridden(Knows):
    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return Identity(BOB)


def test_an_authenticator_that_must_be_asked_comes_before_a_later_one_that_needn_t_be() -> None:
    later = Knows(BOB, Identity(BOB))
    assert Union([Knows(ALICE, UNDECIDED), later]).authenticate_cached({}, PEER) is UNDECIDED
    assert Union([Knows(None, None), later]).authenticate_cached({}, PEER) == Identity(BOB)
    assert Union([Knows(None, None)]).authenticate_cached({}, PEER) is None


def test_an_authenticator_that_overrides_how_it_is_asked_is_asked() -> None:
    assert Union([Overridden(ALICE, Identity(ALICE))]).authenticate_cached({}, PEER) is UNDECIDED


async def test_an_authenticator_whose_memory_fails_is_asked(chain: Any) -> None:
    class Forgetful(Knows):
        def authenticate_cached(self, headers: Mapping[str, str], peer: Peer) -> Identity | None:
            raise ZeroDivisionError("oops")

        async def authenticate(self, credentials: Credentials) -> Identity | None:
            return Identity(BOB)

    async def name(state: Any) -> Response:
        return Response(200, [], state.user.name.encode())

    chain.config["authenticator"] = Union([Forgetful(None, None)])
    chain.dispatch = name
    assert (await chain.send(token=None)).body == b"bob"


class Refuses(AlwaysAllow):
    async def decide(self, user: User, target: Target) -> Decision:
        return Decision.deny("never")


class Asks(Authorizer):
    waits = False

    async def decide(self, user: User, target: Target) -> Decision:
        return Decision.deny("asked")


async def test_an_authorizer_that_overrides_how_it_decides_is_asked(chain: Any) -> None:
    chain.config["authorizer"] = Refuses()
    assert (await chain.send(token="alice-token")).status == 403
    union = AuthorizerUnion([Refuses()], VirtualClock())
    assert union.authorize_cached(ALICE, Target("get")) is None


async def test_a_union_decides_at_once_only_if_nobody_must_be_asked_before_and_counts_once() -> None:
    counts = AccessCounts()
    asked = AuthorizerUnion([Asks(), AlwaysAllow()], VirtualClock(), counts)
    assert asked.authorize_cached(ALICE, Target("get")) is None
    assert not (await asked.decide(ALICE, Target("get"))).allowed
    free = AuthorizerUnion([AlwaysAllow(), Asks()], VirtualClock(), counts)
    assert free.authorize_cached(ALICE, Target("get")) is ALLOWED
    assert {(labels.name, result): n for (labels, result), n in counts.decisions.items()} == {
        ("Asks", "denied"): 1,
        ("alwaysallow", "allowed"): 1,
    }


async def not_there(state: Any) -> Response:
    raise NotFound(GroupResource("wardle.example.com", "flunders"), "a")


async def test_an_error_counts_until_it_is_there(chain: Any) -> None:
    limit = chain.config["max_in_flight"] = MaxInFlight()
    chain.dispatch = not_there
    response = await chain.begin(method="PUT")
    assert (response.status, limit.mutating) == (404, 0)
    response.sent(False)
    assert limit.mutating == 0


class Events(AuditSink):
    def __init__(self) -> None:
        super().__init__(None, Failures(AuditCounts(), VirtualClock()), prompt=True)
        self.events: list[Any] = []

    def _write(self, event: AuditEvent) -> bool:
        self.events.append(json.loads(event.line))
        return True

    async def close(self, timeout_s: float) -> None:
        """There is nothing to write."""


@pytest.mark.parametrize("fair", [True, False])
async def test_the_audit_log_has_the_status_of_an_error(chain: Any, fair: bool) -> None:
    if fair:
        clock = VirtualClock()
        chain.config["max_in_flight"] = FairnessFilter(Fairness(10, clock.monotonic), clock, lambda *place: None)
    sink = Events()
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    chain.config["audit"] = Audit(ServerAudit(policy_of(policy), [sink], AuditCounts()))
    chain.dispatch = not_there
    assert (await chain.send()).status == 404
    status = sink.events[-1]["responseStatus"]
    assert (status["status"], status["reason"], status["code"]) == ("Failure", "NotFound", 404)


def test_notes_that_were_read_stay_as_they_were() -> None:
    notes = Notes()
    notes.warn("one")
    before, mark = notes.warnings, notes.mark()
    notes.warn("two")
    notes.warn("one")
    notes.audit("a", "b", detailed=True)
    assert (before, notes.warnings) == (("one",), ("one", "two"))
    assert (notes.annotations, notes.brief_annotations) == ((("a", "b"),), ())
    notes.rewind(mark)
    assert (notes.warnings, notes.annotations) == (("one",), ())
