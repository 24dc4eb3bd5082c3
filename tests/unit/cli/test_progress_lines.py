"""The line that shows how far a command is: redrawn on a terminal, now and then elsewhere, and never when quiet."""

from __future__ import annotations

import io
import sys

import pytest

from oarlock.cli import progress
from oarlock.cli.progress import ProgressLine, run_shown
from oarlock.cli.storage.running import readable_bytes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(stream: io.StringIO, clock: list[float], *, quiet: bool = False) -> str:
    line = ProgressLine(stream, quiet=quiet)
    for number in range(40):
        clock[0] += 0.0625  # exact in binary
        line.show(f"step {number}")
    line.clear()
    return stream.getvalue()


def test_elsewhere_a_line_a_second(clock: list[float]) -> None:
    assert shown(io.StringIO(), clock) == "step 15\nstep 31\n"


def test_on_a_terminal_one_line_is_redrawn_and_removed(clock: list[float]) -> None:
    text = shown(Terminal(), clock)
    assert "\n" not in text
    assert text.count("\r\x1b[Kstep") == 20
    assert text.endswith("\r\x1b[K")


def test_it_is_cut_to_the_width_of_the_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    line = ProgressLine(stream)
    clock[0] += 1
    line.show("x" * 100)
    assert stream.getvalue() == "\r\x1b[K" + "x" * 19


def test_quiet(clock: list[float]) -> None:
    assert shown(io.StringIO(), clock, quiet=True) == shown(Terminal(), clock, quiet=True) == ""


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_is_followed_and_heard_in_full_when_it_fails(
    code: int, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    program = f"import sys; print('first'); print('second', file=sys.stderr); sys.exit({code})"
    stream = Terminal()
    line = ProgressLine(stream)
    clock[0] += 1
    assert run_shown([sys.executable, "-u", "-c", program], line) == code
    assert stream.getvalue().startswith("\r\x1b[Kfirst")
    assert capsys.readouterr().err == ("first\nsecond\n" if code else "")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3 * 1024**5, "3072.0 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert readable_bytes(size) == text
