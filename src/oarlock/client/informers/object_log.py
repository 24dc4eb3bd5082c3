"""Rate-limited logging of objects that can't be read: each object once, a bounded number of lines a minute.

Must not know: what is wrong with them.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["ObjectLog"]

REMEMBERED = 4096
"""How many objects are remembered as logged; older ones may be logged again."""

LINES = 20
PER_S = 60.0
"""The period of the rate limit, in seconds. The next line that is logged says how many were left out."""


class ObjectLog:
    """The rate-limited log of one part of the server. `now` returns monotonic seconds."""

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._logged: OrderedDict[tuple[str, object], None] = OrderedDict()
        self._since = 0.0
        self._lines = 0
        self._left_out = 0

    def warn(self, name: str, state: object, why: str, error: BaseException | None = None) -> None:
        """Log once that the object `name` can't be used in its `state`, such as a revision.

        `error` adds its traceback.
        """
        key = (name, state)
        if key in self._logged:
            return
        self._logged[key] = None
        if len(self._logged) > REMEMBERED:
            self._logged.popitem(last=False)
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
