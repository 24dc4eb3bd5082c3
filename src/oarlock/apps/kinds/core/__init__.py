"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.core.endpoints import ENDPOINTS
from oarlock.apps.kinds.core.node import NODE
from oarlock.apps.kinds.core.persistent_volume import PERSISTENT_VOLUME
from oarlock.apps.kinds.core.persistent_volume_claim import PERSISTENT_VOLUME_CLAIM
from oarlock.apps.kinds.core.pod import POD, POD_TEMPLATE
from oarlock.apps.kinds.core.replication_controller import REPLICATION_CONTROLLER
from oarlock.apps.kinds.core.service import SERVICE

__all__ = ["KINDS"]

KINDS: Final = (
    POD,
    POD_TEMPLATE,
    REPLICATION_CONTROLLER,
    SERVICE,
    ENDPOINTS,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
)
