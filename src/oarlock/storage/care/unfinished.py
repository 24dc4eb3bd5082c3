"""The mark of a store that is being filled: until all of it is there, no server must start on it.

It is a key of the store itself, so it is there for every process and survives an interruption. The operation that made
it may go on; another one may not.

Must not know: what is filled in. See also: `restore`, `copy`.
"""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.care.snapshot import EVERYTHING
from oarlock.storage.care.writing import KeyWrite, write

__all__ = ["UNFINISHED_KEY", "Filling", "begin_filling", "end_filling", "must_be_complete"]

UNFINISHED_KEY = "/oarlock/unfinished"


@dataclass(frozen=True, slots=True)
class Filling:
    """An operation that fills a store. `source` tells it from the same operation with another source.

    `operation` and `source` have no spaces; `command` is what finishes it.
    """

    operation: str
    source: str
    command: str

    @property
    def identity(self) -> bytes:
        return f"{self.operation} {self.source} ".encode()


async def begin_filling(backend: Backend, filling: Filling) -> bool:
    """Mark the store; returns whether this goes on with what was begun before.

    Raises `StorageError` if the store isn't empty, or holds what another operation began.
    """
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        if kv.value.startswith(filling.identity):
            return True
        raise StorageError(f"{_why(kv.value)}; or begin with a new, empty store")
    await _must_have(backend, 0)
    await write(backend, KeyWrite(UNFINISHED_KEY, filling.identity + filling.command.encode()))
    await _must_have(backend, 1)
    return False


async def _must_have(backend: Backend, keys: int) -> None:
    count, _ = await backend.count(*EVERYTHING)
    if count != keys:
        raise StorageError(
            f"the store isn't empty, it holds {count - keys} keys: name a new one (another file, database or prefix)"
        )


async def end_filling(backend: Backend) -> None:
    """Remove the mark."""
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        await write(backend, KeyWrite(UNFINISHED_KEY, None, expect=kv.mod_rev))


async def must_be_complete(backend: Backend) -> None:
    """Raise `StorageError` if the store is being filled."""
    kv, _ = await backend.get(UNFINISHED_KEY)
    if kv is not None:
        raise StorageError(_why(kv.value))


def _why(value: bytes) -> str:
    operation, _, rest = value.decode(errors="replace").partition(" ")
    command = rest.partition(" ")[2]
    return f"the store is incomplete, a {operation} into it was interrupted: run `{command}` again"
