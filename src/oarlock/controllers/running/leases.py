"""`LeaseElection`: one of several processes is the leader, by a Lease of the API that it renews.

    election = LeaseElection(client, LeaderElection("kube-system/databases"), clock)
    await election.run(work)            # calls work() while this process leads, again each time it does

It is that of client-go: the same Lease (coordination.k8s.io/v1), the same times, so that programs in Go and in Python
can be candidates for one lease. Its rules:

- **No clock of another machine is trusted.** A candidate takes the lease when it hasn't seen it change for as long as
  the lease lasts, by its own monotonic clock. The times in the lease are for people.
- **The holder stops first.** It counts from before its last renewal was sent, and gives up after a part of the lease's
  time, also when the server doesn't answer. What it does is then cancelled, and its `Fence` lets no write pass.
- **A process that was stopped writes nothing.** One that is stopped (SIGSTOP, a swapped-out machine, a suspended
  laptop) and goes on later finds its clock far ahead: what it wanted to write is refused before it is sent. The
  monotonic clock and the wall clock are both read: of a suspended machine only the latter goes on.

A request that was sent just before the process was stopped can't be held back: it has the time between the deadline for
renewing the lease and its end.
Must not know: what leaders do. Source: client-go ``tools/leaderelection``, in behaviour.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from oarlock.client.client import Client
from oarlock.client.clock import TimerClock
from oarlock.client.informers.observers import Observers
from oarlock.client.keywords import RetryPolicy
from oarlock.client.kinds import ResourceRef
from oarlock.client.objects import ListQuery
from oarlock.client.transport import ClientConnection, ClientRequest, ClientResponse, Transport, TransportError
from oarlock.controllers.keys import check_lease_name
from oarlock.meta.context import Clock
from oarlock.meta.dataclass import dataclass
from oarlock.meta.errors import AlreadyExists, Conflict, NotFound, StatusError
from oarlock.meta.json_trees import Tree
from oarlock.meta.times import rfc3339_micro

_READS = frozenset(("GET", "HEAD"))


class LeaderLost(RuntimeError):
    """This process isn't the leader any more, or can't be sure that it is. So it may not write."""


class WriteFence(Protocol):
    """What says whether a write may be sent now."""

    def check(self) -> float:
        """How long a write may take that is sent now, in seconds. Raises LeaderLost."""
        ...


class Fence:
    """Open while this process leads. Closed at first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = 0.0
        self._until_epoch_s = 0.0
        self._ends_s = 0.0

    def open(self, begun_s: float, begun_epoch_s: float, *, act_s: float, lease_s: float) -> None:
        """Let writes pass for `act_s` after a renewal that was begun at these times; the lease lasts for `lease_s`."""
        self._until_s = begun_s + act_s
        self._until_epoch_s = begun_epoch_s + act_s
        self._ends_s = begun_s + lease_s

    def close(self) -> None:
        """Let nothing pass."""
        self._until_s = 0.0

    @property
    def left_s(self) -> float:
        """How long writes pass yet; 0 when they don't."""
        left_s = min(self._until_s - self._clock.monotonic(), self._until_epoch_s - self._clock.now())
        return max(0.0, left_s)

    @property
    def is_open(self) -> bool:
        return self.left_s > 0.0

    def check(self) -> float:
        """How long a write may take that is sent now, in seconds. Raises LeaderLost."""
        if not self.is_open:
            raise LeaderLost("this process doesn't lead any more, so that nothing is written")
        return self._ends_s - self._clock.monotonic()


class FencedTransport:
    """A `Transport` that sends writes only while `fence` is open; they wait for an answer no longer than the lease."""

    def __init__(self, transport: Transport, fence: WriteFence) -> None:
        self._transport = transport
        self._fence = fence

    async def send(self, request: ClientRequest) -> ClientResponse:
        if request.method not in _READS:
            left_s = self._fence.check()
            timeout_s = left_s if request.timeout_s is None else min(request.timeout_s, left_s)
            request = replace(request, timeout_s=timeout_s)
        return await self._transport.send(request)

    async def connect(self, request: ClientRequest, protocols: Sequence[str]) -> ClientConnection | ClientResponse:
        self._fence.check()
        return await self._transport.connect(request, protocols)

    async def close(self) -> None:
        await self._transport.close()

    def served_now(self) -> object:
        """See ``client.kinds.CatalogTransport``."""
        transport: Any = self._transport
        return transport.served_now() if hasattr(transport, "served_now") else None

    def cached_objects(self, ref: ResourceRef, namespace: str, query: ListQuery, observers: Observers[Any]) -> Any:
        """See ``client.informers.informer.CacheTransport``."""
        transport: Any = self._transport
        if not hasattr(transport, "cached_objects"):
            return None
        return transport.cached_objects(ref, namespace, query, observers)

    def cached_bytes(self, ref: ResourceRef, observers: Observers[Any], read: Callable[[bytes], Any]) -> Any:
        """See ``client.informers.informer.CacheTransport``."""
        transport: Any = self._transport
        return transport.cached_bytes(ref, observers, read) if hasattr(transport, "cached_bytes") else None


