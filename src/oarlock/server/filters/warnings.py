"""``Warning`` headers: what hooks and verbs had to say to the client besides the answer; kubectl prints them.

Source: KEP-1693; RFC 7234 §5.5; k8s.io/apiserver ``endpoints/filters/warning``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from oarlock.endpoints.exchange import Exchange
from oarlock.endpoints.http import Response
from oarlock.server.filters.filter import Next

__all__ = ["recorded_warnings", "warning_headers"]

TOTAL_RUNES = 4096
RUNES_EACH = 256


async def recorded_warnings(x: Exchange, next: Next) -> Response:
    """Adds what was noted by the time the answer begins."""
    response = await next(x)
    noted = x.notes.warnings
    if noted:
        alone = len(noted) == 1 and len(noted[0]) <= RUNES_EACH
        response.headers.extend(_of_one(noted[0]) if alone else _headers(noted))
    return response


@lru_cache(maxsize=256)
def _of_one(text: str) -> list[tuple[str, str]]:
    # the same few deprecation warnings come with most requests
    return _headers((text,))


def _headers(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [("warning", value) for value in warning_headers(texts)]


def warning_headers(texts: Sequence[str]) -> list[str]:
    """The values of the ``Warning`` headers, each text once.

    Texts with control characters are left out. When all together have more than 4096 characters each is cut
    to 256, and those after the first 4096 are left out.
    """
    texts = [t for t in dict.fromkeys(texts) if t and not _has_controls(t)]
    if sum(map(len, texts)) <= TOTAL_RUNES:
        return [_header(text) for text in texts]
    written = 0
    cut: list[str] = []
    for text in texts:
        if written >= TOTAL_RUNES:
            break
        cut.append(_header(text[:RUNES_EACH]))
        written += min(len(text), RUNES_EACH)
    return cut


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in text)


def _header(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("latin-1")  # header values are latin-1 up here, UTF-8 on the wire
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
