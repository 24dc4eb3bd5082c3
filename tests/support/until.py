"""Waiting in tests with processes, where no event tells that something has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WAIT_S = 60.0


def until(look: Callable[[], Any]) -> Any:
    """What `look` returns once it is true."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"it wasn't so within {WAIT_S:g} s")
