"""What is logged of objects that can't be read: each of them once, and never a flood.

Must not know: what is wrong with them. Next: ``informer`` and ``old_objects``, which complain.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Complaints"]

KEPT = 4096
"""So many objects are known to have been complained of; the ones before may be again."""

LINES = 20
PER_S = 60.0
"""No more than so many lines in so many seconds; the next one says how many were left out."""


class Complaints:
    """What one part of the server complains of, written to `log`. `now` is in monotonic seconds."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._told: OrderedDict[tuple[str, object], None] = OrderedDict()
        self._since = 0.0
        self._lines = 0
        self._left_out = 0

    def tell(self, name: str, state: object, why: str, error: BaseException | None = None) -> None:
        """Log that the object `name` in its `state`, such as a revision, can't be used, unless that has been said.

        With `error` its trace is logged too.
        """
        key = (name, state)
        if key in self._told:
            return
        self._told[key] = None
        if len(self._told) > KEPT:
            self._told.popitem(last=False)
        now = self._now()
        if not self._since or now - self._since >= PER_S:
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines > LINES:
            self._left_out += 1
            return
        more = f" ({self._left_out} others were left out before)" if self._left_out else ""
        self._left_out = 0
        self._log.warning("%s: %s%s", name, why, more, exc_info=error)