log = logging.getLogger("oarlock.controllers.election")
NO_LEASES = "the server has no Leases: it has to serve coordination.k8s.io/v1"

JITTER = 1.2
"""By how much a candidate's pauses vary, so that not all try together. client-go's."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The durations of a leader election, in seconds. The defaults are those of client-go.

    - `duration_s`: how long others wait before they take a lease that isn't renewed.
    - `renew_deadline_s`: how long the holder tries to renew the lease before it gives up. Cancelled work has the
      difference to `duration_s` to end.
    - `retry_s`: the delay between two attempts. Raises ValueError unless each is longer than the next.
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


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """The lease to hold, as ``namespace/name``. `identity` is the name of this process, by default a unique one.

    Raises ValueError for an invalid name of a lease.
    """

    lease: str
    identity: str = field(default_factory=unique_identity)
    times: LeaseTimes = field(default_factory=LeaseTimes)

    def __post_init__(self) -> None:
        check_lease_name(self.lease)


class LeaseElection:
    """One candidate of a leader election. `tell` is called with a line of text when the leader changes."""

    def __init__(
        self, client: Client, election: LeaderElection, clock: TimerClock, tell: Callable[[str], object] = log.info
    ) -> None:
        times = election.times
        self.fence = Fence(clock)
        self.identity = election.identity
        self._client = client.using(timeout_s=times.renew_deadline_s / 2, retries=RetryPolicy(retries=0))
        self._lease = election.lease
        self._times = times
        self._clock = clock
        self._report = tell
        namespace, _, self._name = election.lease.partition("/")
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._observed: Tree | None = None
        """The spec of the lease when it was last seen; None before that."""
        self._observed_at = 0.0
        self._problem = ""
        self.hopeless = ""
        """Why this process can't lead whatever others do, as far as is known."""
        self._given_up = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this process leads now."""
        return self.fence.is_open

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read; empty if it had none."""
        return _text(self._observed, "holderIdentity")

    async def given_up(self) -> None:
        """Wait until there is a `hopeless` reason."""
        await self._given_up.wait()

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Be a candidate until cancelled; call `lead` each time this process has become the leader.

        `lead` is cancelled when the lease can't be kept; this process isn't a candidate again before it has ended. When
        `run` is cancelled, so is `lead`, and the lease is renewed until it has ended and then given back.
        """
        while True:
            await self._become_leader()
            leading = asyncio.ensure_future(lead())
            try:
                await self._keep(leading)
            except asyncio.CancelledError:
                await self._end(leading)
                raise
            if leading.done():
                await self._give_back()
                return leading.result()
            self.fence.close()
            self._report(f"{self.identity} doesn't lead any more")
            leading.cancel()
            try:
                await asyncio.wait((leading,))
            finally:
                leading.cancel()  # it may wait for what goes on although it was cancelled
            if not leading.cancelled() and leading.exception() is not None:
                log.error("%s: what was cancelled failed", self._lease, exc_info=leading.exception())

    async def _end(self, leading: asyncio.Future[None]) -> None:
        """Cancel the leader's work, keep the lease while it ends, and give it back."""
        leading.cancel()
        renewing = asyncio.ensure_future(self._keep(leading))
        try:
            await asyncio.wait((leading,))
        finally:
            renewing.cancel()
            await asyncio.wait((renewing,))
            await self._give_back()

    async def _become_leader(self) -> None:
        while not await self._try():
            await self._clock.sleep(self._times.retry_s * random.uniform(1.0, JITTER))
        self._report(f"{self.identity} leads: it holds the lease {self._lease}")

    async def _keep(self, leading: asyncio.Future[None]) -> None:
        """Renew the lease until that can't be done in time, or `leading` has ended."""
        renewing = asyncio.ensure_future(self._renew())
        try:
            while self.leading and not leading.done():
                ending = asyncio.ensure_future(self._clock.sleep(self.fence.left_s))
                try:
                    await asyncio.wait((ending, leading, renewing), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ending.cancel()
                if renewing.done():
                    return
        finally:
            renewing.cancel()
            await asyncio.wait((renewing,))

    async def _renew(self) -> None:
        """Renew the lease again and again; returns when that is too late, or another has had it."""
        while self.leading:
            await self._clock.sleep(self._times.retry_s)
            if self.leading:
                await self._try(renewal=True)

    async def _try(self, *, renewal: bool = False) -> bool:
        """Take the lease if it is free or this process's; with `renewal` only if it still is this process's.

        Returns whether that was done.
        """
        begun, begun_epoch = self._clock.monotonic(), self._clock.now()
        try:
            spec = await self._write(renewal)
        except (StatusError, TransportError) as error:
            # A write of unknown outcome is no lease: if it was done, the next try finds it and renews it.
            self._tell_problem(error)
            return False
        self._problem = ""
        if spec is None:
            return False
        self._observed, self._observed_at = spec, self._clock.monotonic()
        act_s, lease_s = self._times.renew_deadline_s, self._times.duration_s
        self.fence.open(begun, begun_epoch, act_s=act_s, lease_s=lease_s)
        return self.leading

    def _tell_problem(self, error: Exception) -> None:
        """Tell why the lease can't be had, once for each reason."""
        text = error.message if isinstance(error, StatusError) else str(error)
        if isinstance(error, NotFound) and not error.details:
            text = NO_LEASES
            self.hopeless = text
            self._given_up.set()
        if isinstance(error, Conflict | AlreadyExists):
            log.info("%s: another was faster: %s", self._lease, text)
        elif text != self._problem:
            self._problem = text
            problem = f"the lease {self._lease} can't be written: {text}"
            if self.hopeless:
                log.error("%s", problem)
            self._report(problem)

    async def _write(self, renewal: bool) -> Tree | None:
        """Read the lease, and write it as this process's if it may have it. The spec that was written."""
        path = f"{self._collection}/{self._name}"
        try:
            tree = await self._client.request("GET", path)
        except NotFound:
            self._observe({})
            if renewal:
                return None
            spec = self._wanted()
            head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            return _spec_of(await self._client.request("POST", self._collection, {**head, "spec": spec}))
        self._observe(_spec_of(tree))
        if not self._may_take() or (renewal and self.holder != self.identity):
            return None
        return _spec_of(await self._client.request("PUT", path, {**tree, "spec": self._wanted()}))

    def _observe(self, spec: Tree) -> None:
        """Note what the lease is, and since when it has been that."""
        if spec != self._observed:
            before = self.holder
            self._observed, self._observed_at = spec, self._clock.monotonic()
            if self.holder not in ("", self.identity) and self.holder != before:
                log.info("%s: %s leads", self._lease, self.holder)
        if self.holder != self.identity:
            self.fence.close()  # somebody else has taken it

    def _may_take(self) -> bool:
        if self.holder in ("", self.identity):
            return True
        lasts_s = max(_number(self._observed, "leaseDurationSeconds"), self._times.duration_s)
        return self._clock.monotonic() - self._observed_at >= lasts_s

    def _wanted(self) -> Tree:
        """The spec with which this process holds the lease."""
        now = rfc3339_micro(self._clock.now())
        seen = self._observed or {}
        spec = {**seen, "leaseDurationSeconds": self._times.duration_s, "renewTime": now}
        if self.holder != self.identity:
            transitions = _number(seen, "leaseTransitions") + (1 if seen else 0)
            spec |= {"holderIdentity": self.identity, "acquireTime": now, "leaseTransitions": transitions}
        return spec

    async def _give_back(self) -> None:
        """Let others take the lease at once, if this process holds it."""
        if not self.leading:
            return
        self.fence.close()
        try:
            await self._free()
        except Conflict:  # a renewal that was cancelled was done all the same
            try:
                await self._free()
            except (StatusError, TransportError) as error:
                self._tell_kept(error)
        except (StatusError, TransportError) as error:
            self._tell_kept(error)

    def _tell_kept(self, error: Exception) -> None:
        log.info("%s can't be given back, others wait until it ends: %s", self._lease, error)

    async def _free(self) -> None:
        path = f"{self._collection}/{self._name}"
        tree = await self._client.request("GET", path)
        if _text(_spec_of(tree), "holderIdentity") != self.identity:
            return
        now = rfc3339_micro(self._clock.now())
        free = {"leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        kept = {name: value for name, value in _spec_of(tree).items() if name != "holderIdentity"}
        await self._client.request("PUT", path, {**tree, "spec": {**kept, **free}})


def _spec_of(tree: Tree) -> Tree:
    spec = tree.get("spec")
    return spec if isinstance(spec, dict) else {}


def _text(spec: Tree | None, name: str) -> str:
    value = (spec or {}).get(name)
    return value if isinstance(value, str) else ""


def _number(spec: Tree | None, name: str) -> int:
    value = (spec or {}).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
