"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.storage.csi_driver import CSI_DRIVER
from oarlock.apps.kinds.storage.csi_node import CSI_NODE
from oarlock.apps.kinds.storage.csi_storage_capacity import CSI_STORAGE_CAPACITY
from oarlock.apps.kinds.storage.storage_class import STORAGE_CLASS
from oarlock.apps.kinds.storage.volume_attachment import VOLUME_ATTACHMENT
from oarlock.apps.kinds.storage.volume_attributes_class import VOLUME_ATTRIBUTES_CLASS

__all__ = ["KINDS"]

KINDS: Final = (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
)
