"""The headers of a request to a backend, and of its answer.

The backend is told who asks by headers of ours, and nothing of what the client said about that. Source:
k8s.io/kube-aggregator ``handler_proxy``; RFC 9110 §7.6.1, headers of one connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from oarlock.endpoints.http import Request
from oarlock.meta.context import User

__all__ = ["passed_on", "query_of", "request_headers", "request_headers_without_user", "upgrade_of"]

_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    }
)
_OURS = frozenset({"authorization", "content-length", "expect", "host", "x-forwarded-host", "x-forwarded-proto"})
_OF_IDENTITIES = ("impersonate-", "x-remote-", "x-forwarded-uri", "x-forwarded-for")
_KEY = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&'*+-.^_`|~")


def passed_on(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers that aren't of one connection alone; names are lower case."""
    lines = list(lines)
    named = {name.strip().lower() for key, value in lines if key == "connection" for name in value.split(",")}
    return [(name, value) for name, value in lines if name not in _OF_THE_CONNECTION and name not in named]


def upgrade_of(lines: Iterable[tuple[str, str]]) -> str:
    """The protocol that these headers ask for or agree to, empty if none."""
    values: dict[str, str] = {}
    for name, value in lines:
        values[name] = f"{values[name]},{value}" if name in values else value
    asks = "upgrade" in (part.strip().lower() for part in values.get("connection", "").split(","))
    return values.get("upgrade", "") if asks else ""


def query_of(pairs: Sequence[tuple[str, str]]) -> str:
    """A query, encoded again: sorted by name, as Go's ``url.Values.Encode``."""
    return urlencode(sorted(pairs, key=lambda pair: pair[0]))


def _identity_lines(user: User) -> list[tuple[str, str]]:
    """Who asks, as headers of a front proxy."""
    lines = [("x-remote-user", user.name)]
    if user.uid:
        lines.append(("x-remote-uid", user.uid))
    lines += [("x-remote-group", group) for group in user.groups]
    lines += [(f"x-remote-extra-{_escaped(key)}", value) for key, values in user.extra.items() for value in values]
    return lines


def _escaped(key: str) -> str:
    """A key of extra as the end of a header's name: what can't be in one is percent-encoded."""
    data = key.lower().encode()
    return "".join(chr(byte) if chr(byte) in _KEY else f"%{byte:02X}" for byte in data)


def request_headers(request: Request, user: User, target: str, host: str) -> tuple[tuple[str, str], ...]:
    """The headers of the request to `host`, besides host and framing; `target` is its path and query.

    Raises ValueError.
    """
    identity = tuple((name, _line(value.encode().decode("latin-1"))) for name, value in _identity_lines(user))
    return (*request_headers_without_user(request, target, host), *identity)


def request_headers_without_user(request: Request, target: str, host: str) -> tuple[tuple[str, str], ...]:
    """The same for a backend that isn't told who asks. Raises ValueError."""
    upgrade = upgrade_of(request.all_headers)
    lines = [(name, value) for name, value in passed_on(request.all_headers) if not _is_ours(name)]
    forwarded = [value for name, value in request.all_headers if name == "x-forwarded-for"]
    lines += [
        ("x-forwarded-for", ", ".join([*forwarded, request.peer.address])),
        ("x-forwarded-host", host),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-uri", target.partition("?")[0]),
    ]
    if upgrade:
        lines += [("connection", "Upgrade"), ("upgrade", upgrade)]
    return tuple((name, _line(value)) for name, value in lines)


def _line(text: str) -> str:
    """Without what could begin another line. Raises ValueError."""
    if "\r" in text or "\n" in text or "\0" in text:
        raise ValueError("a header has a line break in it")
    return text


def _is_ours(name: str) -> bool:
    return name in _OURS or name.replace("_", "-").startswith(_OF_IDENTITIES)
