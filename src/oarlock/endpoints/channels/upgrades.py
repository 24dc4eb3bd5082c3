"""Checks of upgrade requests (WebSocket and other protocols), the headers of the 101 answers, and channel protocols.

Kubernetes' channel protocols are negotiated by subprotocol name. Each message begins with the number of its channel; in
the base64 forms that is a digit, followed by base64. ``v5`` can close single channels. ``v4`` and ``v5`` end with a
Status as JSON on channel 3, older ones with a text when something failed. Pure functions.
Must not know: tunnels, frames, users' code. Source: RFC 9110 §7.8, RFC 6455 §4.2; k8s.io/apimachinery ``util/proxy``,
``util/httpstream/wsstream`` and ``util/remotecommand``; golang.org/x/net/websocket for status codes; KEP-4006.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable
from typing import Any

from oarlock.codec import json
from oarlock.endpoints.http import Request
from oarlock.meta.context import Target
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import BadRequest, Forbidden, StatusError
from oarlock.meta.go.gotext import quote

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
TERMINAL = 5
"""The number of a terminal's channels."""

CLOSE = 255
"""Not a channel: the next byte is the channel to close, in ``v5``."""


@dataclass(frozen=True, slots=True)
class ChannelProtocol:
    """`base64`: text messages. `closes`: single channels can be closed. `status`: the outcome is sent as JSON."""

    name: str
    base64: bool = False
    closes: bool = False
    status: bool = False

    def message(self, channel: int, data: bytes) -> bytes | str:
        """A message with `data` on `channel`."""
        if self.base64:
            return chr(ord("0") + channel) + base64.b64encode(data).decode("ascii")
        return bytes((channel,)) + data


SUPPORTED = {
    protocol.name: protocol
    for protocol in (
        ChannelProtocol("v5.channel.k8s.io", closes=True, status=True),
        ChannelProtocol("v4.channel.k8s.io", status=True),
        ChannelProtocol("v4.base64.channel.k8s.io", base64=True, status=True),
        ChannelProtocol("channel.k8s.io"),
        ChannelProtocol("base64.channel.k8s.io", base64=True),
    )
}
UNNAMED = ChannelProtocol("")


def negotiated(offered: Iterable[str]) -> ChannelProtocol | None:
    """The first of the `offered` names that is supported; binary channels if none is offered; else None."""
    nothing = True
    for name in offered:
        nothing = False
        if name in SUPPORTED:
            return SUPPORTED[name]
    return UNNAMED if nothing else None


