"""Logs what stored objects may not fit any more, a line for each change, a bounded number of them.

See also: `schema_history`, which finds it out; `schema_check`, the command that lists the objects.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from oarlock.registry.stored.schema_history import SchemaDrift

__all__ = ["DriftLog"]

log = logging.getLogger("oarlock.registry")

LINES = 20
"""The most lines in all."""

OF_ONE = 5
"""The most lines about one version of a resource."""


REMEMBERED = 1000
"""How many changes are remembered, so as not to be told again."""


class DriftLog:
    """Logs each change once, also when the definition is replaced again, as far as it remembers."""

    def __init__(self) -> None:
        self._logged: dict[str, None] = {}

    def log(self, drifts: Sequence[SchemaDrift], command: str) -> None:
        """Log each change as a warning, with the `command` that lists the objects."""
        lines: list[str] = []
        left_out = 0
        for drift in drifts:
            new = [line for line in map(partial(_line, drift), drift.changes) if line not in self._logged]
            lines += new[:OF_ONE]
            left_out += len(new[OF_ONE:])
            self._logged.update(dict.fromkeys(new))
        for line in lines[:LINES]:
            log.warning("objects stored before may not fit: %s; to list them: %s", line, command)
        left_out += len(lines[LINES:])
        if left_out:
            text = "objects stored before may not fit %d more changes of schemas; to list them: %s"
            log.warning(text, left_out, command)
        for line in [*self._logged][:-REMEMBERED]:
            del self._logged[line]


def _line(drift: SchemaDrift, change: str) -> str:
    return f"{drift.resource} {drift.version}: {change}"
