"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.apps.controller_revision import CONTROLLER_REVISION
from oarlock.apps.kinds.apps.daemon_set import DAEMON_SET
from oarlock.apps.kinds.apps.deployment import DEPLOYMENT
from oarlock.apps.kinds.apps.replica_set import REPLICA_SET
from oarlock.apps.kinds.apps.stateful_set import STATEFUL_SET

__all__ = ["KINDS"]

KINDS: Final = (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
)
