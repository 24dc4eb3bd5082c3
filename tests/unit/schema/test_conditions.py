"""Conditions of objects: since when it is so changes only when it changes whether it is so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import pytest

from oarlock import (
    APIServer,
    Condition,
    ListMap,
    Model,
    Resource,
    find_condition,
    is_condition_true,
    remove_condition,
    set_condition,
)
from oarlock.testing import InMemoryClient, VirtualClock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def ready(status: str, reason: str = "Running", **more: object) -> Condition:
    return Condition(type="Ready", status=status, reason=reason, **more)  # type: ignore[arg-type]


def test_a_new_condition_is_so_from_now_on() -> None:
    clock, conditions = VirtualClock(), [Condition(type="Other", status="True", reason="Made")]
    assert set_condition(conditions, ready("False"), clock)
    assert [one.type for one in conditions] == ["Other", "Ready"]
    assert conditions[1].last_transition_time == BEGIN


def test_it_is_so_since_then_while_the_status_stays() -> None:
    clock, conditions = VirtualClock(), [ready("True", last_transition_time=BEGIN)]
    clock.advance(60.7)
    assert not set_condition(conditions, ready("True"), clock)
    assert set_condition(conditions, ready("True", "StillRunning", message="m", observed_generation=3), clock)
    assert conditions == [ready("True", "StillRunning", message="m", observed_generation=3, last_transition_time=BEGIN)]
    assert set_condition(conditions, ready("False"), clock)
    assert conditions[0].last_transition_time == BEGIN.replace(minute=1)
    assert (conditions[0].message, conditions[0].observed_generation) == ("", None)


def test_a_time_that_is_said_counts_when_the_status_changes() -> None:
    then = datetime(2020, 1, 1, tzinfo=UTC)
    conditions = [ready("True", last_transition_time=BEGIN)]
    assert not set_condition(conditions, ready("True", last_transition_time=then), VirtualClock())
    assert set_condition(conditions, ready("Unknown", last_transition_time=then), VirtualClock())
    assert conditions[0].last_transition_time == then


def test_what_an_informer_shares_is_not_changed() -> None:
    shared = ready("True", last_transition_time=BEGIN)
    conditions = [shared]
    set_condition(conditions, ready("False"), VirtualClock())
    assert shared == ready("True", last_transition_time=BEGIN)


def test_looking_and_removing() -> None:
    conditions = [ready("True"), Condition(type="Stale", status="Unknown", reason="Away")]
    assert is_condition_true(conditions, "Ready")
    assert not is_condition_true(conditions, "Stale")
    assert not is_condition_true(conditions, "Nothing")
    assert find_condition(conditions, "Stale") is conditions[1]
    assert (remove_condition(conditions, "Stale"), remove_condition(conditions, "Stale")) == (True, False)
    assert find_condition(conditions, "Stale") is None


class FleetStatus(Model):
    """How it is."""

    conditions: Annotated[list[Condition], ListMap("type")] = []


class Fleet(Resource, group="harbour.example.com", version="v1", status_subresource=True):
    """Something with conditions."""

    status: FleetStatus | None = None


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ({"type": "Ready", "status": "True", "reason": "Running"}, []),
        ({"type": "example.com/Ready", "status": "True", "reason": "Running", "observedGeneration": 1}, []),
        ({"type": "Ready", "status": "Yes", "reason": "Running"}, ["status"]),
        ({"type": "Ready", "status": "True", "reason": ""}, ["reason"]),
        ({"type": "not ready", "status": "True", "reason": "because so"}, ["reason", "type"]),
        ({"type": "Ready", "status": "True"}, ["reason"]),
    ],
)
def test_what_is_no_condition_is_refused(condition: dict[str, object], refused: list[str]) -> None:
    fleets = "/apis/harbour.example.com/v1/namespaces/default/fleets"
    with InMemoryClient(APIServer(serve=[Fleet])) as client:
        client.post(fleets, {"metadata": {"name": "a"}})
        answer = client.patch(f"{fleets}/a/status", {"status": {"conditions": [condition]}})
        causes = answer.json.get("details", {}).get("causes", [])
        assert sorted({one["field"].rpartition(".")[2] for one in causes}) == refused
        assert answer.status == (422 if refused else 200)
