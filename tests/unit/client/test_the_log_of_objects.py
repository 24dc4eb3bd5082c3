"""Of an object that can't be read the log says so once, and of many no more than a few lines a minute."""

from __future__ import annotations

import logging

import pytest

from oarlock.client.informers.remote_objects import LINES, PER_S, REMEMBERED, ObjectLog


def test_once_for_each_state_of_an_object(caplog: pytest.LogCaptureFixture) -> None:
    object_log = ObjectLog(logging.getLogger("oarlock.test"), lambda: 1.0)
    for state in (1, 1, 2, 1):
        object_log.warn("Boat default/a", state, "it leaks")
    assert caplog.messages == ["Boat default/a: it leaks"] * 2


def test_a_flood_is_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    now = [1.0]
    object_log = ObjectLog(logging.getLogger("oarlock.test"), lambda: now[0])
    for number in range(REMEMBERED + 100):
        object_log.warn(f"Boat default/{number}", 1, "it leaks")
    assert len(caplog.messages) == LINES
    now[0] += PER_S
    object_log.warn("Boat default/x", 1, "it leaks")
    assert caplog.messages[-1] == f"Boat default/x: it leaks ({REMEMBERED + 100 - LINES} others were left out before)"
