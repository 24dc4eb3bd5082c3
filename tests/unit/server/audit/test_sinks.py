"""Sinks that take their time, fail or hang: what waits is bounded, and no request waits for long."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oarlock.client.transport import ClientRequest, TransportError
from oarlock.meta.context import Target, User
from oarlock.policy.audit.event import AuditEvent, AuditRecord, RequestFacts
from oarlock.policy.audit.policy import Level, Recording, Stage
from oarlock.server.audit.build import ATTEMPTS, WebhookSettings, WebhookSink
from oarlock.server.audit.sink import AuditCounts, Failures, Truncation
from oarlock.server.audit.sinks import (
    BUFFER_BYTES,
    Batching,
    EventBuffer,
    LogFile,
    LogSettings,
    LogSink,
    Rotation,
    Throttle,
)
from oarlock.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def event(name: str = "a", body: Any = None) -> AuditEvent:
    recording = Recording(Level.REQUEST_RESPONSE)
    target = Target("get", "", "v1", "pods", "", "default", name)
    facts = RequestFacts("id", f"/api/v1/namespaces/default/pods/{name}", ["127.0.0.1"], "test", 1_767_225_600.0)
    record = AuditRecord(recording, facts, User("alice", groups=("devs", "ops")), target)
    if body is not None:
        record.add_request(body)
    record.status = {"code": 200}
    made = record.event(Stage.RESPONSE_COMPLETE, 1_767_225_601.5)
    assert made is not None
    return made


class Receiver:
    """Takes batches, when it is let."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, lines: Sequence[bytes]) -> bool:
        self.batches.append(list(lines))
        await self.open.wait()
        return True


def buffered(batching: Batching) -> tuple[EventBuffer, Receiver, AuditCounts, VirtualClock]:
    clock, counts, receiver = VirtualClock(), AuditCounts(), Receiver()
    return EventBuffer(receiver, batching, clock, Failures(counts, clock)), receiver, counts, clock


async def test_a_batch_is_sent_when_it_is_full_or_its_time_is_up() -> None:
    buffer, receiver, _, clock = buffered(Batching(100, 3, max_wait_s=30))
    for i in range(4):
        buffer.put(b"%d" % i)
    await clock.run(0)
    assert receiver.batches == [[b"0", b"1", b"2"]]
    await clock.run(29)
    assert len(receiver.batches) == 1
    await clock.run(1)
    assert receiver.batches[1:] == [[b"3"]]
    assert buffer.held_bytes == 0
    await buffer.close(1)


async def test_a_receiver_that_hangs_holds_a_bounded_number_of_events(caplog: pytest.LogCaptureFixture) -> None:
    buffer, receiver, counts, clock = buffered(Batching(10, 2, senders=2))
    receiver.open.clear()
    taken = [buffer.put(b"x") for _ in range(50)]
    await clock.run(1)
    assert sum(taken) == 10
    assert len(receiver.batches) == 2
    assert counts.errors == {"buffered": 40}
    assert caplog.text.count("the buffer is full") == 1
    clock.advance(60)
    assert not buffer.put(b"x")
    assert "40 events are lost" in caplog.text
    receiver.open.set()
    await clock.run(1)
    assert sum(map(len, receiver.batches)) == 10
    assert buffer.held_bytes == 0
    await buffer.close(1)


