"""Logs what stored objects may not fit any more, a line for each change, a bounded number of them.

See also: `schema_history`, which finds it out; `schema_check`, the command that lists the objects.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oarlock.registry.schema_history import SchemaDrift

__all__ = ["log_drifts"]

log = logging.getLogger("oarlock.registry")

LINES = 20
"""The most lines in all."""

OF_ONE = 5
"""The most lines about one version of a resource."""


def log_drifts(drifts: Sequence[SchemaDrift], command: str) -> None:
    """Log each change as a warning, with the `command` that lists the objects."""
    lines = [f"{one.resource} {one.version}: {change}" for one in drifts for change in one.changes[:OF_ONE]]
    for line in lines[:LINES]:
        log.warning("objects stored before may not fit: %s; to list them: %s", line, command)
    left_out = sum(len(one.changes) for one in drifts) - len(lines[:LINES])
    if left_out:
        log.warning("objects stored before may not fit %d more changes of schemas; to list them: %s", left_out, command)
