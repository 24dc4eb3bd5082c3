"""`Http2SlowReaders`: detects slow readers on one HTTP/2 connection.

A client that doesn't read the connection stalls all streams; one that doesn't widen a stream's window stalls that one.
See also: `slow_readers`, for what is too slow; `http2.connection`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from oarlock.server.serving.config import ConnectionLimits
from oarlock.server.serving.http2.output import Http2Output
from oarlock.server.serving.http2.stream import Http2Owner, Http2Stream
from oarlock.server.serving.slow_readers import SLOW, Pace, SlowReader

__all__ = ["Http2SlowReaders"]


class Http2SlowReaders:
    """Measures the pace of a connection, and of every stream that waits."""

    __slots__ = ("_limits", "_now", "_out", "_pace")

    def __init__(self, out: Http2Output, limits: ConnectionLimits, now: float) -> None:
        # The connection is named in each call: kept here, it would be garbage that only the collector finds.
        self._out = out
        self._limits = limits
        self._pace = Pace(now)
        self._now = now

    def slow_readers(self, connection: Http2Owner, streams: Sequence[Http2Stream]) -> Iterator[SlowReader]:
        """The connection, while its transport has unsent bytes; else every stream that waits."""
        buffered = self._out.buffer.counted
        if buffered:
            buffered += sum([stream.pending for stream in streams])
            yield SlowReader(self._pace.progress_at, buffered, connection.cut)
            return
        for stream in streams:
            if stream.waiting:
                progress_at = stream.pace.progress_at if stream.pace is not None else self._now
                cut = partial(connection.cut_stream, stream)
                yield SlowReader(progress_at, stream.pending, cut)

    def check(self, connection: Http2Owner, streams: Sequence[Http2Stream], now: float) -> None:
        """Cut streams, or the connection, if the client reads too slowly (see `ConnectionLimits`)."""
        self._now = now
        open_ended, buffered = False, 0
        for stream in streams:
            open_ended |= stream.open_ended
            if stream.waiting:
                stream.charge()
                buffered += stream.pending
                self._check_stream(connection, stream, now)
            else:
                stream.pace = None
        out, limits, pace = self._out, self._limits, self._pace
        out.buffer.recount()
        unsent = out.unsent
        pace.update(now, bool(unsent), out.accepted, limits.progress_bytes)
        if open_ended and unsent + buffered <= limits.connection_budget_bytes:
            pace.tolerate(now)
        elif unsent and pace.verdict(now, limits, None):
            connection.cut(SLOW)

    def _check_stream(self, connection: Http2Owner, stream: Http2Stream, now: float) -> None:
        limits, pace = self._limits, stream.pace
        if pace is None:
            pace = stream.pace = Pace(now)
        pace.update(now, True, stream.accepted, limits.progress_bytes)
        if stream.open_ended and stream.pending <= limits.stream_budget_bytes:
            pace.tolerate(now)
        reason = pace.verdict(now, limits, None if stream.open_ended else stream.started_at)
        if reason:
            connection.cut_stream(stream, reason)
