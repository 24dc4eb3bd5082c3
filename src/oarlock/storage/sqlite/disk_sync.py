"""`DiskSync`: ``fdatasync(2)`` of one file without a thread. The kernel does it, and tells through an eventfd.

Linux' asynchronous I/O (``io_submit(2)`` with IOCB_CMD_FDSYNC, since Linux 4.18) is called through ctypes: the standard
library has no function for it. A thread would cost two switches and two waits for the interpreter lock for each sync,
several times what the sync itself costs.

Must not know: what is in the file. See also: `writer`, which commits between two syncs.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

__all__ = ["DiskSync"]

_CALLS: Final = {"x86_64": (206, 207, 208, 209), "aarch64": (0, 1, 4, 2)}
"""The numbers of io_setup, io_destroy, io_getevents and io_submit, by machine."""

_FDSYNC = 3
_TELL_EVENTFD = 1


class _Request(ctypes.Structure):
    """``struct iocb`` of linux/aio_abi.h."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Completion(ctypes.Structure):
    """``struct io_event``: `result` is 0 or a negative errno."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class DiskSync:
    """Syncs the file at `path`, one sync at a time. `done` is called on the loop with 0 or the errno of each.

    Raises `OSError` where the kernel, its configuration or the file system has no asynchronous sync.
    """

    def __init__(self, path: Path | str, done: Callable[[int], None]) -> None:
        numbers = _CALLS.get(platform.machine())
        if sys.platform != "linux" or numbers is None:
            raise OSError(f"no asynchronous sync on {sys.platform} {platform.machine()}")
        _, self._destroy_number, self._getevents_number, self._submit_number = numbers
        self._call: Final = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._done: Final = done
        self._loop: Final = asyncio.get_running_loop()
        self._context = ctypes.c_ulong(0)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._syscall(numbers[0], ctypes.c_ulong(1), ctypes.byref(self._context))
        except OSError:
            os.close(self._file)
            raise
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._request = _Request(opcode=_FDSYNC, fd=self._file, flags=_TELL_EVENTFD, eventfd=self._told)
        self._requests = (ctypes.POINTER(_Request) * 1)(ctypes.pointer(self._request))
        self._completion = _Completion()
        self._to_completion = ctypes.byref(self._completion)
        try:
            self._try()
        except OSError:
            self.close()
            raise
        self._loop.add_reader(self._told, self._on_told)

    def begin(self) -> None:
        """Begin a sync of everything that has been written to the file. Raises `OSError` if the kernel refuses it."""
        self._syscall(self._submit_number, self._context, ctypes.c_long(1), self._requests)

    def close(self) -> None:
        """Waits for a sync that is going on; `done` isn't called any more. May block, so not for the loop."""
        self._syscall(self._destroy_number, self._context)
        os.close(self._told)
        os.close(self._file)

    def stop_listening(self) -> None:
        """`done` isn't called any more. On the loop, before `close`."""
        self._loop.remove_reader(self._told)

    def _try(self) -> None:
        """Sync once and wait for it: only then is it known that the file system can. Raises `OSError`."""
        self.begin()
        self._completed(1)
        os.eventfd_read(self._told)
        error = -self._completion.result
        if error:
            raise OSError(error, os.strerror(error))

    def _on_told(self) -> None:
        try:
            os.eventfd_read(self._told)
        except BlockingIOError:
            return
        if self._completed(0):
            self._done(-self._completion.result)

    def _completed(self, least: int) -> int:
        """How many syncs have ended, of which `least` are waited for: `_completion` is the result."""
        least_of, one = ctypes.c_long(least), ctypes.c_long(1)
        return self._syscall(self._getevents_number, self._context, least_of, one, self._to_completion, None)

    def _syscall(self, number: int, *arguments: object) -> int:
        result = int(self._call(ctypes.c_long(number), *arguments))
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result
