"""`Settings`: what all resources of a server share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field
from typing import Literal

from oarlock.meta.dataclass import dataclass
from oarlock.registry.conversion.conversion_cache import ConversionCache
from oarlock.registry.read.selection import SelectionMemo
from oarlock.registry.workers import Workers

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that all resources of a server share.

    `garbage_collection` is ``external`` when a cluster's garbage collector deletes dependents, so that DELETE may add
    its finalizers; ``none`` when there is no garbage collector. `check_command` lists stored objects that don't fit.
    """

    garbage_collection: Literal["external", "none"] = "none"
    check_command: str = "oarlock storage check --schemas SERVER"
    random: Callable[[int], bytes] = os.urandom
    conversion_cache: ConversionCache = field(default_factory=ConversionCache)
    workers: Workers = field(default_factory=Workers)
    selections: SelectionMemo = field(default_factory=SelectionMemo)
