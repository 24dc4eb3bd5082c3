"""Moves what was stored where oarlock had some of Kubernetes' resources before it had them where Kubernetes does.

Each object is moved by a transaction of its own, which deletes the former key and makes the new one. So it may be
killed at any moment, and several servers may do it at once. An object whose new key is taken stays, and is named.

See also: `keys`, which knows both places.
"""

from __future__ import annotations

import asyncio
import logging

from oarlock.storage.backend import StorageError
from oarlock.storage.etcd.client import EtcdClient, Rpcs
from oarlock.storage.etcd.keys import KeyMap, Span, after
from oarlock.storage.etcd.messages import EQUAL, MOD, Message, messages

__all__ = ["move_former_keys"]

PAGE = 5000
AT_ONCE = 20

_ENCRYPTED = b"k8s:enc:"

log = logging.getLogger("oarlock.storage.etcd")


async def move_former_keys(client: EtcdClient, keys: KeyMap) -> None:
    """Move every object at a former key. Raises `StorageError` when one is encrypted: it may be bound to its key."""
    moved = 0
    for span in keys.former():
        moved += await _move(client, keys, span)
    if moved:
        log.warning("%d objects were moved to the keys that kube-apiserver gives them", moved)


async def _move(client: EtcdClient, keys: KeyMap, span: Span) -> int:
    moved, start, more = 0, span.start, True
    while more:
        request = messages.RangeRequest(key=start, range_end=span.end, limit=PAGE, keys_only=True)
        answer = await client.read(Rpcs.RANGE, request)
        former = [(kv.key, place) for kv in answer.kvs if (place := keys.moved(kv.key)) is not None]
        for first in range(0, len(former), AT_ONCE):
            moved += sum(
                await asyncio.gather(*(_move_one(client, *moved_key) for moved_key in former[first : first + AT_ONCE]))
            )
        more = answer.more
        if more:
            start = after(answer.kvs[-1].key)
    return moved


async def _move_one(client: EtcdClient, key: bytes, place: bytes) -> bool:
    read = messages.RangeRequest(key=key)
    answer = await client.read(Rpcs.RANGE, read)
    if not answer.kvs:
        return False
    kv: Message = answer.kvs[0]
    former, now = key.decode(errors="replace"), place.decode(errors="replace")
    if kv.value.startswith(_ENCRYPTED):
        raise StorageError(
            f"{former} is encrypted, and would have to be moved to {now}, where it may not be readable: with the "
            "release that wrote it, put identity first in its encryption configuration, run `oarlock storage "
            "migrate`, and start this one then"
        )
    request = messages.TxnRequest(
        compare=[
            messages.Compare(result=EQUAL, target=MOD, key=key, mod_revision=kv.mod_revision),
            messages.Compare(result=EQUAL, target=MOD, key=place, mod_revision=0),
        ],
        success=[
            messages.RequestOp(request_put=messages.PutRequest(key=place, value=kv.value, lease=kv.lease)),
            messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key)),
        ],
    )
    if (await client.write(Rpcs.TXN, request)).succeeded:
        return True
    if (await client.read(Rpcs.RANGE, read)).kvs:
        log.error(
            "%s stays where it is and isn't served, since %s is there as well: delete the one that isn't wanted, then "
            "restart",
            *(former, now),
        )
    return False
