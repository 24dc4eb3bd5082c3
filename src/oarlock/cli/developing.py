"""``oarlock dev``: a server, and webhooks and controllers beside it, each a process; it prints the lines of all.

All are started again when a Python file changes; objects, certificates and tokens stay, as they are in files.
See also: `reloading`, which looks for changed files.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from oarlock.cli.loading import ServerArgument, source_folder
from oarlock.cli.reloading import changed_file, load_once, source_files, start_child, stop_child, stop_signals
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType, IntegerType, PathType, StringType

_READY = ("kubectl ", "serving at ", "oarlock: connected ")

COLOURS = (36, 33, 35)
"""Of ANSI terminals: cyan, yellow, magenta."""

BEHIND = Path("behind")
"""Where a server keeps its data that is behind a control plane."""


PORT_BEHIND = 1000
"""How far the port of the server is above the control plane's that it is behind."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DevOptions(ServerArgument):
    """The options of ``oarlock dev``."""

    title = ""

    secure_port: int = option(
        6443, IntegerType("PORT", maximum=65_535), "The server listens on this port; 0 is any free port.", in_file=False
    )
    kubeconfig: Path = option(
        Path("oarlock.kubeconfig"),
        PathType(),
        "The kubeconfig that the server writes, and that webhooks and controllers read.",
        in_file=False,
    )
    controllers: str = option(
        "",
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "Run the controllers of this file in a process of their own, like oarlock run. The server runs its own.",
        in_file=False,
    )
    webhooks: bool = option(
        False,
        BooleanType(),
        "Run oarlock webhooks for the same classes in a process of its own, on a free port.",
        in_file=False,
    )
    behind: bool = option(
        False,
        BooleanType(),
        "Run the server behind a control plane, oarlock up in a process of its own, that clients connect to. The "
        "server listens on the port 1000 above, and keeps its data in the folder behind.",
        in_file=False,
    )
    nodes: int = option(
        0, IntegerType("N", maximum=5_000), "How many simulated nodes that control plane has.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        if self.nodes and not self.behind:
            yield Problem("nodes", "are those of a control plane: set `behind`")
        if self.behind and not 0 < self.secure_port <= 65_535 - PORT_BEHIND:
            yield Problem("behind", f"needs a port that is known, and the one {PORT_BEHIND} above: set `secure_port`")


@dataclass(frozen=True, slots=True)
class DevPart:
    """A process, by what its lines begin with and what ``oarlock`` is given for it."""

    name: str
    words: tuple[str, ...]


def parts_of(options: DevOptions) -> list[DevPart]:
    """What is to run."""
    port, name = f"--secure-port={options.secure_port}", options.server
    kubeconfig = f"--kubeconfig={options.kubeconfig}"
    serve: tuple[str, ...] = ("serve", name, port, f"--write-kubeconfig={options.kubeconfig}")
    if options.behind:
        port = f"--secure-port={options.secure_port + PORT_BEHIND}"
        storage = f"--storage=sqlite:///{BEHIND}/oarlock.db"
        serve = ("serve", name, port, storage, f"--behind={options.kubeconfig}")
    parts = [DevPart("server", serve)]
    if options.controllers:
        parts.append(DevPart("controllers", ("run", options.controllers, kubeconfig)))
    if options.webhooks:
        parts.append(DevPart("webhooks", ("webhooks", name, "--secure-port=0", kubeconfig, "--data-dir=.webhooks")))
    return parts


def control_plane_of(options: DevOptions) -> list[DevPart]:
    """What runs in front, and goes on when a file changes: a control plane, or nothing."""
    if not options.behind:
        return []
    words = ("up", f"--secure-port={options.secure_port}", f"--write-kubeconfig={options.kubeconfig}")
    # the server may be the one of the metrics API, as those of a cluster are
    nodes = (f"--nodes={options.nodes}", "--disable=simulated-metrics") if options.nodes else ()
    return [DevPart("up", (*words, *nodes))]


def dev(options: DevOptions) -> int:
    """Run a server for development, and on request webhooks and controllers beside it; restart all on a change.

    Each line begins with the part it comes from. Objects, certificates and tokens stay between restarts.
    """
    folder = source_folder(options.server)
    signals = stop_signals()
    front = control_plane_of(options)
    lines = SideBySide(sys.stdout, [*parts_of(options), *front])
    load_once(source_files(folder), control_plane=options.behind)
    with contextlib.ExitStack() as in_front:
        for part in front:
            BEHIND.mkdir(exist_ok=True)
            in_front.enter_context(_running(part, len(parts_of(options)), lines))
        while True:
            before = source_files(folder)
            with contextlib.ExitStack() as running:
                for number, part in enumerate(parts_of(options)):
                    running.enter_context(_running(part, number, lines))
                if options.behind:
                    threading.Thread(target=_show_available, args=(options, lines), daemon=True).start()
                changed = changed_file(folder, before, signals)
            if changed is None:
                return 0
            lines.show(None, f"{changed} has changed: restarting")


def _show_available(options: DevOptions, lines: SideBySide) -> None:
    """Print when the control plane has reached the server."""
    from oarlock.cli.behind import wait_available  # noqa: PLC0415 (loaded while the control plane looks for the server)

    url = f"https://127.0.0.1:{options.secure_port + PORT_BEHIND}"
    try:
        names = asyncio.run(wait_available(options.kubeconfig, url))
    except CommandError as error:
        lines.show(None, str(error))
    else:
        lines.show(None, f"the control plane has reached it: {', '.join(names)}")


class SideBySide:
    """Lines of several processes on one stream, each after the name of its own; in colours on a terminal."""

    def __init__(self, stream: IO[str], parts: Sequence[DevPart]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._width = max(len(name) for name in ("dev", *(part.name for part in parts)))
        self._names = [part.name for part in parts]
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")

    def show(self, number: int | None, line: str) -> None:
        """Print a line of a part, or of this command."""
        name = "dev" if number is None else self._names[number]
        head = f"{name:{self._width}} |"
        if self._coloured and number is not None:
            head = f"\x1b[{COLOURS[number % len(COLOURS)]}m{head}\x1b[0m"
        with self._lock:
            print(head, line, file=self._stream, flush=True)


@contextlib.contextmanager
def _running(part: DevPart, number: int, lines: SideBySide) -> Iterator[None]:
    """A part's process, until the end; its lines are printed while it runs."""
    read, write = multiprocessing.Pipe(duplex=False)
    with write:
        process = start_child(part.words, write)
    stream = os.fdopen(os.dup(read.fileno()), errors="replace")
    read.close()
    ready = threading.Event()
    reader = threading.Thread(target=_follow, args=(stream, number, lines, ready), daemon=True)
    reader.start()
    try:
        ready.wait()
        yield
    finally:
        stop_child(process)
        reader.join()
        stream.close()


def _follow(stream: IO[str], number: int, lines: SideBySide, ready: threading.Event) -> None:
    """Print every line. A part is ready when it says how to use it, or where it is connected; or when it has ended."""
    for line in stream:
        lines.show(number, line.rstrip("\n"))
        if line.startswith(_READY):
            ready.set()
    ready.set()


DEV = Command("dev", DevOptions, dev)
