"""`SystemClock`: the machine's clock. All other code gets its clock as a parameter; tests pass another one."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """Implements ``meta.context.Clock``."""

    __slots__ = ()

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
