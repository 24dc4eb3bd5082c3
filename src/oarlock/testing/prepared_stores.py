"""`prepare`: puts into a new store in memory what the first start of a server makes in every new store.

A control plane makes some two hundred objects, which are the same each time. Before the second start of such a server
in a process, its `Prototype` is run once, and from then on new stores begin with copies: with uids of their own, with
the time of their own clock, with revisions from the beginning. The server then finds them as after a restart. What says
who runs where (leases, addresses, accounts) isn't copied: each start makes it.
Must not know: which objects a server makes.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple
from uuid import uuid4

from oarlock.client.clock import TimerClock
from oarlock.codec import json
from oarlock.meta.times import rfc3339
from oarlock.server.app import APIServer, Prototype
from oarlock.server.assembly.parts import ServerParts
from oarlock.server.assembly.run import Running
from oarlock.server.config import ServerConfig
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock

__all__ = ["NoListener", "prepare"]

log = logging.getLogger("oarlock.testing")

MOST_KEPT = 8
"""How many prototypes' objects are kept, those that were used last."""

OWN = frozenset(
    {"configmaps", "endpoints", "endpointslices", "events", "ipaddresses", "leases", "secrets", "serviceaccounts"}
    | {"services"}
)
"""Resources whose objects say who runs where."""

MADE_S = 981_173_106.0
MADE = rfc3339(MADE_S).encode()
"""The time at which prototypes run: nothing else has it, so that it can be found in what they make."""

MOST_ROUNDS = 50
_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class _PreparedObject(NamedTuple):
    """An object to copy."""

    key: str
    value: bytes
    uid: bytes


_starts: Counter[Hashable] = Counter()
_kept: OrderedDict[Hashable, Sequence[_PreparedObject]] = OrderedDict()


async def prepare(server: APIServer, config: ServerConfig, backend: MemoryBackend, clock: TimerClock) -> None:
    """Fill `backend`, which is new, if that saves the server's start any work.

    Where it is audited what is made, or encrypted, the server makes it all itself.
    """
    prototype = server.prototype()
    if prototype is None or config.audit_policy_file is not None or config.encryption_provider_config is not None:
        return
    _starts[prototype.key] += 1
    if _starts[prototype.key] < 2:
        return
    if prototype.key not in _kept:
        try:
            _kept[prototype.key] = await _made_by(prototype, config)
        except Exception:
            log.info("nothing is prepared: each start makes everything", exc_info=True)
            _kept[prototype.key] = ()
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(prototype.key)
    now = rfc3339(clock.now()).encode()
    for key, value, uid in _kept[prototype.key]:
        own = value.replace(uid, str(uuid4()).encode()) if uid else value
        await backend.put(key, own.replace(MADE, now), expect=0)


class NoListener:
    """In the place of a listener; nothing to close."""

    port = 0

    def stop_accepting(self) -> None:
        return None

    async def drain(self, timeout_s: float) -> int:
        return 0

    async def close(self) -> None:
        return None


async def _made_by(prototype: Prototype, config: ServerConfig) -> Sequence[_PreparedObject]:
    clock = VirtualClock(MADE_S)
    backend = MemoryBackend(clock)
    parts = ServerParts(prototype.make(), config, backend, clock)
    running = Running(parts, NoListener(), "https://127.0.0.1:6443")
    try:
        await running.load()
        for _ in range(MOST_ROUNDS):
            rev = backend.known_rev()
            await clock.run(0)
            if backend.known_rev() == rev:
                break
        found = (await backend.list("/", "0")).kvs
    finally:
        await running.close()
    return [kept for kv in found if (kept := _copied(kv.key, kv.value)) is not None]


def _copied(key: str, value: bytes) -> _PreparedObject | None:
    """What is kept of an object; None if it isn't to be copied."""
    parts = key.split("/")
    if parts[1] != "registry":
        return _PreparedObject(key, value, b"")
    uid = json.decode(value)["metadata"]["uid"].encode()
    others = set(_UID.findall(value)) - {uid}
    return None if parts[3] in OWN or others else _PreparedObject(key, value, uid)
