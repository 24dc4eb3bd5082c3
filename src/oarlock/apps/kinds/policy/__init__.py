"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.policy.pod_disruption_budget import POD_DISRUPTION_BUDGET

__all__ = ["KINDS"]

KINDS: Final = (POD_DISRUPTION_BUDGET,)
