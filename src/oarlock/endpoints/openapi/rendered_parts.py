"""`RenderedParts`: the parts of OpenAPI documents that a server has rendered, bounded in bytes.

Must not know: how a part is made. See also: `parts`, `documents`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from oarlock.endpoints.openapi.parts import DocumentForm, Part

__all__ = ["RenderedParts"]

PARTS_BYTES = 256 * 1024 * 1024
"""The most bytes of rendered parts that are kept: those of about 7,000 resources in one form."""


class RenderedParts:
    """The rendered parts of a server, by form and name. Those that were not asked for the longest go first."""

    def __init__(self, limit_bytes: int = PARTS_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._parts: OrderedDict[tuple[DocumentForm, str], tuple[Part, int]] = OrderedDict()
        self._bytes = 0

    def get(self, form: DocumentForm, name: str) -> Part | None:
        found = self._parts.get((form, name))
        if found is None:
            return None
        self._parts.move_to_end((form, name))
        return found[0]

    def put(self, form: DocumentForm, name: str, part: Part) -> None:
        self._pop((form, name))
        size = part.size
        self._parts[form, name] = part, size
        self._bytes += size
        while self._bytes > self.limit_bytes:
            self._pop(next(iter(self._parts)))

    def keep(self, names: Collection[str]) -> None:
        """Forget the parts with other names."""
        for key in [key for key in self._parts if key[1] not in names]:
            self._pop(key)

    def _pop(self, key: tuple[DocumentForm, str]) -> None:
        found = self._parts.pop(key, None)
        if found is not None:
            self._bytes -= found[1]
