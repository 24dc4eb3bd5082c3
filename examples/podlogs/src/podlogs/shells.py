"""What runs in a computer or a pod: a shell with a few commands and files, in memory. It knows nothing of Kubernetes.

Nothing leaves this process. Yours may be containers, virtual machines or jobs.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from oarlock import Channels

MOST_LINES = 1000
MOST_BYTES = 1_000_000
NOT_FOUND = 127


class Shell:
    """One of them. Each command that is run in it is a line of its log."""

    def __init__(self, greeting: str) -> None:
        self.files: dict[str, bytes] = {}
        self._lines: deque[tuple[int, str]] = deque([(1, greeting)], MOST_LINES)
        self._more = asyncio.Event()

    def say(self, line: str) -> None:
        self._lines.append((self._lines[-1][0] + 1, line))
        self._more.set()
        self._more = asyncio.Event()

    async def log(self, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[bytes]:
        """The lines so far, or the last ones of them; with `follow` also those to come."""
        seen = 0 if tail is None else max(0, self._lines[-1][0] - tail)
        while True:
            more = self._more
            for number, line in [(number, line) for number, line in self._lines if number > seen]:
                yield f"{line}\n".encode()
                seen = number
            if not follow:
                return
            if self._lines[-1][0] == seen:
                await more.wait()

    async def run(self, command: Sequence[str], channels: Channels) -> int:
        """Run a command, which reads and writes `channels`; its exit code."""
        self.say(f"ran {' '.join(command)}")
        match command:
            case ["echo", *words]:
                await channels.stdout.write(f"{' '.join(words)}\n".encode())
            case ["ls"]:
                await channels.stdout.write("".join(f"{name}\n" for name in sorted(self.files)).encode())
            case ["cat"]:
                async for data in channels.stdin:
                    await channels.stdout.write(data)
            case ["cat", name] if name in self.files:
                await channels.stdout.write(self.files[name])
            case ["tee", name]:
                self.files[name] = b""
                async for data in channels.stdin:
                    self.files[name] = (self.files[name] + data)[:MOST_BYTES]
                    await channels.stdout.write(data)
            case ["exit", code] if code.isdecimal():
                return int(code)
            case _:
                await channels.stderr.write(f"{' '.join(command)}: not found\n".encode())
                return NOT_FOUND
        return 0


class Shells:
    """The shells of all objects, by uid: an object that was deleted and made again has a new one."""

    def __init__(self) -> None:
        self._shells: dict[str, Shell] = {}

    def of(self, uid: str, greeting: str) -> Shell:
        return self._shells.setdefault(uid, Shell(greeting))
