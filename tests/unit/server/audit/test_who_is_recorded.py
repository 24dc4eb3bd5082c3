"""Whom an event names: nobody for a refused credential, both users of an impersonation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oarlock.meta.errors import Unauthorized
from oarlock.policy.audit.event import AuditEvent
from oarlock.policy.audit.policy import policy_of
from oarlock.server.audit.sink import AuditCounts, AuditSink, Failures, ServerAudit
from oarlock.server.filters.audit import Audit
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio


class Remembered(AuditSink):
    """Remembers events, in place of a file."""

    def __init__(self) -> None:
        super().__init__(None, Failures(AuditCounts(), VirtualClock()), prompt=True)
        self.events: list[Any] = []

    def _write(self, event: AuditEvent) -> bool:
        self.events.append(json.loads(event.line))
        return True

    async def close(self, timeout_s: float) -> None:
        """There is nothing to write."""


@pytest.fixture
def sink(chain: Any) -> Remembered:
    rules = [{"level": "None", "users": ["alice"], "verbs": ["list"]}, {"level": "Metadata"}]
    policy = policy_of({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
    remembered = Remembered()
    chain.config["audit"] = Audit(ServerAudit(policy, [remembered], AuditCounts()))
    return remembered


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "Authentication failed, no credentials provided"),
        ({"authorization": "Bearer wrong"}, "Authentication failed, attempted: bearer"),
        ({"authorization": "Basic abc"}, "Authentication failed, attempted: basic"),
    ],
)
async def test_a_refused_credential_is_recorded_once_without_a_user(
    chain: Any, sink: Remembered, headers: dict[str, str], message: str
) -> None:
    response = await chain.send(token=None, headers=headers)
    assert response.status == 401
    (event,) = sink.events
    assert event["stage"] == "ResponseStarted"
    assert event["user"] == {}
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Unauthorized",
        "code": 401,
    }
    assert "wrong" not in json.dumps(event)


async def test_a_401_from_further_in_is_the_user_s(chain: Any, sink: Remembered) -> None:
    async def refuses(state: Any) -> Any:
        raise Unauthorized

    chain.dispatch = refuses
    assert (await chain.send()).status == 401
    assert [event["stage"] for event in sink.events] == ["RequestReceived", "ResponseComplete"]
    assert sink.events[1]["user"]["username"] == "admin"


async def test_an_impersonation_is_recorded_as_both(chain: Any, sink: Remembered) -> None:
    headers = {"impersonate-user": "alice", "impersonate-group": "devs"}
    assert (await chain.send(headers=headers)).status == 200
    received, complete = sink.events
    assert "impersonatedUser" not in received
    assert complete["user"]["username"] == "admin"
    assert complete["impersonatedUser"]["username"] == "alice"
    assert "devs" in complete["impersonatedUser"]["groups"]


async def test_what_the_policy_leaves_out_is_carried_out(chain: Any, sink: Remembered) -> None:
    assert (await chain.send(token="alice-token")).status == 200
    assert sink.events == []
