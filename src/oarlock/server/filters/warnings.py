"""``Warning`` headers: warnings of hooks and verbs to the client; kubectl prints them.

Source: KEP-1693; RFC 7234 §5.5; k8s.io/apiserver ``endpoints/filters/warning``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.memo import Memo

__all__ = ["MOST_HEADERS", "add_warnings", "warning_headers"]

TOTAL_RUNES = 4096
RUNES_EACH = 256
MOST_HEADERS = 64
"""The most ``Warning`` headers of an answer: clients accept about a hundred headers in all."""

_control = re.compile("[\x00-\x1f\x7f-\x9f]").search
_HeaderLines = list[tuple[str, str]]
_alone: Memo[str, _HeaderLines] = Memo(256 * 1024, entry_bytes=512, per_byte=8)


def add_warnings(state: RequestState, response: Response) -> None:
    """Add the warnings that were noted before the answer begins."""
    noted = state.notes.warnings
    if noted:
        response.headers += _of_one(noted[0]) if len(noted) == 1 else _headers(noted)


def _of_one(text: str) -> _HeaderLines:
    # cached: the same few deprecation warnings come with most requests
    lines = _alone.get(text)
    if lines is None:
        lines = _headers((text,))
        _alone.put(text, lines, len(text))
    return lines


def _headers(texts: Sequence[str]) -> _HeaderLines:
    return [("warning", value) for value in warning_headers(texts)]


def warning_headers(texts: Sequence[str]) -> list[str]:
    """The values of the ``Warning`` headers, each text once.

    Texts with control characters are left out. If all together have more than 4096 characters, each is cut to 256, and
    those after the first 4096 are left out. If there are more than `MOST_HEADERS`, the last one has the number of the
    rest: ``37 more warnings``.
    """
    texts = [t for t in dict.fromkeys(texts) if t and not _has_controls(t)]
    if sum(map(len, texts)) > TOTAL_RUNES:
        texts = _cut(texts)
    if len(texts) > MOST_HEADERS:
        left_out = len(texts) - MOST_HEADERS + 1
        texts = [*texts[: MOST_HEADERS - 1], f"{left_out} more warnings"]
    return [_header(text) for text in texts]


def _cut(texts: Sequence[str]) -> list[str]:
    written = 0
    cut: list[str] = []
    for text in texts:
        if written >= TOTAL_RUNES:
            break
        cut.append(text[:RUNES_EACH])
        written += min(len(text), RUNES_EACH)
    return cut


def _has_controls(text: str) -> bool:
    return _control(text) is not None


def _header(text: str) -> str:
    """`text` as a quoted string (RFC 9110 §5.6.4). Characters that UTF-8 can't encode are replaced."""
    escaped = text.encode("utf-8", "replace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'
