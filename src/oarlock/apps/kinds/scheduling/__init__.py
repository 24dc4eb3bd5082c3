"""The kinds of one API group, a file each; `KINDS` are those that have no class."""

from __future__ import annotations

from typing import Final

from oarlock.apps.kinds.scheduling.priority_class import PRIORITY_CLASS

__all__ = ["KINDS"]

KINDS: Final = (PRIORITY_CLASS,)
