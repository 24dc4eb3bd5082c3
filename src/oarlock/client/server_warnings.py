"""The ``Warning`` lines of answers: what a server wants its user to know though the request succeeded.

Source: RFC 7234 §5.5, KEP-1693, client-go ``rest/warnings.go``.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict

__all__ = ["WarningLog", "warnings_of"]

MAX_TEXTS = 1_000
MAX_BYTES = 64 * 1024

log = logging.getLogger("oarlock.client")

_WARNING = re.compile(r'299 [^ "]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(header: str) -> list[str]:
    """The texts of a ``Warning`` header, without quotes and escapes; those of other codes than 299 are left out."""
    return [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(header[:MAX_BYTES])]


class WarningLog:
    """Logs each text once, as long as it is among the last thousand."""

    def __init__(self) -> None:
        self._logged: OrderedDict[str, None] = OrderedDict()

    def __call__(self, text: str) -> None:
        known = text in self._logged
        self._logged[text] = None
        self._logged.move_to_end(text)
        if len(self._logged) > MAX_TEXTS:
            self._logged.popitem(last=False)
        if not known:
            log.warning("the server warns: %s", text)
