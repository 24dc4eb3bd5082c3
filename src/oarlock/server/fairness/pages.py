"""``/debug/api_priority_and_fairness/…``: who waits, where, and for whom, as tables in plain text.

See also: ``policy.fairness.dumps``.
"""

from __future__ import annotations

from oarlock.endpoints.http import Response
from oarlock.meta.context import Clock
from oarlock.meta.options_parse import parse_query
from oarlock.policy.fairness.dumps import dump_levels, dump_queues, dump_requests
from oarlock.policy.fairness.engine import Fairness

__all__ = ["FairnessPages"]

_ROOT = "/debug/api_priority_and_fairness"
_DETAILS = "includeRequestDetails"


class FairnessPages:
    """Answers `paths`; authorization has let the user read them."""

    paths = (f"{_ROOT}/dump_priority_levels", f"{_ROOT}/dump_queues", f"{_ROOT}/dump_requests")

    def __init__(self, fairness: Fairness, clock: Clock) -> None:
        self._fairness = fairness
        self._clock = clock

    def respond(self, path: str, query: str = "") -> Response | None:
        """The answer, or None for a path that isn't in `paths`."""
        if path not in self.paths:
            return None
        if path.endswith("levels"):
            text = dump_levels(self._fairness)
        elif path.endswith("queues"):
            text = dump_queues(self._fairness)
        else:
            details = any(key == _DETAILS and value for key, value in parse_query(query))
            text = dump_requests(self._fairness, self._clock.monotonic() - self._clock.now(), details=details)
        headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
        return Response(200, headers, text.encode("utf-8", "replace"))
