"""The client's end of HTTP/1.1: answers found in the bytes by as little work as there can be."""

from __future__ import annotations

from support.connections import Asked, ClientConnection, Driver, Form


class Http1Requests(ClientConnection):
    """One request at a time."""

    def __init__(self, driver: Driver, form: Form) -> None:
        self.driver = driver
        self._fields = "".join(f"{name}: {value}\r\n" for name, value in [("host", "localhost"), *form.fields()])
        self._asked: Asked | None = None
        self._rest = b""
        self._body = bytearray()
        self._status = 0
        self._left = 0
        self._keeps = self._chunked = self._last = False

    def on_lost(self) -> None:
        self.driver.failed("the server closed a connection")

    def send(self, asked: Asked) -> None:
        self._asked = asked
        head = f"{asked.method} {asked.path} HTTP/1.1\r\n{self._fields}"
        if asked.body:
            head += f"content-type: {asked.media}\r\ncontent-length: {len(asked.body)}\r\n"
        self.transport.write(head.encode() + b"\r\n" + asked.body)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                size = min(self._left, end - at)
                if self._keeps:
                    self._body += data[at : at + size]
                self._left -= size
                at += size
                if not self._left:
                    self._piece_ended()
                continue
            mark = b"\r\n" if self._chunked else b"\r\n\r\n"
            found = data.find(mark, at)
            if found < 0:
                self._rest = data[at:]
                return
            if self._chunked:
                size = int(data[at:found], 16)
                self._left, self._last = size + 2, not size
            else:
                self._begin(data[at:found].lower())
            at = found + len(mark)

    def _begin(self, head: bytes) -> None:
        self._status = int(head[9:12])
        self._keeps = self.driver.wants_bodies or self._status >= 400
        self._body.clear()
        found = head.find(b"\r\ncontent-length:")
        if found >= 0:
            self._left = int(head[found + 17 :].partition(b"\r\n")[0])
            if not self._left:
                self._complete()
        elif b"\r\ntransfer-encoding: chunked" in head:
            self._chunked = True
        else:
            self._complete()

    def _piece_ended(self) -> None:
        if not self._chunked:
            self._complete()
            return
        if self._keeps:
            del self._body[-2:]
        if self._last:
            self._chunked = self._last = False
            self._complete()

    def _complete(self) -> None:
        if self._asked is None:
            self.driver.failed("the server sent more than it was asked for")
            return
        asked, self._asked = self._asked, None
        following = self.driver.answered(asked, self._status, bytes(self._body))
        if following is not None:
            self.send(following)
