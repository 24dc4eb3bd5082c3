"""Carries out a request at a backend, and streams its answer.

See also: ``net.pool``, connections to the backend.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from oarlock.endpoints.http import BrokenAnswer, Request, Response, Stream, Tunnel
from oarlock.endpoints.request_state import RequestState
from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.net.connecting import Address
from oarlock.net.messages import HttpError, HttpRequest, HttpResponse, UnaskedSwitch
from oarlock.net.pool import HttpPool, NoPlace
from oarlock.server.filters.filter import plain

USER, GROUPS = "system:kube-aggregator", ("system:masters",)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: its status, what of its headers matters, and its body."""

    status: int
    content_type: str
    etag: str
    body: bytes


async def fetch(
    pool: HttpPool, address: Address, path: str, accept: str, *, most_bytes: int, etag: str = ""
) -> Fetched:
    """GET `path`. Raises `HttpError`, also for a body of more than `most_bytes`."""
    headers = [("accept", accept), ("x-remote-user", USER), *(("x-remote-group", group) for group in GROUPS)]
    if etag:
        headers.append(("if-none-match", etag))
    host = f"{address.server_name}:{address.port}"
    response = await pool.ask(address, HttpRequest("GET", host, path, tuple(headers)))
    body = await response.read(most_bytes)
    if len(body) > most_bytes:
        raise HttpError(f"its document has over {most_bytes} bytes")
    return Fetched(response.status, response.header("content-type"), response.header("etag"), body)


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


MOST_WHOLE = 64 * 1024
"""A body of at most so many bytes is read before the backend is asked, and sent in one piece with the head."""

SWITCHED = "the backend switched protocols without being asked to\n"
REDIRECT = "the backend attempted to redirect this request, which is not permitted"
_FRAMING = frozenset({"content-length", "date"})


async def forward(pool: HttpPool, address: Address, state: RequestState) -> Response:
    """The backend's answer. One that can't be reached, or breaks off before its answer, is a 503.

    Raises `BrokenBody`.
    """
    request = state.request
    pairs = state.route.pairs if state.route is not None else ()
    query = query_of(pairs)
    target = f"{request.path}?{query}" if query else request.path
    host = f"{address.server_name or address.host}:{address.port}"
    try:
        headers = request_headers(request, state.user, target, host)
        answer = await ask_backend(pool, address, state, target, host, headers)
    except HttpError as error:
        return plain(503, f"error trying to reach service: {error}\n")
    except ValueError as error:
        return plain(400, f"{error}\n")
    if isinstance(answer, Response):
        return answer
    if 300 <= answer.status < 400 and answer.header("location"):
        answer.close()
        return plain(502, REDIRECT)
    return passed_back(answer, address.server_name)


async def ask_backend(
    pool: HttpPool, address: Address, state: RequestState, target: str, host: str, headers: tuple[tuple[str, str], ...]
) -> HttpResponse | Response:
    """The backend's response; what it says besides isn't for the caller to look at: a switch of protocols, no place.

    Raises `HttpError`, `BrokenBody`.
    """
    request = state.request
    declared = _declared_length(request)
    streamed = request.has_body and (declared is None or declared > MOST_WHOLE)
    body = request.pieces() if streamed else await request.read()
    upgrade = bool(upgrade_of(request.all_headers))
    asked = HttpRequest(request.method, host, target, headers, body, declared, upgrade)
    answer = await send_to_backend(pool, address, state, asked)
    if isinstance(answer, Response) or answer.status != 101:
        return answer
    return switched(answer, [*passed_on(answer.headers), ("upgrade", upgrade_of(answer.headers))], raw_bytes)


async def send_to_backend(
    pool: HttpPool, address: Address, state: RequestState, asked: HttpRequest
) -> HttpResponse | Response:
    """The backend's response to `asked`, on behalf of the client of a request. See `ask_backend`."""
    try:
        return await pool.ask(address, asked, owner=state.user.name, lasting=state.is_long_running)
    except NoPlace as error:
        return _busy(error)
    except UnaskedSwitch:
        return plain(502, SWITCHED)


def passed_back(answer: HttpResponse, backend: str) -> Response:
    """The response of `backend` as the answer to the client."""
    lines = [line for line in passed_on(answer.headers) if line[0] not in _FRAMING]
    whole = answer.taken()
    if whole is not None:
        return Response(answer.status, lines, whole)
    response = Response(answer.status, lines, _streamed(answer, backend))
    response.on_sent(lambda _: answer.close())
    return response


def _busy(error: NoPlace) -> Response:
    response = plain(429, f"{error}, please try again later\n")
    response.headers.append(("retry-after", "1"))
    return response


def _declared_length(request: Request) -> int | None:
    """What the client says of its body; None for a body that ends when it ends."""
    if "transfer-encoding" in request.headers:
        return None
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else None


async def _streamed(answer: HttpResponse, backend: str) -> AsyncIterator[bytes]:
    try:
        while piece := await answer.piece():
            yield piece
    except HttpError as error:
        raise BrokenAnswer(f"{backend}: {error}") from None
    finally:
        answer.close()


Ways = Callable[[HttpResponse, Tunnel], Sequence[Coroutine[Any, Any, None]]]
"""What carries bytes between a backend that has switched protocols and the client: up to one, down to the other."""


def raw_bytes(answer: HttpResponse, tunnel: Tunnel) -> Sequence[Coroutine[Any, Any, None]]:
    """Carries bytes as they are."""

    async def up() -> None:
        while data := await tunnel.read():
            await answer.write(data)

    async def down() -> None:
        while piece := await answer.piece():
            tunnel.write(piece)
            await tunnel.drained()
        tunnel.close()

    return up(), down()


def switched(answer: HttpResponse, headers: list[tuple[str, str]], ways: Ways) -> Response:
    """The 101 to the client, with these headers; `ways` carry the bytes until one side ends."""

    async def carry(tunnel: Tunnel) -> None:
        tasks = [asyncio.ensure_future(way) for way in ways(answer, tunnel)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            answer.close()
            tunnel.close()

    response = Response(101, headers, stream=_in_task(carry))
    response.on_sent(lambda _: answer.close())
    return response


_running: set[asyncio.Task[None]] = set()
"""Tasks of open tunnels: a loop holds its tasks weakly."""


def _in_task(work: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Stream], None]:
    def begin(stream: Stream) -> None:
        task = asyncio.ensure_future(work(stream))
        _running.add(task)

        def cut() -> None:
            task.cancel()

        stream.on_close(cut)
        task.add_done_callback(_ended)

    return begin


def _ended(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
