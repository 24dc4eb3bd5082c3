"""Headers that filters add to answers: ``Audit-Id``, warnings, about the connection, for pages in browsers (CORS).

``Audit-Id`` finds an answer in the log. HSTS demands TLS from now on; GOAWAY now and then ends a connection, so that
long ones are spread over servers again. Source: k8s.io/apiserver ``endpoints/filters`` audit_init, cachecontrol and
warning, ``server/filters`` hsts, goaway and cors; RFC 6797; the Fetch standard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.memo import Memo
from oarlock.server.filters.filter import Finish

NO_CACHE = ("cache-control", "no-cache, private")
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
IDS_AT_ONCE = 256
LONGEST = 1024
"""A longer ``Audit-Id`` is replaced: clients couldn't read the answer."""


def uuid_pool(random: Callable[[int], bytes]) -> Callable[[], str]:
    """Generates version 4 UUIDs, calling `random` for many at once, because the system call is most of the cost."""
    ready: list[str] = []

    def uuid() -> str:
        if not ready:
            digits = random(16 * IDS_AT_ONCE).hex()
            for i in range(0, len(digits), 32):
                d = digits[i : i + 32]
                ready.append(f"{d[:8]}-{d[8:12]}-4{d[13:16]}-{_VARIANT[d[16]]}{d[17:20]}-{d[20:]}")
        return ready.pop()

    return uuid


def own_audit_id(given: str) -> str:
    """The ``Audit-Id`` of a client if it is short printable ASCII, else ``""``: it goes back into a header."""
    return given if len(given) <= LONGEST and given.isascii() and given.isprintable() else ""


def add_audit_id(response: Response, audit_id: str) -> None:
    """Add the headers."""
    headers = response.headers
    for header in headers:
        if header[0] == "cache-control":
            break
    else:
        headers.append(NO_CACHE)
    headers.append(("audit-id", audit_id))


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


def strict_transport_security(directives: Sequence[str]) -> Finish:
    """Tell browsers to use TLS only; on every answer."""
    header = ("strict-transport-security", "; ".join(directives))

    def demand_tls(state: RequestState, response: Response) -> None:
        response.headers.append(header)

    return demand_tls


def go_away(chance: float, random: Callable[[], float]) -> Finish:
    """End connections of HTTP/2 with this chance at each request, so that long ones are spread over servers again.

    Requests in progress go on.
    """

    def now_and_then(state: RequestState, response: Response) -> None:
        if state.request.http2 and random() < chance:
            response.headers.append(("connection", "close"))

    return now_and_then


_HEADERS = (
    ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        "access-control-allow-headers",
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, "
        "If-Modified-Since",
    ),
    ("access-control-expose-headers", "Date"),
    ("access-control-allow-credentials", "true"),
)


class Cors:
    """`origins` are compiled patterns; one that is found in ``Origin`` allows it."""

    def __init__(self, origins: Sequence[Any]) -> None:
        self._origins = tuple(origins)

    def preflight(self, state: RequestState) -> Response | None:
        """The answer to what a browser asks before a request of a page; None for any other request."""
        if state.request.method == "OPTIONS" and self._origin(state) is not None:
            return Response(204, [])
        return None

    def allow(self, state: RequestState, response: Response) -> None:
        """Tell the browser which page may read the answer."""
        origin = self._origin(state)
        if origin is not None:
            response.headers.append(("access-control-allow-origin", origin))
            response.headers.extend(_HEADERS)

    def _origin(self, state: RequestState) -> str | None:
        origin = state.request.headers.get("origin")
        return origin if origin and any(pattern.search(origin) for pattern in self._origins) else None
