"""`Epochs`: which history of the store this is, and whether it went back.

The epoch is etcd's cluster id and a random value under a key of the backend's own. The first server writes the value;
it is written anew to begin another epoch, which a server also does when it sees that the store's revision went back:
then etcd was restored from a snapshot.

After a space the value says by how much revisions are raised (`raising`), if they are.

See also: `feed`, whose watches end with the epoch.
"""

from __future__ import annotations

import logging
import secrets
from bisect import bisect_right
from typing import NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import EPOCH_GAP, Rev, Unavailable
from oarlock.storage.etcd.client import EtcdClient, Rpcs
from oarlock.storage.etcd.keys import KeyMap
from oarlock.storage.etcd.messages import EQUAL, MOD, Message, messages

__all__ = ["NEVER", "Epochs", "Raising", "StoreState"]

NEVER: Rev = -1
"""No key of etcd has this revision."""

MOST_EPOCHS = 256
"""How many epochs are told apart, so that the text is at most 11 KiB. Of older ones, revisions change."""


@dataclass(frozen=True, slots=True)
class Raising:
    """`starts` are etcd's revisions in rising order, and `by` what revisions from there on are raised by."""

    starts: tuple[Rev, ...] = ()
    by: tuple[Rev, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def first(self) -> Rev:
        """The first raised revision of this epoch; 0 if nothing is raised."""
        return self.starts[-1] + self.by[-1] if self.starts else 0

    def raised(self, rev: Rev) -> Rev:
        """etcd's revision as it is given out."""
        index = bisect_right(self.starts, rev)
        return rev + self.by[index - 1] if index else rev

    def lowered(self, rev: Rev) -> Rev:
        """etcd's revision for one that was given out; `NEVER` for one that never was."""
        for index in range(len(self.starts), 0, -1):
            low = rev - self.by[index - 1]
            if low >= self.starts[index - 1]:
                return NEVER if index < len(self.starts) and low >= self.starts[index] else low
        return rev if not self.starts or rev < self.starts[0] else NEVER

    def text(self) -> str:
        """What `parse` reads."""
        return ",".join(f"{start}+{by}" for start, by in zip(self.starts, self.by, strict=True))

    @classmethod
    def parse(cls, text: str, start: Rev) -> Raising:
        """The epochs in `text`; that without a start begins at `start`. Whatever isn't understood is left out."""
        epochs: list[tuple[Rev, Rev]] = []
        for part in text.split(","):
            begin, _, by = part.partition("+")
            if by.isascii() and by.isdigit() and (not begin or (begin.isascii() and begin.isdigit())):
                epochs.append((int(begin) if begin else start, int(by)))
        epochs.sort()
        return cls(tuple(begin for begin, _ in epochs), tuple(by for _, by in epochs))

    def next(self, by: Rev) -> str:
        """The text for another epoch, which raises by `by` from the revision on at which it is written."""
        kept = Raising(self.starts[-MOST_EPOCHS:], self.by[-MOST_EPOCHS:])
        return ",".join(filter(None, (kept.text(), f"+{by}")))


ATTEMPTS = 10

log = logging.getLogger("oarlock.storage.etcd")


class StoreState(NamedTuple):
    """The epoch of the store, and its revision."""

    epoch: str
    rev: Rev


class Epochs:
    """`current` is the epoch as of the last look, `raising` how its revisions are raised."""

    def __init__(self, client: EtcdClient, keys: KeyMap) -> None:
        self._client = client
        self._key = keys.epoch
        self._read = messages.RangeRequest(key=keys.epoch)
        self._highest: Rev = 0
        self.current = ""
        self.raising = Raising()

    async def look(self, *, create: bool = True) -> StoreState:
        """The state now, linearizable. Writes an epoch if there is none, or if the revision went back."""
        for _ in range(ATTEMPTS):
            reached = self._highest
            answer = await self._client.read(Rpcs.RANGE, self._read)
            kv = answer.kvs[0] if answer.kvs else None
            if answer.header.revision < reached:
                log.error("etcd went back from revision %d to %d: it was restored", reached, answer.header.revision)
                self._highest = answer.header.revision
                await self._write(kv, self._above(answer, self.raising.raised(reached)))
            elif kv is not None or not create:
                self.saw(answer.header.revision)
                self.adopt(kv)
                self.current = f"{answer.header.cluster_id:x}-{kv.value.decode(errors='replace') if kv else ''}"
                return StoreState(self.current, answer.header.revision)
            else:
                await self._write(None, "")
        raise Unavailable("the epoch of the store can't be established: others change it all the time")

    def saw(self, rev: Rev) -> None:
        """Note that the store has reached `rev`."""
        if rev > self._highest:
            self._highest = rev

    def adopt(self, kv: Message | None) -> None:
        """Raise revisions as the epoch's key says."""
        self.raising = _raising(kv)

    async def _write(self, before: Message | None, raising: str) -> Rev | None:
        """Write another value if the key still is `before`; the revision of this, None if it isn't."""
        value = f"{secrets.token_hex(8)} {raising}".rstrip()
        compared = before.mod_revision if before else 0
        request = messages.TxnRequest(
            compare=[messages.Compare(result=EQUAL, target=MOD, key=self._key, mod_revision=compared)],
            success=[messages.RequestOp(request_put=messages.PutRequest(key=self._key, value=value.encode()))],
        )
        answer = await self._client.write(Rpcs.TXN, request)
        return answer.header.revision if answer.succeeded else None

    def _above(self, answer: Message, above: Rev) -> str:
        """How revisions are to be raised so that those of a new epoch are above `above` and all before."""
        raising = _raising(answer.kvs[0] if answer.kvs else None)
        reached = max(above, raising.raised(answer.header.revision))
        return raising.next(reached + EPOCH_GAP - answer.header.revision)

    async def renew(self, above: Rev) -> Rev:
        """Begin another epoch, with raised revisions above `above` and all before; returns etcd's revision of it."""
        for _ in range(ATTEMPTS):
            answer = await self._client.read(Rpcs.RANGE, self._read)
            rev = await self._write(answer.kvs[0] if answer.kvs else None, self._above(answer, above))
            if rev is not None:
                await self.look()
                return rev
        raise Unavailable("another epoch can't be begun: others change it all the time")


def _raising(kv: Message | None) -> Raising:
    """What the epoch's key says. Whoever wrote it didn't know the revision of that write: it is the key's."""
    return (
        Raising() if kv is None else Raising.parse(kv.value.decode(errors="replace").partition(" ")[2], kv.mod_revision)
    )
