"""Compaction as kube-apiserver does it, so that servers of both kinds on one etcd take turns.

Who writes ``compact_rev_key`` first, comparing its version, compacts to the revision that it wrote there. etcd doesn't
tell up to where it is compacted; it is found by reading at revisions: at once while nobody else compacts.

See also: ``storage.compactor``, which does it every few minutes.
"""

from __future__ import annotations

from oarlock.storage.backend import Compacted, FutureRevision, Rev, StorageError, Unavailable
from oarlock.storage.etcd.client import COMPACTED, FUTURE, EtcdClient, NoSpace, Rpcs
from oarlock.storage.etcd.messages import EQUAL, VERSION, Message, messages

__all__ = ["KEY", "Compaction"]

KEY = b"compact_rev_key"
"""kube-apiserver's; it is outside of every prefix."""
ATTEMPTS = 10


class Compaction:
    """`probe` is a key that is read to find out whether a revision is there."""

    def __init__(self, client: EtcdClient, probe: bytes) -> None:
        self._client = client
        self._probe = probe
        self._known: Rev = 0

    async def compact(self, rev: Rev) -> None:
        """As `Backend.compact`."""
        for _ in range(ATTEMPTS):
            kv, current = await self._read_key()
            if rev > current:
                raise FutureRevision(current)
            compacted = await self.rev()
            if rev <= compacted:
                raise Compacted(compacted, current)
            if await self._claim(kv, rev):
                await self.run(rev)
                return
        raise Unavailable("others compact the store all the time")

    async def run(self, rev: Rev) -> None:
        """Compact without asking the others."""
        try:
            await self._client.read(Rpcs.COMPACT, messages.CompactionRequest(revision=rev))
        except StorageError as error:
            if COMPACTED not in str(error):
                raise

    async def rev(self) -> Rev:
        """The revision up to which history is compacted, 0 if it never was."""
        if await self._is_there(max(self._known, 1)):
            return self._known
        kv, high = await self._read_key()
        low = max(self._known, 1)  # compacted above this, at most up to `high`
        claimed = _revision(kv)
        for guess in (claimed, claimed - 1):
            if low < guess < high:
                if await self._is_there(guess):
                    high = guess
                else:
                    low = guess
        while high - low > 1:
            middle = (low + high) // 2
            if await self._is_there(middle):
                high = middle
            else:
                low = middle
        self._known = high
        return high

    def restart(self) -> None:
        """The store is another one: nothing is known of it."""
        self._known = 0

    async def _is_there(self, rev: Rev) -> bool:
        try:
            await self._client.read(
                Rpcs.RANGE, messages.RangeRequest(key=self._probe, revision=rev, keys_only=True, limit=1)
            )
        except StorageError as error:
            if COMPACTED in str(error):
                return False
            if FUTURE in str(error):  # restored since: then at least it isn't compacted up to there
                self.restart()
                return True
            raise
        return True

    async def _read_key(self) -> tuple[Message | None, Rev]:
        answer = await self._client.read(Rpcs.RANGE, messages.RangeRequest(key=KEY))
        return (answer.kvs[0] if answer.kvs else None), answer.header.revision

    async def _claim(self, kv: Message | None, rev: Rev) -> bool:
        """Write the key. With the NOSPACE alarm nothing can be written, and compacting is what helps."""
        compare = messages.Compare(result=EQUAL, target=VERSION, key=KEY, version=kv.version if kv else 0)
        put = messages.RequestOp(request_put=messages.PutRequest(key=KEY, value=b"%d" % rev))
        request = messages.TxnRequest(compare=[compare], success=[put])
        try:
            return bool((await self._client.write(Rpcs.TXN, request)).succeeded)
        except NoSpace:
            return True


def _revision(kv: Message | None) -> Rev:
    try:
        return int(kv.value) if kv is not None else 0
    except ValueError:
        return 0
