"""Of an object that can't be read the log says so once, and of many no more than a few lines a minute."""

from __future__ import annotations

import logging

import pytest

from oarlock.registry.complaints import KEPT, LINES, PER_S, Complaints


def test_once_for_each_state_of_an_object(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("oarlock.test"), lambda: 1.0)
    for state in (1, 1, 2, 1):
        complaints.tell("Boat default/a", state, "it leaks")
    assert caplog.messages == ["Boat default/a: it leaks"] * 2


def test_a_flood_is_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    now = [1.0]
    complaints = Complaints(logging.getLogger("oarlock.test"), lambda: now[0])
    for number in range(KEPT + 100):
        complaints.tell(f"Boat default/{number}", 1, "it leaks")
    assert len(caplog.messages) == LINES
    now[0] += PER_S
    complaints.tell("Boat default/x", 1, "it leaks")
    assert caplog.messages[-1] == f"Boat default/x: it leaks ({KEPT + 100 - LINES} others were left out before)"
