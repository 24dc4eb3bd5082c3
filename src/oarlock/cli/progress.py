"""Shows on stderr how far long work is: one line that is renewed on a terminal, elsewhere a line now and then.

It needs Python's own modules only, so that ``tools/install.py`` shows what it installs before anything is there.
Must not know: which work.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

EVERY_S = 1.0
"""How often a line is printed where there is no terminal, in seconds."""

REDRAWN_S = 0.1


class ProgressLine:
    """Shows the latest text. With `quiet`, nothing."""

    def __init__(self, stream: TextIO, *, quiet: bool = False, every_s: float = EVERY_S) -> None:
        self._stream: Final = stream
        self._quiet: Final = quiet
        self._terminal: Final = stream.isatty()
        self._every_s: Final = REDRAWN_S if self._terminal else every_s
        self._shown_at = time.monotonic()
        self._drawn = False

    def show(self, text: str) -> None:
        """Show `text`, unless another was shown a moment ago."""
        now = time.monotonic()
        if self._quiet or now - self._shown_at < self._every_s:
            return
        self._shown_at = now
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._drawn = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Remove the line from a terminal, before anything else is printed."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[ProgressLine]:
    """A context manager: a line on stderr, which is gone at the end."""
    line = ProgressLine(sys.stderr, quiet=quiet, every_s=EVERY_S)
    try:
        yield line
    finally:
        line.clear()


def run_shown(command: Sequence[str], line: ProgressLine) -> int:
    """The exit code of a program. What it says is shown on `line`, and all of it on stderr if it fails."""
    said = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as program:
        assert program.stdout is not None
        for text in program.stdout:
            said.append(text)
            line.show(text.strip())
    if program.returncode:
        line.clear()
        sys.stderr.write("".join(said))
    return program.returncode
