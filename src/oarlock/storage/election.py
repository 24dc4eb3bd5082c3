"""`Election`: one of several processes on a store is the leader, by a lease that it renews.

    election = Election(backend, "/oarlock/leases/cleanup", clock)
    await election.run(clean_up)            # calls clean_up() while this process leads, again each time it does

The lease is the value of one key, taken and renewed by compare-and-swap: holderIdentity, leaseDurationSeconds,
acquireTime, renewTime and leaseTransitions, as in the spec of a coordination.k8s.io/v1 Lease.

- **Nobody trusts another's clock.** A candidate takes the lease when it hasn't seen it change for as long as the lease
  lasts, by its own monotonic clock. The times in the lease are for people.
- **The holder stops first.** It counts from before its last renewal was sent, and gives up after a part of the lease's
  time, also when the store doesn't answer. What it does is then cancelled.
- **A process that was stopped** and goes on later finds `leading` false before it has found out anything else. Between
  asking and doing, it may be stopped again: a write that must not come late compares revisions, as all writes here do.

Must not know: what leaders do. Source: client-go ``tools/leaderelection``, in behaviour.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import msgspec

from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.times import rfc3339_micro
from oarlock.storage.backend import KV, Backend, Rev, StorageError

__all__ = ["Election", "LeaseSpec", "LeaseTimes", "unique_identity"]

log = logging.getLogger("oarlock.storage.election")


@dataclass(frozen=True, slots=True)
class LeaseSpec:
    """The value of the key, in the JSON form of a Lease's spec. An empty holder has given it back."""

    holderIdentity: str = ""
    leaseDurationSeconds: int = 1
    acquireTime: str = ""
    renewTime: str = ""
    leaseTransitions: int = 0


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, when its holder gives up if it can't renew it, and how often all try. In seconds.

    The defaults are those of client-go. What is between `duration_s` and `renew_deadline_s` is the time that work has
    to end in when it is cancelled. Raises ValueError unless each is longer than the next.
    """

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_deadline_s > self.retry_s > 0:
            raise ValueError("a lease must last longer than its holder tries to renew it, and that than one try")


def unique_identity() -> str:
    """A name for this process that no other has, nor had."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class Election:
    """One candidate for the lease at `key`. `identity` must be no other candidate's."""

    def __init__(
        self,
        backend: Backend,
        key: str,
        clock: Clock,
        *,
        identity: str = "",
        times: LeaseTimes | None = None,
    ) -> None:
        self.identity = identity or unique_identity()
        self._backend = backend
        self._key = key
        self._clock = clock
        self._times = times or LeaseTimes()
        self._leads_until = 0.0
        self._lease = LeaseSpec()
        self._rev: Rev = -1
        """The revision of the key when it was last seen, -1 for never; since when it has been that."""
        self._seen_at = 0.0

    @property
    def leading(self) -> bool:
        """Whether this process leads now. Ask before each step that only the leader may take."""
        return self._clock.monotonic() < self._leads_until

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty if nobody."""
        return self._lease.holderIdentity

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Be a candidate until cancelled; call `lead` each time this process has become the leader.

        `lead` is cancelled when the lease can't be kept, and must end soon then: others wait no longer than the lease
        lasts. When it returns or raises by itself, the lease is given back and `run` does the same.
        """
        while True:
            await self._become_leader()
            log.info("%s: %s leads", self._key, self.identity)
            leading = asyncio.ensure_future(lead())
            by_itself = False
            try:
                by_itself = await self._keep(leading)
            finally:
                leading.cancel()
                await asyncio.wait((leading,))
                await self._give_back()
            if by_itself:
                return leading.result()
            if not leading.cancelled() and leading.exception() is not None:
                log.error("%s: what was cancelled failed", self._key, exc_info=leading.exception())
            log.warning("%s: %s doesn't lead any more", self._key, self.identity)

    async def _keep(self, leading: asyncio.Future[None]) -> bool:
        """Renew the lease until that fails, which cancels `leading`, or `leading` has ended. Returns whether it has."""
        while True:
            renewing = asyncio.ensure_future(self._renew_later())
            try:
                left_s = max(self._leads_until - self._clock.monotonic(), 0.0)
                await asyncio.wait((renewing, leading), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                if leading.done():
                    return True
                if not self.leading:
                    leading.cancel()
                    return False
            finally:
                renewing.cancel()
                await asyncio.wait((renewing,))

    async def _become_leader(self) -> None:
        while True:
            if await self._try():
                return
            await asyncio.sleep(self._times.retry_s)

    async def _renew_later(self) -> None:
        """Renew the lease once; ends without that when it is too late."""
        while True:
            await asyncio.sleep(self._times.retry_s)
            if await self._try() or not self.leading:
                return

    async def _try(self) -> bool:
        """Take or renew the lease, if it is free or this process's. Returns whether that was done."""
        begun = self._clock.monotonic()
        try:
            kv, _ = await self._backend.get(self._key)
            self._see(kv)
            if not self._may_take():
                return False
            wanted = self._wanted()
            expect = kv.mod_rev if kv is not None else 0
            result = await self._backend.put(self._key, msgspec.json.encode(wanted), expect=expect)
        except StorageError as error:
            # A write of unknown outcome is no lease: if it was done, the next try finds it and renews it.
            log.info("%s: %s", self._key, error)
            return False
        if not result.ok:
            self._see(result.current)
            return False
        self._lease, self._rev, self._seen_at = wanted, result.rev, self._clock.monotonic()
        self._leads_until = begun + self._times.renew_deadline_s
        return self.leading

    def _see(self, kv: KV | None) -> None:
        """Note what the lease is, and since when it has been that."""
        rev = kv.mod_rev if kv is not None else 0
        if rev == self._rev:
            return
        self._rev, self._seen_at = rev, self._clock.monotonic()
        try:
            self._lease = LeaseSpec() if kv is None else msgspec.json.decode(kv.value, type=LeaseSpec)
        except msgspec.DecodeError:
            self._lease = LeaseSpec(holderIdentity="?", leaseDurationSeconds=self._times.duration_s)
        if self._lease.holderIdentity != self.identity:
            self._leads_until = 0.0  # somebody else has taken it

    def _may_take(self) -> bool:
        if self.holder in ("", self.identity):
            return True
        return self._clock.monotonic() - self._seen_at >= max(self._lease.leaseDurationSeconds, self._times.duration_s)

    def _wanted(self) -> LeaseSpec:
        now = rfc3339_micro(self._clock.now())
        if self.holder == self.identity:
            return replace(self._lease, leaseDurationSeconds=self._times.duration_s, renewTime=now)
        transitions = self._lease.leaseTransitions + (1 if self._rev else 0)
        return LeaseSpec(self.identity, self._times.duration_s, now, now, transitions)

    async def _give_back(self) -> None:
        """Let others take the lease at once, if this process holds it."""
        if not self.leading:
            return
        self._leads_until = 0.0
        for _ in range(2):  # a renewal that was cancelled may have been done all the same
            free = replace(self._lease, holderIdentity="", leaseDurationSeconds=1)
            try:
                result = await self._backend.put(self._key, msgspec.json.encode(free), expect=self._rev)
            except StorageError:
                return  # others wait until it ends
            if result.ok:
                self._rev, self._lease = result.rev, free
                return
            self._see(result.current)
            if self.holder != self.identity:
                return
