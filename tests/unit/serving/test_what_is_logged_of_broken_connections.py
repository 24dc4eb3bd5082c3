"""What any stranger can cause is one line, and not one each time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import pytest

from oarlock.server.serving.listener import ConnectionErrors, ThrottledLog

LOGGER = "oarlock.serving"


class Transport:
    def __init__(self, name: Any) -> None:
        self.name = name

    def get_extra_info(self, what: str) -> Any:
        assert what == "peername"
        return self.name


def test_lines_are_few_and_say_how_many_there_would_have_been(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    lines = ThrottledLog(logging.ERROR, lambda: now)
    for _ in range(1000):
        lines.write("no more %s", "files")
    assert caplog.messages == ["no more files"]
    now += 9.9
    lines.write("no more %s", "files")
    now += 0.1
    lines.write("no more %s", "memory")
    assert caplog.messages[1:] == ["no more memory (and 1000 more in the last 10 s)"]
    now += 60
    lines.write("no more %s", "files")
    assert caplog.messages[2:] == ["no more files"]
    assert {record.levelname for record in caplog.records} == {"ERROR"}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionResetError, "10.0.0.1:5: SSL handshake failed: ConnectionResetError"),  # as aiofastnet has it
        (ConnectionResetError(104, "reset"), "10.0.0.1:5: SSL handshake failed: [Errno 104] reset"),
        (ssl.SSLError(1, "wrong version"), "10.0.0.1:5: SSL handshake failed: wrong version"),
    ],
)
def test_a_connection_that_breaks_is_a_line(caplog: pytest.LogCaptureFixture, error: Any, told: str) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    loop = asyncio.new_event_loop()
    try:
        errors = ConnectionErrors(loop, ThrottledLog(logging.INFO, lambda: 0.0))
        context = {"message": "SSL handshake failed", "exception": error, "transport": Transport(("10.0.0.1", 5))}
        for _ in range(100):
            loop.call_exception_handler(context)
        assert caplog.messages == [told]
        assert caplog.records[0].exc_info is None
        errors.restore()
        assert loop.get_exception_handler() is None
    finally:
        loop.close()


@pytest.mark.parametrize(
    "context",
    [
        {"message": "a bug", "exception": ValueError("x"), "transport": Transport(None)},
        {"message": "a task", "exception": OSError("x")},
        {"message": "no exception"},
    ],
)
def test_anything_else_is_left_to_the_handler_before(caplog: pytest.LogCaptureFixture, context: dict[str, Any]) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    loop = asyncio.new_event_loop()
    seen: list[dict[str, Any]] = []
    try:
        loop.set_exception_handler(lambda _, context: seen.append(context))
        errors = ConnectionErrors(loop, ThrottledLog(logging.INFO, lambda: 0.0))
        loop.call_exception_handler(context)
        assert seen == [context]
        assert not caplog.messages
        errors.restore()
        loop.call_exception_handler(context)
        assert seen == [context, context]
    finally:
        loop.close()
