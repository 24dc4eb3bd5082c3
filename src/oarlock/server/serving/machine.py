"""`Machine`: jh2's HTTP/2 state machine, for the receive side only.

jh2 parses frames, tracks the states of streams and both sides' windows, and acknowledges SETTINGS and PING. `outgoing`
writes frames itself, four to ten times faster than jh2. To keep jh2's state correct, it takes what it sends from jh2's
own windows (`outbound_flow_control_window` of the connection and of each stream) and calls `forget` when a stream has
ended. All access to jh2's internals is here.

Differences from jh2: a malformed or superfluous request costs its stream, not the connection; after a client's GOAWAY
its streams finish; the peer's windows begin with RFC 9113's defaults; unknown settings aren't stored.
"""

from __future__ import annotations

from typing import Any

import jh2.events as jh2_events
from jh2.config import H2Configuration
from jh2.connection import AllowedStreamIDs, ConnectionInputs, ConnectionState, H2Connection
from jh2.errors import ErrorCodes
from jh2.exceptions import DenialOfServiceError, InvalidBodyLengthError, ProtocolError
from jh2.hyperframe.exceptions import InvalidPaddingError
from jh2.settings import SettingCodes, Settings
from jh2.stream import StreamClosedBy, StreamState

from oarlock.server.serving.config import ConnectionLimits

__all__ = ["LengthMismatch", "Machine", "Opened", "ProtocolError"]

CONNECTION_WINDOW = 65_535
RESETS_REMEMBERED = 1024
KNOWN_SETTINGS = frozenset(SettingCodes)
TABLE_BYTES = 4096  # of HPACK, both ways
FRAMES_AT_ONCE = 512
HEADER_BYTES_AT_ONCE = 256 * 1024
REQUEST_BYTES = 4096  # what a request counts besides its headers
# A block says each byte of a header itself, in five bits at least, or refers to the table. One that comes to more than
# this refers to the same again and again, which only an attack does.
DECODED_PER_BYTE = 4
DECODED_BYTES = 4 * TABLE_BYTES
RawHeaders = list[tuple[bytes, bytes, bool]]


class Opened:
    """A client opened a stream. `raw` are its headers, unchecked, of `size` bytes as RFC 9113 counts them."""

    __slots__ = ("ended", "raw", "size", "stream", "stream_id")

    def __init__(self, stream_id: int, raw: RawHeaders, size: int, ended: bool, stream: Any) -> None:
        self.stream_id = stream_id
        self.raw = raw
        self.size = size
        self.ended = ended
        self.stream = stream  # jh2's, for its window


class LengthMismatch:
    """The length of a stream's body differs from its content-length."""

    __slots__ = ("flow_controlled_length", "stream_id")

    def __init__(self, stream_id: int, flow_controlled_length: int) -> None:
        self.stream_id = stream_id
        self.flow_controlled_length = flow_controlled_length


