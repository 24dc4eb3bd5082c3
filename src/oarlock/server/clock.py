"""`SystemClock`: the time of the machine. Everything below is handed a clock; only a real process uses this one."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """Implements ``meta.context.Clock``."""

    __slots__ = ()

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
