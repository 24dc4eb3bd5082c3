"""`KeyMap`: the keys of this program as keys of etcd, below the prefix of the URL.

    /registry/shop.example.com/orders/ns/a  →  <prefix>/shop.example.com/orders/ns/a     as kube-apiserver has them
    /registry//pods/ns/a                    →  <prefix>/pods/ns/a                         the core group
    /registry//nodes/a                      →  <prefix>/minions/a                         what Kubernetes renamed since
    /oarlock/definitions/…                  →  <prefix>/.oarlock/oarlock/definitions/…    anything else

A first part without a dot is a resource of the core group, unless it is one of Kubernetes' groups without a dot, or the
program has used it as a group: declared groups are domains. Ranges over several resources are in etcd's order.

No group or resource begins with a dot, so a kube-apiserver on the same prefix never looks there. Keys of this backend
itself begin with ``<prefix>/.oarlock-`` and are no keys of the program.

Where Kubernetes has a resource elsewhere, its plain place is nobody's: oarlock had objects there once (`former`), and a
key there is no key of the program.

See also: ``registry.keys``. Source: kube-apiserver's ``SpecialDefaultResourcePrefixes``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from oarlock.storage.backend import StorageError
from oarlock.storage.etcd.client import EtcdClient, Rpcs
from oarlock.storage.etcd.messages import EQUAL, MOD, Message, messages

__all__ = ["KeyMap", "Span", "after", "move_former_keys"]

_OBJECTS, _AFTER_OBJECTS = "/registry/", "/registry0"
_CORE = "/registry//"
_GROUPS = (b"apps", b"autoscaling", b"batch", b"extensions", b"policy")
MOST_GROUPS = 1000

_PLACES = {
    "endpoints": b"services/endpoints",
    "ingresses": b"ingress",
    "nodes": b"minions",
    "replicationcontrollers": b"controllers",
    "services": b"services/specs",
}
"""Where Kubernetes has resources whose place doesn't have their name."""

_FORMER = frozenset(name.encode() for name in _PLACES)
_RESOURCES = {place: name for name, place in _PLACES.items()}
_CORE_SIZE = len(_CORE)


class Span(NamedTuple):
    """A range of etcd's keys: ``start <= key < end``."""

    start: bytes
    end: bytes


class KeyMap:
    """Both directions. Keys of others that aren't UTF-8 keep their bytes."""

    def __init__(self, prefix: str) -> None:
        root = prefix.encode()
        self._root = root + b"/"
        self._other = root + b"/.oarlock"
        self._groups = set(_GROUPS)
        self._objects_start = root + b"/.oarlock\x7f"
        self.all = Span(root + b"/", root + b"0")
        self.epoch = root + b"/.oarlock-epoch"
        self.marker = root + b"/.oarlock-marker"

    def encode(self, key: str) -> bytes:
        """The key in etcd."""
        if key.startswith(_CORE):
            resource, of_it, where = key[_CORE_SIZE:].partition("/")
            place = _PLACES.get(resource) if of_it else None
            if place is not None:
                return b"%b%b/%b" % (self._root, place, where.encode(errors="surrogateescape"))
            if not of_it and resource.endswith("0") and resource[:-1] in _PLACES:  # where the range of a resource ends
                return self._root + _PLACES[resource[:-1]] + b"0"
            return self._root + key[_CORE_SIZE:].encode(errors="surrogateescape")
        if key.startswith(_OBJECTS):
            name = key[len(_OBJECTS) :].encode(errors="surrogateescape")
            group, slash, _ = name.partition(b"/")
            if slash and b"." not in group and len(self._groups) < MOST_GROUPS:
                self._groups.add(group)
            return self._root + name
        return self._other + key.encode(errors="surrogateescape")

    def decode(self, key: bytes) -> str | None:
        """The key of the program; None for one that isn't: this backend's, or a former one."""
        if not key.startswith(self._other):
            name = key[len(self._root) :]
            first, _, rest = name.partition(b"/")
            if first == b"services":
                second, _, rest = rest.partition(b"/")
                first += b"/" + second
            if first in _RESOURCES:
                # A name follows, and in a namespace two: fewer is a former key in a namespace of that name.
                if first.startswith(b"services/") and b"/" not in rest:
                    return None
                return f"{_CORE}{_RESOURCES[first]}/{rest.decode(errors='surrogateescape')}"
            if first in _FORMER or first.startswith(b"services/"):
                return None
            root = _OBJECTS if b"." in first or first in self._groups else _CORE
            return root + name.decode(errors="surrogateescape")
        if key[len(self._other) : len(self._other) + 1] == b"/":
            return key[len(self._other) :].decode(errors="surrogateescape")
        return None

    def spans(self, start: str, end: str) -> list[Span]:
        """The ranges of etcd's keys for a range of the program's, in order."""
        found = []
        for low, high in (("/", _OBJECTS), (_OBJECTS, _AFTER_OBJECTS), (_AFTER_OBJECTS, "0")):
            first, last = max(start, low), min(end, high)
            if first < last:
                found.append(self._span(first, last))
        return [span for span in found if span.start < span.end]

    def _span(self, first: str, last: str) -> Span:
        start = max(self.encode(first), self._objects_start) if first.startswith(_OBJECTS) else self.encode(first)
        if first.startswith(_OBJECTS):
            return Span(start, self.all.end if last == _AFTER_OBJECTS else self.encode(last))
        return Span(start, self._other + last.encode(errors="surrogateescape"))

    def former(self) -> list[Span]:
        """Where objects were that now are elsewhere. There are others, too: `moved` tells."""
        return [Span(self._root + name + b"/", self._root + name + b"0") for name in sorted(_FORMER)]

    def moved(self, key: bytes) -> bytes | None:
        """Where the object is now that was at `key`; None if `key` isn't a former one."""
        if self.decode(key) is not None:
            return None
        resource, _, rest = key[len(self._root) :].partition(b"/")
        if resource not in _FORMER or not rest:
            return None
        return self._root + _PLACES[resource.decode()] + b"/" + rest


def after(key: bytes) -> bytes:
    """The next possible key."""
    return key + b"\0"


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
