"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.discovery.endpoint_slice import ENDPOINT_SLICE

__all__ = ["KINDS"]

KINDS: Final = (ENDPOINT_SLICE,)
