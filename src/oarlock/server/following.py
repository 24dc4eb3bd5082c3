"""Reloads files that are replaced while the server runs: credentials and certificates.

A change is detected by inode, modification time and size. A file that can't be read any more is logged once, and what
was read before stays in force.
Must not know: what the files are for. See also: `credentials`, `lifecycle`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

__all__ = ["LOOK_EVERY_S", "FollowedFiles", "follow"]

log = logging.getLogger("oarlock.server")

LOOK_EVERY_S = 5.0
"""The interval of checks, in seconds: a change takes effect after at most this time."""

RENEW_EVERY_S = 3600.0
"""How often certificates are checked for expiry, in seconds."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class FollowedFiles:
    """Files that belong together, such as a certificate and its key. Create it before they are first read.

    `read` reads them and applies the content. If they can't be used, it raises one of `refusals`, whose text is logged,
    and changes nothing.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], None], refusals: tuple[type[Exception], ...]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._refusals = refusals
        self._seen = self._signature()

    def look(self) -> None:
        """Read the files if one of them has changed since the last attempt."""
        now = self._signature()
        if now == self._seen:
            return
        self._seen = now
        names = " and ".join(map(str, self._paths))
        try:
            self._read()
        except self._refusals as error:
            log.error("%s: what was read before stays in force", error)
        else:
            log.warning("%s: changed, and read again", names)

    def _signature(self) -> _Signature:
        return tuple(map(_of_file, self._paths))


def _of_file(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


async def follow(files: Sequence[FollowedFiles], renew: Callable[[], Awaitable[None]] | None = None) -> None:
    """Check `files` every few seconds, and call `renew` every hour, until cancelled."""
    due_s = RENEW_EVERY_S
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        due_s -= LOOK_EVERY_S
        if renew is not None and due_s <= 0:
            due_s = RENEW_EVERY_S
            await renew()
        for one in files:
            one.look()
