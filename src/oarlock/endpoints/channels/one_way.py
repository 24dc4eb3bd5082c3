"""`OneWay`: a WebSocket on which only the server sends messages, without I/O.

Of what the client sends, pings and Close are answered and the rest is ignored, without buffering it.
Must not know: what messages mean, tunnels. See also: ``watching.over_websocket``. Source: RFC 6455 §5.
"""

from __future__ import annotations

from oarlock.endpoints.channels.end import NORMAL, POLICY, PROTOCOL_ERROR

__all__ = ["MOST_IGNORED_BYTES", "OneWay"]

MOST_IGNORED_BYTES = 32 * 1024 * 1024
"""How many ignored bytes a client may send in all; Kubernetes accepts as much in one message."""

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_KNOWN = frozenset((0x0, TEXT, BINARY, CLOSE, PING, PONG))
_FIN, _RESERVED, _KIND, _CONTROL = 0x80, 0x70, 0xF, 0x8
_MASKED, _LENGTH = 0x80, 0x7F
_LENGTH_BYTES = {126: 2, 127: 8}
_MOST_CONTROL_BYTES = 125


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _MOST_CONTROL_BYTES:
        return bytes((_FIN | opcode, size)) + payload
    if size < 1 << 16:
        return bytes((_FIN | opcode, 126)) + size.to_bytes(2, "big") + payload
    return bytes((_FIN | opcode, 127)) + size.to_bytes(8, "big") + payload


class OneWay:
    """The frames of one connection. `over` is True once the client has closed or broken the protocol."""

    __slots__ = ("_answers", "_head", "_ignored", "_kind", "_left", "_payload", "closing", "over")

    def __init__(self) -> None:
        self._head = b""  # the received part of a frame's head, with its mask
        self._kind = -1  # payload bytes still to come; -1 while the head is incomplete
        self._left = 0  # received payload bytes of that frame
        self._payload = b""  # payload of a control frame
        self._ignored = 0
        self._answers = b""
        self.closing = False  # whether a Close frame was sent
        self.over = False

    def message(self, data: bytes, *, text: bool) -> bytes:
        """The frame of a message; ``b""`` once a Close frame was sent. Text must be UTF-8."""
        return b"" if self.closing else _frame(TEXT if text else BINARY, data)

    def ping(self) -> bytes:
        return b"" if self.closing else _frame(PING, b"")

    def close(self, code: int = NORMAL, why: str = "") -> bytes:
        """A Close frame; ``b""`` if one was sent already."""
        if self.closing:
            return b""
        self.closing = True
        return _frame(CLOSE, code.to_bytes(2, "big") + why.encode()[: _MOST_CONTROL_BYTES - 2])

    def feed(self, data: bytes) -> bytes:
        """Take received `data`; returns the bytes to answer with. Ignored once it is `over`."""
        self._ignored += len(data)
        if self._ignored > MOST_IGNORED_BYTES:
            self._refuse(POLICY, "nothing is expected here")
        at = 0
        while at < len(data) and not self.over:
            at = self._read_head(data, at) if self._kind < 0 else self._read_payload(data, at)
            if self._kind >= 0 and not self._left:
                self._finish()
        answers, self._answers = self._answers, b""
        return answers

    def _read_head(self, data: bytes, at: int) -> int:
        """Read the available part of a frame's head; returns where in `data` it ends."""
        head = self._head
        size = 2 if len(head) < 2 else 6 + _LENGTH_BYTES.get(head[1] & _LENGTH, 0)
        taken = data[at : at + size - len(head)]
        self._head = head = head + taken
        if len(head) == 2:
            wrong = _wrong(head)
            if wrong:
                self._refuse(PROTOCOL_ERROR, wrong)
        elif len(head) == size:
            self._kind = head[0] & _KIND
            length = head[1] & _LENGTH
            self._left = int.from_bytes(head[2:-4], "big") if length in _LENGTH_BYTES else length
        return at + len(taken)

    def _read_payload(self, data: bytes, at: int) -> int:
        taken = min(self._left, len(data) - at)
        self._left -= taken
        if self._kind & _CONTROL:
            self._payload += data[at : at + taken]
        return at + taken

    def _finish(self) -> None:
        """Handle a complete frame."""
        kind, self._kind = self._kind, -1
        payload, self._payload = self._payload, b""
        mask, self._head = self._head[-4:], b""
        if kind not in (PING, CLOSE):
            return
        payload = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))
        if kind == CLOSE:
            self.over = True
            self._answers += self.close(int.from_bytes(payload[:2], "big") if len(payload) >= 2 else NORMAL)
        elif not self.closing:
            self._answers += _frame(PONG, payload)

    def _refuse(self, code: int, why: str) -> None:
        if not self.over:
            self.over = True
            self._answers += self.close(code, why)


def _wrong(head: bytes) -> str:
    """The protocol violation in the first two bytes of a frame, if any."""
    first, second = head[0], head[1]
    if first & _RESERVED:
        return "reserved bits"
    if first & _KIND not in _KNOWN:
        return "unknown opcode"
    if not second & _MASKED:
        return "a client masks what it sends"
    if first & _CONTROL and (not first & _FIN or second & _LENGTH > _MOST_CONTROL_BYTES):
        return "a control frame is short and whole"
    return ""