async def test_a_buffer_is_bounded_in_bytes_too() -> None:
    buffer, receiver, counts, clock = buffered(Batching(1000, 1))
    receiver.open.clear()
    large = b"x" * (BUFFER_BYTES // 4)
    assert [buffer.put(large) for _ in range(5)] == [True] * 4 + [False]
    assert buffer.held_bytes == BUFFER_BYTES
    await clock.run(1)
    assert buffer.held_bytes == BUFFER_BYTES  # what is being sent is held too
    await buffer.close(0)
    assert counts.errors == {"buffered": 5}


async def test_batches_are_limited_in_bytes_and_in_rate() -> None:
    throttle = Throttle(per_second=2, burst=3)
    buffer, receiver, _, clock = buffered(Batching(100, 10, max_bytes=10, throttle=throttle))
    for _ in range(12):
        buffer.put(b"12345")
    await clock.run(0)
    assert [len(batch) for batch in receiver.batches] == [2, 2, 2]
    await clock.run(0.5)
    assert len(receiver.batches) == 4
    await clock.run(10)
    assert len(receiver.batches) == 6
    await buffer.close(1)


async def test_closing_sends_what_waits_and_takes_nothing_more() -> None:
    buffer, receiver, counts, _ = buffered(Batching(200, 50, max_wait_s=30, throttle=Throttle(0.001, 1)))
    for _ in range(120):
        buffer.put(b"x")
    await buffer.close(5)
    assert sum(map(len, receiver.batches)) == 120
    assert not buffer.put(b"x")
    assert counts.errors == {"buffered": 1}


async def test_closing_gives_up_a_receiver_that_hangs() -> None:
    buffer, receiver, counts, clock = buffered(Batching(100, 1))
    receiver.open.clear()
    buffer.put(b"x")
    waits = asyncio.ensure_future(asyncio.wait_for(buffer.put_and_wait(b"y"), 5))  # type: ignore[arg-type]
    await clock.run(0)
    await buffer.close(0.01)
    assert await waits is False
    assert counts.errors == {"buffered": 2}


def log_sink(path: Path, mode: str = "blocking", **how: Any) -> tuple[LogSink, AuditCounts]:
    clock, counts = VirtualClock(), AuditCounts()
    settings = LogSettings(path, Rotation(), mode, Batching(100, 100), **how)
    return LogSink(settings, clock, Failures(counts, clock)), counts


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict", "batch"])
async def test_a_line_is_an_event_in_every_mode(tmp_path: Path, mode: str) -> None:
    sink, _ = log_sink(tmp_path / "new" / "audit.log", mode)
    for name in "abc":
        assert sink.write(event(name)) is True
    await sink.close(5)
    lines = (tmp_path / "new" / "audit.log").read_text().splitlines()
    assert [json.loads(line)["objectRef"]["name"] for line in lines] == ["a", "b", "c"]


@pytest.mark.parametrize(("mode", "goes_on"), [("blocking", True), ("blocking-strict", False)])
async def test_a_device_without_space_fails_strict_requests_only(
    mode: str, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sink, counts = log_sink(Path("/dev/full"), mode)
    for _ in range(3):
        written = sink.write(event())
        assert not isinstance(written, bool)
        assert await written is goes_on
    assert counts.errors == {"log": 3}
    assert caplog.text.count("No space left on device") == 1
    await sink.close(5)


async def test_a_pipe_that_nobody_reads_holds_up_requests_but_not_the_server(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    sink, _ = log_sink(tmp_path / "pipe")
    waiting = [asyncio.ensure_future(sink.write(event(body={"x": "y" * 50_000}))) for _ in range(4)]  # type: ignore[arg-type]
    _, left = await asyncio.wait(waiting, timeout=0.2)
    assert left  # a pipe takes 64 KiB
    await sink.close(0.1)
    assert {await one for one in left} == {True}


async def test_the_legacy_format_is_a_line_of_text(tmp_path: Path) -> None:
    sink, _ = log_sink(tmp_path / "audit.log", legacy=True)
    sink.write(event())
    await sink.close(5)
    assert (tmp_path / "audit.log").read_text() == (
        '2026-01-01T00:00:00.000000Z AUDIT: id="id" stage="ResponseComplete" ip="127.0.0.1" method="get" user="alice" '
        'groups="\\"devs\\",\\"ops\\"" as="<self>" asgroups="<lookup>" user-agent="test" namespace="default" '
        'uri="/api/v1/namespaces/default/pods/a" response="200"\n'
    )


async def test_a_large_event_loses_its_objects_and_one_that_is_still_larger_is_dropped(tmp_path: Path) -> None:
    sink, counts = log_sink(tmp_path / "audit.log", truncation=Truncation(2000, 10_000))
    assert sink.write(event(body={"metadata": {"name": "a"}, "data": "x" * 3000})) is True
    assert sink.write(event("x" * 3000)) is True
    await sink.close(5)
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    assert "requestObject" not in line
    assert json.loads(line)["annotations"] == {"audit.k8s.io/truncated": "true"}
    assert counts.errors == {"truncate": 1}


def test_a_full_file_is_rotated_and_old_ones_are_removed(tmp_path: Path) -> None:
    clock = VirtualClock()
    rotation = Rotation(max_bytes=100, max_backups=2, max_age_days=1)
    file = LogFile(tmp_path / "audit.log", rotation, clock, lambda step: step())
    for i in range(8):
        clock.advance(0.5)
        file.write(b"%d" % i * 49 + b"\n")
    assert [one.read_bytes()[:1] for one in file.backups()] == [b"4", b"2"]
    assert file.backups()[0].name == "audit-2026-01-01T00-00-03.500.log"
    assert (tmp_path / "audit.log").read_bytes()[:1] == b"6"
    clock.advance(2 * 86_400)
    file.write(b"x" * 90)
    assert len(file.backups()) == 1
    file.close()


def test_rotated_files_are_compressed(tmp_path: Path) -> None:
    rotation = Rotation(max_bytes=100, compress=True)
    file = LogFile(tmp_path / "audit.log", rotation, VirtualClock(), lambda step: step())
    for i in range(3):
        file.write(b"%d" % i * 99 + b"\n")
    assert [gzip.decompress(one.read_bytes())[:1] for one in file.backups()] == [b"1", b"0"]
    assert {one.suffix for one in file.backups()} == {".gz"}
    file.close()


def test_processes_may_share_a_file_and_others_may_rotate_it(tmp_path: Path) -> None:
    clock = VirtualClock()
    both = [LogFile(tmp_path / "audit.log", Rotation(max_bytes=1000), clock, lambda step: step()) for _ in range(2)]
    for i in range(40):
        clock.advance(2)
        both[i % 2].write(b"%03d" % i + b"x" * 96 + b"\n")
    os.rename(tmp_path / "audit.log", tmp_path / "elsewhere")
    clock.advance(2)
    both[0].write(b"last\n")
    assert (tmp_path / "audit.log").read_bytes() == b"last\n"
    pieces = [*reversed(both[0].backups()), tmp_path / "elsewhere"]
    lines = [line for piece in pieces for line in piece.read_bytes().splitlines()]
    assert [int(line[:3]) for line in lines] == list(range(40))
    assert all(piece.stat().st_size <= 1000 for piece in pieces)
    for one in both:
        one.close()


def test_a_file_that_cannot_be_rotated_grows_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    file = LogFile(folder / "audit.log", Rotation(max_bytes=100), VirtualClock(), lambda step: step())
    folder.rename(tmp_path / "moved")
    for _ in range(3):
        file.write(b"x" * 89 + b"\n")
    assert (tmp_path / "moved" / "audit.log").stat().st_size == 270
    assert caplog.text.count("can't be rotated and keeps growing") == 1
    file.close()


def test_a_line_that_the_disk_had_no_room_for_spoils_no_other(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = LogFile(tmp_path / "audit.log", Rotation(), VirtualClock(), lambda step: step())
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30, before[1]))
        with pytest.raises(OSError, match="File too large"):
            file.write(b"a" * 49 + b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    file.write(b"b\n")
    assert (tmp_path / "audit.log").read_bytes().splitlines() == [b"a" * 30, b"b"]
    file.close()


class Answer:
    def __init__(self, status: int) -> None:
        self.status = status

    async def close(self) -> None:
        """Nothing is left of it."""


class Service:
    """A transport to a service that fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.requests: list[ClientRequest] = []
        self.closed = False

    async def send(self, request: ClientRequest) -> Any:
        self.requests.append(request)
        self.failures -= 1
        if self.failures >= 0:
            if self.failures % 2:
                raise TransportError("connection refused", sent=False)
            return Answer(503)
        return Answer(200)

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> Any:
        raise AssertionError("nothing is upgraded")

    async def close(self) -> None:
        self.closed = True


def webhook(service: Service, mode: str = "batch") -> tuple[WebhookSink, AuditCounts, VirtualClock]:
    clock, counts = VirtualClock(), AuditCounts()
    settings = WebhookSettings("https://audit.example.com/in", mode, Batching(100, 2, max_wait_s=30), 10.0)
    return WebhookSink(settings, service, clock, Failures(counts, clock)), counts, clock


async def test_a_webhook_gets_a_list_of_events() -> None:
    service = Service()
    sink, counts, clock = webhook(service)
    assert sink.write(event("a")) is True
    assert sink.write(event("b")) is True
    await clock.run(0)
    (request,) = service.requests
    body = json.loads(request.body)
    assert (request.method, body["kind"], body["apiVersion"]) == ("POST", "EventList", "audit.k8s.io/v1")
    assert [item["objectRef"]["name"] for item in body["items"]] == ["a", "b"]
    assert "kind" not in body["items"][0]
    await sink.close(1)
    assert service.closed
    assert counts.errors == {}


async def test_a_batch_that_fails_is_sent_again_later_each_time(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(failures=3)
    sink, counts, clock = webhook(service)
    sink.write(event())
    sink.write(event())
    await clock.run(9)
    assert len(service.requests) == 1
    await clock.run(10 * (1 + 1.5 + 2.25) * 1.2)
    assert len(service.requests) == 4
    assert counts.errors == {}
    service.failures = 1001
    sink.write(event())
    sink.write(event())
    await clock.run(300)
    assert len(service.requests) == 4 + ATTEMPTS
    assert counts.errors == {"webhook": 2}
    assert "audit webhook: 2 events are lost: https://audit.example.com/in answered 503" in caplog.text
    await sink.close(1)


@pytest.mark.parametrize(("mode", "goes_on"), [("blocking", True), ("blocking-strict", False)])
async def test_a_blocking_webhook_is_waited_for(mode: str, goes_on: bool) -> None:
    service = Service(failures=1000)
    sink, _, clock = webhook(service, mode)
    written = asyncio.ensure_future(sink.write(event()))  # type: ignore[arg-type]
    await clock.run(1)
    assert not written.done()
    await clock.run(300)
    assert await written is goes_on
    service.failures = 0
    assert await sink.write(event()) is True  # type: ignore[misc]
    await sink.close(1)