def outcome(protocol: ChannelProtocol, code: int, error: StatusError | None) -> bytes:
    """The final message of channel 3: for an `error`, else for the exit `code`. Empty if there is nothing to send."""
    if error is not None:
        tree: dict[str, Any] = error.status()
    elif code:
        tree = {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    else:
        tree = {"metadata": {}, "status": "Success"}
    if protocol.status:
        return json.encode(tree)
    return str(tree.get("message", "")).encode()


Headers = list[tuple[str, str]]
VERSION = "13"
SPDY_TUNNEL = "SPDY/3.1+"
"""Begins the names of subprotocols whose messages are the bytes of a SPDY connection (KEP-4006)."""
SPDY = "SPDY/3.1"
PORT_FORWARD = "portforward.k8s.io"
"""The protocol of connections to ports, over SPDY."""
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3


class WrongVersion(BadRequest):
    """400: an unsupported version of the WebSocket protocol; the answer names the supported one."""


def websocket_upgrade(request: Request, target: Target) -> tuple[ChannelProtocol, Headers]:
    """The channel protocol, and the headers of the 101. Raises BadRequest, `WrongVersion`, Forbidden."""
    requested = _requested_protocols(request)
    if not _has_websocket(requested):
        raise BadRequest(f"unable to upgrade: this is a WebSocket, and {quote(', '.join(requested))} was asked for")
    headers = _handshake(request)
    offered = _offered(request)
    protocol = negotiated(offered)
    if protocol is None:
        why = f"requested protocol(s) are not supported: [{' '.join(offered)}]; supports [{' '.join(SUPPORTED)}]"
        raise Forbidden(target.group_resource, target.name, why)
    if protocol.name:
        headers.append(("sec-websocket-protocol", protocol.name))
    return protocol, headers


def wants_websocket(request: Request) -> bool:
    """Whether a request that could be answered in HTTP asks for a WebSocket."""
    if request.http2 or "upgrade" not in request.headers:
        return False
    return _is_connection_upgrade(request) and _has_websocket(_members(request, "upgrade"))


def watch_upgrade(request: Request, target: Target) -> Headers:
    """The headers of the 101 to a watch. Raises BadRequest, `WrongVersion`, Forbidden.

    As in golang.org/x/net/websocket, an origin must be named, but any is accepted; one subprotocol may be offered, and
    any is accepted.
    """
    headers = _handshake(request)
    if not _is_uri(request.headers.get("origin", "")):
        raise Forbidden(target.group_resource, target.name, "a WebSocket is asked for with an Origin header, a URI")
    offered = _offered(request)
    if len(offered) > 1:
        raise BadRequest(
            f"unable to upgrade: a watch takes one subprotocol at most, and [{' '.join(offered)}] are offered"
        )
    headers.extend(("sec-websocket-protocol", name) for name in offered)
    return headers


def spdy_tunnel(request: Request) -> list[str]:
    """The protocols over SPDY that a client offers to tunnel through a WebSocket, such as ``portforward.k8s.io``."""
    if not wants_websocket(request):
        return []
    tunneled = [name.removeprefix(SPDY_TUNNEL) for name in _offered(request) if name.startswith(SPDY_TUNNEL)]
    return [name for name in tunneled if name.endswith(".k8s.io")]


def spdy_tunnel_upgrade(request: Request, protocol: str) -> Headers:
    """The headers of the 101 to a tunnel for `protocol`. Raises BadRequest, `WrongVersion`."""
    return [*_handshake(request), ("sec-websocket-protocol", SPDY_TUNNEL + protocol)]


def spdy_upgrade(request: Request, target: Target, protocol: str) -> Headers:
    """The headers of the 101 to a SPDY connection for `protocol`. Raises BadRequest, Forbidden."""
    _, headers = pipe_upgrade(request, (SPDY,))
    offered = _members(request, "x-stream-protocol-version")
    if offered and protocol not in offered:
        why = f"unable to upgrade: no stream protocol of [{' '.join(offered)}] is supported; supports [{protocol}]"
        raise Forbidden(target.group_resource, target.name, why)
    return [*headers, ("x-stream-protocol-version", protocol)] if offered else headers


def port_of(text: str) -> int:
    """The number of a port; 0 if it is none."""
    number = int(text) if len(text) <= 5 and text.isascii() and text.isdigit() else 0
    return number if number < 65536 else 0


def _handshake(request: Request) -> Headers:
    """Check the WebSocket handshake; returns the headers that accept it. Raises BadRequest, `WrongVersion`."""
    version = request.headers.get("sec-websocket-version", "")
    if version != VERSION:
        raise WrongVersion(f"unable to upgrade: Sec-WebSocket-Version is {quote(version)}, and {VERSION} is spoken")
    key = request.headers.get("sec-websocket-key", "")
    if not _is_nonce(key):
        raise BadRequest("unable to upgrade: Sec-WebSocket-Key has to be 16 bytes in base64")
    return [("upgrade", "websocket"), ("sec-websocket-accept", _accept_key(key))]


def _offered(request: Request) -> list[str]:
    """The subprotocols a client offers. Authentication has removed a bearer token from among them."""
    return _members(request, "sec-websocket-protocol")


def _has_websocket(protocols: Collection[str]) -> bool:
    return "websocket" in (name.lower() for name in protocols)


def _is_uri(origin: str) -> bool:
    """Whether Go's parser accepts it: an absolute URI or path. Browsers send ``null`` for no origin."""
    scheme, colon, rest = origin.partition(":")
    return origin.startswith("/") or (bool(colon) and bool(rest) and scheme[:1].isalpha() and " " not in origin)


def pipe_upgrade(request: Request, supported: Collection[str]) -> tuple[str, Headers]:
    """The first `supported` protocol that the client asks for, and the headers of the 101. Raises BadRequest."""
    requested = _requested_protocols(request)
    by_name = {protocol.lower(): protocol for protocol in supported}
    for name in requested:
        if name.lower() in by_name:
            protocol = by_name[name.lower()]
            return protocol, [("upgrade", protocol)]
    spoken, wanted = ", ".join(supported), quote(", ".join(requested))
    raise BadRequest(f"unable to upgrade: {spoken} is spoken, and {wanted} was asked for")


def _requested_protocols(request: Request) -> list[str]:
    """The protocols in ``Upgrade``. Raises BadRequest for a request without an upgrade, or that can't be upgraded."""
    if request.http2:
        raise BadRequest("Upgrade request required, over HTTP/1.1: HTTP/2 has no upgrades")
    requested = _members(request, "upgrade")
    if not requested or not _is_connection_upgrade(request):
        raise BadRequest("Upgrade request required")
    return requested


def _is_connection_upgrade(request: Request) -> bool:
    return "upgrade" in (token.lower() for token in _members(request, "connection"))


def _members(request: Request, header: str) -> list[str]:
    """The elements of a list header, over all its lines."""
    values = (value for name, value in request.all_headers if name == header)
    return [member for value in values for part in value.split(",") if (member := part.strip(" \t"))]


def _accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()).decode()


def _is_nonce(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
