"""`RemoteCommand`: a command that runs beside an object: its input, output, terminal and exit code.

    async with client.exec(Machine, "a", ["sh"]) as shell:
        await shell.write(b"date; exit 3\\n")
        async for output in shell:
            print(output.channel, output.data)
        assert shell.exit_code == 3

Source: k8s.io/apimachinery ``util/remotecommand``, KEP-4006. Must not know: kinds, paths. See also: `client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from oarlock.client.requests import error_of_tree
from oarlock.client.transport import ClientConnection, TransportError
from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass
from oarlock.meta.options_parse import QueryPairs

CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
MAX_RESULT_BYTES = 16 * 1024 * 1024
MAX_STATUS_BYTES = 1024 * 1024
MESSAGE_BYTES = 256 * 1024
END_S = 5.0
"""How long a server may take to close the connection after it has sent the result."""

STDIN, STDOUT, STDERR, RESULT, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """A piece of a command's output."""

    channel: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code of a command, and its whole output."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class RemoteCommand:
    """A running command. Iterating yields its output until it ends; `exit_code` is set then.

    A command whose output isn't read is blocked. So read the output in another task while you write much to stdin.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.exit_code: int | None = None
        self._connection = connection
        self._status = b""

    async def write(self, data: bytes) -> None:
        """Write to stdin. Raises TransportError when the connection has ended."""
        for start in range(0, len(data), MESSAGE_BYTES):
            await self._send(STDIN, data[start : start + MESSAGE_BYTES])

    async def close_stdin(self) -> None:
        """Close stdin. Raises TransportError if the server doesn't support that (before ``v5.channel.k8s.io``)."""
        if self._connection.protocol != CHANNELS[0]:
            raise TransportError(f"stdin can't be closed: the server doesn't support {CHANNELS[0]}", sent=False)
        await self._send(CLOSE, bytes((STDIN,)))

    async def resize(self, width: int, height: int) -> None:
        """Send the size of the terminal, in characters."""
        await self._send(RESIZE, json.encode({"Width": width, "Height": height}))

    async def __aiter__(self) -> AsyncIterator[CommandOutput]:
        while True:
            message = await self._receive()
            if not message:
                break
            channel, data = message[0], message[1:]
            if channel == RESULT:
                self._status += data
                if len(self._status) > MAX_STATUS_BYTES:
                    raise TransportError(f"the result of the command has more than {MAX_STATUS_BYTES} bytes", sent=True)
            elif data and channel in (STDOUT, STDERR):
                yield CommandOutput("stdout" if channel == STDOUT else "stderr", data)
        self.exit_code = _exit_code(self._status)

    async def result(self, stdin: bytes = b"") -> CommandResult:
        """Write `stdin`, close it, and wait for the command. Raises TransportError for more than 16 MiB of output."""
        sending = asyncio.create_task(self._feed(stdin), name="stdin of a command")
        printed: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        size = 0
        try:
            async for output in self:
                size += len(output.data)
                if size > MAX_RESULT_BYTES:
                    raise TransportError(f"the command printed more than {MAX_RESULT_BYTES} bytes: use exec", sent=True)
                printed[output.channel].append(output.data)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        assert self.exit_code is not None
        return CommandResult(self.exit_code, b"".join(printed["stdout"]), b"".join(printed["stderr"]))

    async def _feed(self, stdin: bytes) -> None:
        """The command may end without having read it: that is no error."""
        await self.write(stdin)
        if self._connection.protocol == CHANNELS[0]:
            await self.close_stdin()

    async def _send(self, channel: int, data: bytes) -> None:
        await self._connection.send(bytes((channel,)) + data)

    async def _receive(self) -> bytes | None:
        """The next message that isn't empty; None at the end."""
        try:
            async with asyncio.timeout(END_S if self._status else None):
                while (message := await self._connection.receive()) is not None:
                    if message:
                        return message
        except TimeoutError:
            pass
        return None


def command_query(command: Sequence[str], *, tty: bool) -> QueryPairs:
    """The query that starts a command. A terminal has no stderr of its own."""
    streams = [("stdin", "true"), ("stdout", "true"), ("tty", "true") if tty else ("stderr", "true")]
    return [*(("command", part) for part in command), *streams]


def _exit_code(status: bytes) -> int:
    """What the last message says. Raises the error that it stands for, and TransportError when there is none."""
    if not status:
        raise TransportError("the connection ended before the command", sent=True)
    try:
        tree: Any = json.decode(status)
    except DecodeError as error:
        raise TransportError(f"the result of the command isn't JSON: {error}", sent=True) from None
    if not isinstance(tree, dict):
        raise TransportError("the result of the command isn't a Status", sent=True)
    if tree.get("status") == "Success":
        return 0
    details = tree.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            text = str(cause.get("message", ""))
            if text.isascii() and text.isdigit() and len(text) < 10:
                return int(text)
    raise error_of_tree(tree)
