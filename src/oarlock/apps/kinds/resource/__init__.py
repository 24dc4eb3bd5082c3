"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.resource.device_class import DEVICE_CLASS
from oarlock.apps.kinds.resource.resource_claim import RESOURCE_CLAIM
from oarlock.apps.kinds.resource.resource_claim_template import RESOURCE_CLAIM_TEMPLATE
from oarlock.apps.kinds.resource.resource_slice import RESOURCE_SLICE

__all__ = ["KINDS"]

KINDS: Final = (
    DEVICE_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
