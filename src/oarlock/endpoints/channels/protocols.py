"""Kubernetes' channel protocols over WebSocket, negotiated by subprotocol name.

Each message begins with the number of its channel; in the base64 forms that is a digit, followed by base64. ``v5`` can
close single channels. ``v4`` and ``v5`` end with a Status as JSON on channel 3, older ones with a text when something
failed. Pure functions.
Must not know: frames, tunnels. See also: `websocket_frames`. Source: k8s.io/apimachinery ``util/httpstream/wsstream``,
``util/remotecommand``; KEP-4006.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from oarlock.codec import json
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import StatusError

__all__ = [
    "CLOSE",
    "ERROR",
    "RESIZE",
    "STDERR",
    "STDIN",
    "STDOUT",
    "SUPPORTED",
    "TERMINAL",
    "ChannelProtocol",
    "negotiated",
    "outcome",
]

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
