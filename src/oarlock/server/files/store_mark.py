"""`StoreMark`: what this server has seen of its store, remembered in the data directory, outside of the store.

A database that was put back to an earlier state by its own means, by copying files or by a dump, says nothing of it: it
has the old epoch, and begins to give out revisions for the second time. A server that has seen a later revision finds
that at its start, and begins another epoch above it, so that no client takes the one history for the other.

    NAME.seen   {"epoch": …, "revision": …, "lineage": …}

The mark may be some seconds old: a new epoch begins far enough above it. It is never ahead of what the store had made
durable; if it were, after a loss of power, the store would only be in another epoch without need. Several servers may
share the file; those that have their own each know what they have seen, and the one that knows of the most decides.

Must not know: which store it is. See also: `data_directory`; `Backend.begin_epoch`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from oarlock.server.files.credentials import locked, write_file
from oarlock.storage.backend import Backend, Rev, StorageError, Traced

SAVED_EVERY_S = 5.0

_MOST_REV = 2**62
"""A greater revision was never given out: the file is damaged."""

IF_NOT_RESTORED = (
    "If the store wasn't restored, acknowledged writes are lost, as after damage to its files: stop its servers, keep "
    "a copy of its files, and compare it with the last backup"
)

log = logging.getLogger("oarlock.server")


class SeenStore(msgspec.Struct, frozen=True, omit_defaults=True):
    """A revision that a store has had, its epoch then, and the history of its database (`Traced`)."""

    epoch: str
    revision: Rev
    lineage: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SeenStore).decode


class StoreMark:
    """The mark in `file`. `seen` returns the epoch and revision that the server is at, `look` asks the store.

    Given the `backend`, before it is started, it gets the history of its database in which the store was seen.
    """

    def __init__(
        self,
        file: Path,
        seen: Callable[[], SeenStore],
        look: Callable[[], Awaitable[None]],
        backend: Backend | None = None,
    ) -> None:
        self._file: Final = file
        self._seen: Final = seen
        self._look: Final = look
        self._traced: Final = backend if isinstance(backend, Traced) else None
        self._recognised = False
        self._warned = False
        mark = self._read() if self._traced is not None else None
        if self._traced is not None and mark is not None and mark.lineage:
            self._traced.lineage = mark.lineage

    async def recognise(self, backend: Backend) -> None:
        """Begin another epoch if the store, which has been started, isn't the one that was seen, or is behind it.

        Only one of several servers that start at the same moment does this.
        """
        async with self._alone():
            mark = self._read()
            store = SeenStore(await backend.epoch(), await backend.current_rev())
            if mark is not None and await _is_another_history(mark, store, backend):
                log.warning(
                    "the store is at revision %d, but this server has seen it at revision %d: it was restored or "
                    "replaced, or lost acknowledged writes. It begins a new epoch, and clients list again. %s",
                    *(store.revision, mark.revision, IF_NOT_RESTORED),
                )
                rev = await backend.begin_epoch(mark.revision)
                store = SeenStore(await backend.epoch(), rev)
            self._write(store)
        self._recognised = True

    async def run(self) -> None:
        """Look at the store and save the mark, for ever.

        By that look a store that went back while the server runs is found, even if no client reads.
        """
        while True:
            await asyncio.sleep(SAVED_EVERY_S)
            with suppress(StorageError):
                await self._look()
            await self.save()

    async def save(self) -> None:
        """Save what the server has seen, once it has recognised the store."""
        seen = self._seen()
        if self._recognised and seen.revision:
            await asyncio.to_thread(self._save, seen)

    def _save(self, seen: SeenStore) -> None:
        try:
            with locked(self._file.parent):
                mark = self._read()
                # Revisions never go back, also not from one epoch to another: others may have seen more.
                if mark is None or mark.revision < seen.revision:
                    self._write(seen)
        except OSError as error:
            self._warn(error)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Hold the lock of the directory, if it can be had."""
        async with AsyncExitStack() as stack:
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = locked(self._file.parent)
                await asyncio.to_thread(lock.__enter__)
                stack.push(lock)
            except TimeoutError as error:
                raise StorageError(f"{self._file}: {error.strerror}") from error
            except OSError as error:
                self._warn(error)
            yield

    def _read(self) -> SeenStore | None:
        try:
            return _mark_in(self._file)
        except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
            log.warning("%s is unreadable and is written again: %s", self._file, error)
            return None

    def _write(self, seen: SeenStore) -> None:
        try:
            lineage = self._traced.lineage if self._traced is not None else ""
            write_file(self._file, _encode(SeenStore(seen.epoch, seen.revision, lineage)) + b"\n", 0o600)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s can't be written (%s): a restored store won't be recognised", self._file, error.strerror)


async def missing_history(file: Path, backend: Backend) -> str:
    """Why writes that a server has seen may be missing in the store; ``""`` if none is known of.

    `file` is the server's mark. Another epoch that a server began, and said so, is none.
    """
    try:
        mark = _mark_in(file)
    except (OSError, ValueError):
        return ""
    if mark is None:
        return ""
    store = SeenStore(await backend.epoch(), await backend.current_rev())
    if not await _is_another_history(mark, store, backend):
        return ""
    return (
        f"the store is at revision {store.revision}, and {file} says that it was seen at revision {mark.revision}: "
        "writes in between are gone"
    )


def _mark_in(file: Path) -> SeenStore | None:
    """The mark; None if there is none. Raises OSError, ValueError."""
    try:
        mark = _decode(file.read_bytes())
    except FileNotFoundError:
        return None
    if not 0 < mark.revision <= _MOST_REV:
        raise ValueError(f"revision {mark.revision}")
    return mark


async def _is_another_history(mark: SeenStore, store: SeenStore, backend: Backend) -> bool:
    if mark.epoch == store.epoch:
        return store.revision < mark.revision
    # Another epoch was begun in order if nothing that was given out before can be requested any more.
    return await backend.compact_rev() < mark.revision