class Machine(H2Connection):  # type: ignore[misc]
    """`feed` takes data; `events` yields `Opened`, `LengthMismatch` and jh2's events; `take` returns jh2's frames."""

    MAX_CLOSED_STREAMS = RESETS_REMEMBERED

    _data_to_send: bytearray

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__(
            H2Configuration(
                client_side=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.frames = 0  # how many came in whole
        self.waiting = False  # `events` has more to give
        self._header_bytes = 0  # of requests, decoded, and `REQUEST_BYTES` for each
        self._most_header_bytes = 2 * limits.max_header_bytes
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.HEADER_TABLE_SIZE: TABLE_BYTES,
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.MAX_CONCURRENT_STREAMS: limits.max_concurrent_streams,
                SettingCodes.INITIAL_WINDOW_SIZE: limits.body_window_bytes,
                SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
            },
        )
        # jh2 begins with a browser's values for the other side too; the RFC's hold until it says otherwise.
        self.remote_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.HEADER_TABLE_SIZE: TABLE_BYTES,
                SettingCodes.INITIAL_WINDOW_SIZE: 65_535,
            },
        )
        self.decoder.max_allowed_table_size = TABLE_BYTES
        self.initiate_connection()
        window = limits.upload_budget_bytes + limits.max_concurrent_streams * limits.body_window_bytes
        self.increment_flow_control_window(min(window, 2**30) - CONNECTION_WINDOW)

    def feed(self, data: bytes) -> None:
        """Take received `data`. Raises ProtocolError for an invalid preface."""
        self.waiting = True
        try:
            self.incoming_buffer.add_data(data)
        except ProtocolError as error:
            self._terminate_connection(error.error_code)
            raise

    def events(self) -> list[Any]:
        """What the frames at hand bring, up to a number of frames and of bytes of headers that others can wait for;
        `waiting` says that there may be more. Raises ProtocolError, which ends the connection."""
        buffer = self.incoming_buffer
        buffer.max_frame_size = self.max_inbound_frame_size
        last_frame = self.frames + FRAMES_AT_ONCE
        header_bytes = self._header_bytes + HEADER_BYTES_AT_ONCE
        found: list[Any] = []
        self.waiting = False
        try:
            for frame in buffer:
                found += self._receive_frame(frame)
                if self.frames >= last_frame or self._header_bytes >= header_bytes:
                    self.waiting = True
                    break
        except InvalidPaddingError as error:
            self._terminate_connection(ErrorCodes.PROTOCOL_ERROR)
            raise ProtocolError("invalid padding") from error
        except ProtocolError as error:
            self._terminate_connection(error.error_code)
            raise
        return found

    def take(self) -> bytes:
        """jh2's frames to send: acknowledgements, its own resets, the GOAWAY of a connection error."""
        waiting = self._data_to_send
        if not waiting:
            return b""
        self._data_to_send = bytearray()
        return bytes(waiting)

    def forget(self, stream_id: int, reset: bool) -> None:
        """The stream has ended on our side. After a `reset`, frames that are still on their way aren't errors."""
        if self.streams.pop(stream_id, None) is not None and reset:
            self._closed_streams[stream_id] = StreamClosedBy.SEND_RST_STREAM

    def received(self, length: int) -> int:
        """`length` bytes were consumed; returns the increment for a WINDOW_UPDATE of the connection."""
        return self._inbound_flow_control_window_manager.process_bytes(length) or 0

    def widen(self, stream_id: int, length: int) -> int:
        """The same for a stream's window."""
        stream = self.streams.get(stream_id)
        return 0 if stream is None else stream._inbound_window_manager.process_bytes(length) or 0

    def dismiss(self) -> None:
        """Nothing more will be received. Breaks reference cycles, to free memory at once."""
        self._frame_dispatch_table.clear()

    @property
    def midway(self) -> bool:
        """Whether a frame or a header block is incomplete."""
        buffer = self.incoming_buffer
        return bool(buffer._preamble_len or len(buffer._data) > buffer._data_offset or buffer._headers_buffer)

    @property
    def said_goodbye(self) -> bool:
        """Whether jh2 has ended the connection, with a GOAWAY in `take`."""
        return bool(self.state_machine.state is ConnectionState.CLOSED)

    @property
    def open_inbound_streams(self) -> int:
        """Always 0 for jh2, which would end the connection for too many streams: `http2` refuses the stream instead."""
        return 0

    def _receive_frame(self, frame: Any) -> Any:
        self.frames += 1
        return super()._receive_frame(frame)

    def _receive_headers_frame(self, frame: Any) -> Any:
        stream_id = frame.stream_id
        # Up to twice the limit a stream is answered with 431; more is an attack on the decoder.
        self.decoder.max_header_list_size = min(
            self._most_header_bytes, DECODED_BYTES + DECODED_PER_BYTE * len(frame.data)
        )
        if stream_id <= self.highest_inbound_stream_id:
            return super()._receive_headers_frame(frame)  # trailers, or an error
        raw = self._decode(frame.data)
        if self.state_machine.state is not ConnectionState.SERVER_OPEN:
            self.state_machine.process_input(ConnectionInputs.RECV_HEADERS)
        if "PRIORITY" in frame.flags and frame.depends_on == stream_id:
            raise ProtocolError(f"stream {stream_id} depends on itself")
        stream = self._begin_new_stream(stream_id, AllowedStreamIDs.ODD)
        ended = "END_STREAM" in frame.flags
        state = stream.state_machine
        state.client = False
        state.headers_received = True
        state.state = StreamState.HALF_CLOSED_REMOTE if ended else StreamState.OPEN
        if not ended:
            for name, value, _ in raw:
                if name == b"content-length" and value.isdigit() and len(value) < 20:
                    stream._expected_content_length = int(value)
        size = sum([len(name) + len(value) for name, value, _ in raw]) + 32 * len(raw)
        self._header_bytes += size + REQUEST_BYTES
        return [], [Opened(stream_id, raw, size, ended, stream)]

    def _decode(self, block: bytes) -> RawHeaders:
        try:
            raw: RawHeaders = self.decoder.decode(block, raw=True)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the Rust decoder's errors and panics have no common base
            if type(error).__name__ == "OversizedHeaderListError":
                raise DenialOfServiceError("oversized header list") from error
            raise ProtocolError(f"header block: {error}") from error
        return raw

    def _receive_data_frame(self, frame: Any) -> Any:
        try:
            return super()._receive_data_frame(frame)
        except InvalidBodyLengthError:
            return [], [LengthMismatch(frame.stream_id, frame.flow_controlled_length)]

    def _receive_settings_frame(self, frame: Any) -> Any:
        table = frame.settings.get(SettingCodes.HEADER_TABLE_SIZE)
        if table is not None and table > TABLE_BYTES:  # a larger one is an offer: what is sent would be kept for it
            frame.settings[SettingCodes.HEADER_TABLE_SIZE] = TABLE_BYTES
        if not frame.settings.keys() <= KNOWN_SETTINGS:
            frame.settings = {code: value for code, value in frame.settings.items() if code in KNOWN_SETTINGS}
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: Any) -> Any:
        event = jh2_events.ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]
