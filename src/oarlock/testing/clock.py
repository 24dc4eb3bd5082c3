"""`VirtualClock`: time that only moves when a test says so."""

from __future__ import annotations

__all__ = ["VirtualClock"]


class VirtualClock:
    """A `Clock`. Starts at `epoch_s` seconds since the epoch (2026-01-01 by default), monotonic at 0."""

    def __init__(self, epoch_s: float = 1_767_225_600.0) -> None:
        self._epoch_s = epoch_s
        self._elapsed_s = 0.0

    def now(self) -> float:
        return self._epoch_s + self._elapsed_s

    def monotonic(self) -> float:
        return self._elapsed_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Timers of the event loop are not touched."""
        if seconds < 0:
            raise ValueError("time doesn't go back")
        self._elapsed_s += seconds
