"""Writes docs/images/session.svg, a terminal with a real session: ``python tools/terminal_picture.py``.

The README's program is served on a free port, and kubectl's commands are run as they are shown. The server's address is
shown as the default one. Needs kubectl.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "session.svg"
PROGRAM = re.search(
    r"^```python\n(# flunders\.py\n.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
START_S = 30

FLUNDER = """\
apiVersion: wardle.example.com/v1
kind: Flunder
metadata: {name: plaice}
spec: {reference: sole}
"""
COMMANDS = (
    "kubectl create -f plaice.yaml",
    "kubectl get flunders",
    """kubectl patch flunder plaice --type merge -p '{"spec":{"reference":"plaice"}}'""",
    """kubectl patch flunder plaice --type merge -p '{"spec":{"replicas":"many"}}'""",
    "kubectl api-resources --api-group=wardle.example.com",
)

COLUMNS = 106
ADVANCE, LINE, SIZE, MARGIN, BAR = 7.83, 19, 13, 18, 34
COLORS = {"prompt": "#7ee787", "command": "#f0f6fc", "output": "#b1bac4", "error": "#ffa198"}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

Line = tuple[str, str]
"""A kind of `COLORS`, and the text."""


def main() -> int:
    assert PROGRAM is not None, "the README has no flunders.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flunders.py").write_text(PROGRAM[1])
        (folder / "plaice.yaml").write_text(FLUNDER)
        with served(folder) as said:
            lines = [*shown("oarlock serve flunders.py &", said, failed=False)]
            lines += shown("export KUBECONFIG=oarlock.kubeconfig", "", failed=False)
            for command in COMMANDS:
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment(), capture_output=True, text=True, check=False
                )
                lines += shown(command, done.stdout + done.stderr, failed=done.returncode != 0)
    PICTURE.write_text(picture(lines))
    return 0


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the program until the end of the block; what the server said at its start."""
    oarlock = Path(sys.executable).with_name("oarlock")
    log = folder / "server.log"
    with log.open("w") as output:
        command = [str(oarlock), "serve", "flunders.py", "--secure-port", "0"]
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, text=True)
        try:
            end = time.monotonic() + START_S
            while "kubectl" not in log.read_text():
                if server.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(log.read_text())
                time.sleep(0.05)
            yield re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:6443", log.read_text().splitlines()[0])
        finally:
            server.terminate()
            server.wait()


def environment() -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": "oarlock.kubeconfig", "HOME": "."}


def shown(command: str, output: str, *, failed: bool) -> Iterator[Line]:
    """The lines of a command and its output, folded as a terminal does."""
    yield from (("prompt" if at == 0 else "command", part) for at, part in enumerate(folded(f"$ {command}")))
    for line in output.strip("\n").splitlines():
        yield from (("error" if failed else "output", part) for part in folded(line.rstrip()))


def folded(line: str) -> list[str]:
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)] or [""]


def picture(lines: list[Line]) -> str:
    """The terminal as SVG."""
    width = round(COLUMNS * ADVANCE + 2 * MARGIN)
    height = BAR + len(lines) * LINE + MARGIN
    texts = "\n".join(text(kind, line, BAR + (number + 1) * LINE) for number, (kind, line) in enumerate(lines))
    buttons = "".join(f'<circle cx="{MARGIN + 18 * at}" cy="17" r="5.5" fill="#30363d"/>' for at in range(3))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>A terminal: oarlock serves a class, kubectl creates, lists, changes and explains its objects</title>
<rect width="{width}" height="{height}" rx="9" fill="#0d1117"/>
{buttons}
<g font-family="{escape(FONT)}" font-size="{SIZE}">
{texts}
</g>
</svg>
"""


def text(kind: str, line: str, y: int) -> str:
    """A line; the prompt has a color of its own."""
    if kind == "prompt":
        inner = f'<tspan fill="{COLORS["prompt"]}">$ </tspan>{kept(line[2:])}'
        kind = "command"
    else:
        inner = kept(line)
    return f'<text x="{MARGIN}" y="{y}" fill="{COLORS[kind]}">{inner}</text>'


def kept(line: str) -> str:
    """A text whose spaces SVG doesn't join."""
    return escape(line, quote=False).replace(" ", "\N{NO-BREAK SPACE}")


if __name__ == "__main__":
    sys.exit(main())
