"""`BoundedNames`: names as labels of metrics, which come from objects of the API and so from anybody."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["MOST_NAMES", "OTHER", "BoundedNames"]

MOST_NAMES = 1000
OTHER = "other"
"""Stands for a name when `MOST_NAMES` others are counted."""


class BoundedNames:
    """The names that are counted: the first ones to come."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: set[Hashable] = set()

    def admits(self, name: Hashable) -> bool:
        """Whether `name` is one of them. If not, count it as `OTHER`."""
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return False
            self._names.add(name)
        return True
