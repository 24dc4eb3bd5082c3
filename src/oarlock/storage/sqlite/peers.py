"""Notifications between the processes on one store: unix datagram sockets in a folder beside the file.

A message is a hint and may be lost: polling the store finds what it announces, a little later.

    r          something was committed: read on
    j NAME     the process at socket NAME wants to join: share the membership lock
    p          are you there? (a refused datagram tells that a process has died, and its socket is removed)

Must not know: SQLite, revisions, locks. See also: `backend`, which reacts.
"""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import Final

from oarlock.storage.backend import StorageError

__all__ = ["Peers"]

_SUFFIX = ".sock"
_MESSAGE_BYTES = 256


class Peers:
    """This process's socket and those of the others.

    All methods but `receive` and `close` may be called in any thread.
    """

    def __init__(self, folder: Path) -> None:
        self._name: Final = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._others: tuple[str, ...] = ()
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # A unix socket address has at most 107 bytes; relative to the open folder it is short for any path.
        short = f"/proc/self/fd/{self._folder_fd}"
        self._prefix: Final = short if os.path.isdir(short) else str(folder)
        self.socket: Final = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        try:
            self.socket.bind(self._address(self._name))
        except OSError as error:
            self.socket.close()
            os.close(self._folder_fd)
            raise StorageError(
                f"cannot make a socket in {folder} ({error.strerror or error}): use a local disk and a shorter path"
            ) from None
        self.refresh()

    def refresh(self) -> tuple[str, ...]:
        """List the sockets again; those of dead processes are removed."""
        names = os.listdir(self._folder_fd)
        self._others = tuple(name for name in names if name.endswith(_SUFFIX) and name != self._name)
        self.send(b"p")
        return self._others

    def send(self, message: bytes) -> None:
        """Send to all others. Never blocks: a process with a full buffer will look at the store anyway."""
        for name in self._others:
            try:
                self.socket.sendto(message, self._address(name))
            except BlockingIOError:
                pass
            except (ConnectionRefusedError, FileNotFoundError):
                self._forget(name)
            except OSError:
                # An unreachable peer finds out by polling; a writer must not fail for it.
                pass

    def ask_to_join(self) -> str:
        """Ask the process that is alone to share; returns who was asked, for an error message."""
        others = self.refresh()
        self.send(b"j " + self._name.encode())
        pids = sorted({name.partition("-")[0] for name in others})
        return f" (pid {', '.join(pids)})" if pids else ""

    def receive(self) -> set[bytes]:
        """The kinds of messages that have arrived, each once."""
        kinds: set[bytes] = set()
        while True:
            try:
                message = self.socket.recv(_MESSAGE_BYTES)
            except (BlockingIOError, OSError):
                return kinds
            kind, _, name = message.partition(b" ")
            kinds.add(kind)
            if kind == b"j" and (joiner := name.decode(errors="replace")) not in self._others:
                self._others = (*self._others, joiner)

    def close(self) -> None:
        self.socket.close()
        try:
            os.unlink(self._name, dir_fd=self._folder_fd)
        except OSError:
            pass
        os.close(self._folder_fd)

    def _forget(self, name: str) -> None:
        # Names are never used twice, so a name that refuses a connection belongs to a dead process.
        self._others = tuple(other for other in self._others if other != name)
        try:
            os.unlink(name, dir_fd=self._folder_fd)
        except OSError:
            pass

    def _address(self, name: str) -> str:
        return f"{self._prefix}/{name}"
