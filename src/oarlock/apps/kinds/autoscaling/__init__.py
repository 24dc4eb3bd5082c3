"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.autoscaling.horizontal_pod_autoscaler import HORIZONTAL_POD_AUTOSCALER

__all__ = ["KINDS"]

KINDS: Final = (HORIZONTAL_POD_AUTOSCALER,)
