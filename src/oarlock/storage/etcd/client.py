"""`EtcdClient`: calls to the members of a cluster, with failover, deadlines and authentication.

A call goes to the members in turn, past those that didn't answer lately. What certainly wasn't done is tried at the
next member until the deadline; for a write that may have been done the caller gets `OutcomeUnknown`. Every call asks
the member whether it knows a leader, so one that is cut off from the others says so at once.

Must not know: keys, revisions. See also: `replay`.
"""

from __future__ import annotations

import asyncio
import ssl
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from oarlock.meta.dataclass import dataclass
from oarlock.net.futures import shared
from oarlock.net.trust import trusting
from oarlock.storage.backend import OutcomeUnknown, StorageError, Unavailable
from oarlock.storage.etcd.address import EtcdAddress
from oarlock.storage.etcd.messages import Message, messages
from oarlock.storage.grpc.calls import CallMetadata, GrpcCode, GrpcError
from oarlock.storage.grpc.channel import GrpcChannel, GrpcTarget
from oarlock.storage.passwords import without_password

__all__ = [
    "COMPACTED",
    "FUTURE",
    "LARGER_THAN_MAX",
    "LEASE_GONE",
    "NO_SPACE_ADVICE",
    "NO_SPACE_RETRY_S",
    "TOO_LARGE",
    "Endpoint",
    "EtcdClient",
    "EtcdDeadlines",
    "Meaning",
    "NoSpace",
    "Rpc",
    "Rpcs",
    "as_storage_error",
    "meaning_of",
]

COMPACTED: Final = "required revision has been compacted"
FUTURE: Final = "required revision is a future revision"
LEASE_GONE: Final = "requested lease not found"
TOO_LARGE: Final = "request is too large"
LARGER_THAN_MAX: Final = "message larger than max"
"""Of gRPC: on the side that receives."""
NO_SPACE: Final = "database space exceeded"
NO_SPACE_RETRY_S: Final = 10.0
NO_SPACE_ADVICE: Final = (
    "etcd has the alarm NOSPACE, its space is used up: compact, `etcdctl defrag` and `etcdctl alarm disarm`"
)


class NoSpace(OutcomeUnknown):
    """The alarm NOSPACE. The write that raises it is executed all the same; later ones aren't."""

    def __init__(self) -> None:
        super().__init__(NO_SPACE_ADVICE, NO_SPACE_RETRY_S)


class Meaning(Enum):
    """What may be done after a call has failed."""

    NOT_DONE = "another member may do it"
    TOKEN = "the token is of no use any more"
    UNKNOWN = "it may have been done, or may still be"
    REFUSED = "it was not done, and no member will do it"


_TOKEN_TEXTS = (
    "user name is empty",
    "invalid auth token",
    "revision of auth store is old",
    "revision in header is old",
)
_NOT_DONE_TEXTS = (
    "no leader",
    "not supported for learner",
    "too many requests",
    "not capable",
)


def meaning_of(error: GrpcError) -> Meaning:
    """What `error` says of the call."""
    if error.unsent:
        return Meaning.NOT_DONE
    text, code = error.details.lower(), error.code
    if any(phrase in text for phrase in _TOKEN_TEXTS):
        return Meaning.TOKEN
    if code in _TRANSIENT or any(phrase in text for phrase in ("too many requests", "not capable")):
        return Meaning.NOT_DONE if any(phrase in text for phrase in _NOT_DONE_TEXTS) else Meaning.UNKNOWN
    return Meaning.REFUSED


_TRANSIENT: Final = frozenset(
    {
        GrpcCode.UNAVAILABLE,
        GrpcCode.DEADLINE_EXCEEDED,
        GrpcCode.CANCELLED,
        GrpcCode.UNKNOWN,
        GrpcCode.INTERNAL,
        GrpcCode.ABORTED,
    }
)


def as_storage_error(error: GrpcError, host: str, *, write: bool) -> StorageError:
    """The error for the caller of a backend."""
    meaning, text = meaning_of(error), error.details or error.code.name
    if NO_SPACE in text:
        return NoSpace() if write else Unavailable(NO_SPACE_ADVICE, NO_SPACE_RETRY_S)
    if "permission denied" in text:
        return StorageError(f"etcd at {host} refuses the user: permission denied")
    if "user name is empty" in text:
        return StorageError(
            f"etcd at {host} requires a user: write user and password into the URL, or set a client certificate"
        )
    if "authentication failed" in text:
        return StorageError(f"etcd at {host} refuses the user: name or password is wrong")
    why = f"etcd at {host}: {_short(text)}"
    if write and meaning is Meaning.UNKNOWN:
        return OutcomeUnknown(why)
    return StorageError(why) if meaning is Meaning.REFUSED else Unavailable(why)


def _short(text: str) -> str:
    """One line, without what gRPC repeats; in particular the reason why no connection is made."""
    text = " ".join(text.split())
    lower = text.lower()
    if "connection refused" in lower:
        return "nothing listens there"
    if "certificate_verify_failed" in lower or "certificate verify failed" in lower:
        return "its certificate isn't of the authority in ca, or not for this host"
    if "handshake failed" in lower or "ssl_error" in lower or "wrong_version_number" in lower:
        return f"no TLS connection, does it want another certificate, or speak no TLS? ({text[-150:]})"
    if "name resolution" in lower or "dns resolution" in lower or "domain name not found" in lower:
        return "the host doesn't exist"
    if "deadline exceeded" in lower or "settings frame" in lower:
        return "no answer in time"
    return without_password(text.removeprefix("etcdserver: ")[:300])


PROBE_EVERY_S = 0.5
"""How often a member that didn't answer is asked whether it is there again."""
PAUSE_S = 0.05
"""How long to wait when no member can be reached."""
KEEPALIVE_S = 10.0

_HAS_LEADER: Final[CallMetadata] = (("hasleader", "true"),)


@dataclass(frozen=True, slots=True)
class EtcdDeadlines:
    """How long something may take, in seconds."""

    call_s: float = 10.0
    """A call in all."""
    attempt_s: float = 5.0
    """The answer of one member."""
    probe_s: float = 2.0
    """What a member that didn't answer may take to say that it is there again."""


class Rpc(NamedTuple):
    """A method of etcd's API, and the class of its answer."""

    path: str
    answer: Any


class Rpcs:
    """The methods that are used."""

    RANGE = Rpc("/etcdserverpb.KV/Range", messages.RangeResponse)
    TXN = Rpc("/etcdserverpb.KV/Txn", messages.TxnResponse)
    COMPACT = Rpc("/etcdserverpb.KV/Compact", messages.CompactionResponse)
    GRANT = Rpc("/etcdserverpb.Lease/LeaseGrant", messages.LeaseGrantResponse)
    REVOKE = Rpc("/etcdserverpb.Lease/LeaseRevoke", messages.LeaseRevokeResponse)
    TIME_TO_LIVE = Rpc("/etcdserverpb.Lease/LeaseTimeToLive", messages.LeaseTimeToLiveResponse)
    STATUS = Rpc("/etcdserverpb.Maintenance/Status", messages.StatusResponse)
    ALARM = Rpc("/etcdserverpb.Maintenance/Alarm", messages.AlarmResponse)
    HASH = Rpc("/etcdserverpb.Maintenance/HashKV", messages.HashKVResponse)
    AUTHENTICATE = Rpc("/etcdserverpb.Auth/Authenticate", messages.AuthenticateResponse)


@dataclass(eq=False, slots=True)
class Endpoint:
    """One member. While a `probe` asks whether it answers again, others are asked first; `answered` is when it did."""

    host: str
    channel: GrpcChannel
    probe: asyncio.Task[None] | None = None
    answered: float = 0.0

    async def call(self, rpc: Rpc, request: Message, timeout_s: float, metadata: CallMetadata) -> Message:
        """The answer. Raises `GrpcError`."""
        data = request.SerializeToString()
        answer = await self.channel.unary(rpc.path, data, timeout_s=timeout_s, metadata=metadata)
        return rpc.answer.FromString(answer)


class EtcdClient:
    """Used from the event loop that called `open`."""

    def __init__(self, address: EtcdAddress, deadlines: EtcdDeadlines) -> None:
        self.address = address
        self.deadlines = deadlines
        self.endpoints: list[Endpoint] = []
        self.metadata: CallMetadata = _HAS_LEADER
        self._turn = 0
        self._closed = False
        self._signing_in: asyncio.Task[None] | None = None
        self._password = ""

    def open(self) -> None:
        """Make the channels; nothing is connected yet. Raises `StorageError` for a file that can't be read."""
        address = self.address
        self._password = address.password
        if address.password_file is not None:
            self._password = _content(address.password_file, "password-file").decode(errors="replace").rstrip("\r\n")
        if address.tls:
            try:
                self._tls()
            except (OSError, ValueError) as error:
                raise StorageError(f"ca, cert or key of the etcd URL can't be used: {error}") from None
        for host in address.hosts:
            name, _, port = host.rpartition(":")
            target = GrpcTarget(name.strip("[]"), int(port), tls=self._tls if address.tls else None)
            self.endpoints.append(Endpoint(host, GrpcChannel(target, keepalive_s=KEEPALIVE_S)))

    def _tls(self) -> ssl.SSLContext:
        """The settings of a connection, from the files as they are now. Raises `StorageError`."""
        address = self.address
        if address.ca is not None:
            _content(address.ca, "ca")
        context = trusting(file=address.ca)
        if address.cert is not None and address.key is not None:
            _content(address.cert, "cert")
            _content(address.key, "key")
            context.load_cert_chain(address.cert, address.key)
        context.set_alpn_protocols(["h2"])
        return context

    async def close(self) -> None:
        self._closed = True
        task, self._signing_in = self._signing_in, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        endpoints, self.endpoints = self.endpoints, []
        probes = [endpoint.probe for endpoint in endpoints if endpoint.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        await asyncio.gather(*(endpoint.channel.close() for endpoint in endpoints))

    def choose(self) -> Endpoint:
        """The member whose turn it is, of those that answer. Raises `Unavailable` when closed."""
        endpoints = self.endpoints
        if self._closed or not endpoints:
            raise Unavailable("the store is closed")
        self._turn += 1
        if len(endpoints) == 1:
            return endpoints[0]
        start = self._turn % len(endpoints)
        in_turn = endpoints[start:] + endpoints[:start]
        return next((endpoint for endpoint in in_turn if endpoint.probe is None), None) or max(in_turn, key=_answered)

    def avoid(self, endpoint: Endpoint) -> None:
        """Ask others first, until it answers again."""
        if endpoint.probe is None and len(self.endpoints) > 1:
            endpoint.probe = asyncio.get_running_loop().create_task(self._probe(endpoint), name="etcd: probe")

    async def _probe(self, endpoint: Endpoint) -> None:
        while True:
            try:
                await self.ask(endpoint, Rpcs.STATUS, messages.StatusRequest(), within_s=self.deadlines.probe_s)
            except GrpcError:
                await asyncio.sleep(PROBE_EVERY_S)
            else:
                endpoint.probe, endpoint.answered = None, asyncio.get_running_loop().time()
                return

    async def read(self, rpc: Rpc, request: Message, *, within_s: float | None = None) -> Message:
        """The answer of any member. What may have been done is done again."""
        return await self._call(rpc, request, within_s or self.deadlines.call_s, write=False)

    async def write(self, rpc: Rpc, request: Message) -> Message:
        """The answer of any member. Raises `OutcomeUnknown` when it may have been done and no answer came."""
        return await self._call(rpc, request, self.deadlines.call_s, write=True)

    async def ask(self, endpoint: Endpoint, rpc: Rpc, request: Message, *, within_s: float | None = None) -> Message:
        """The answer of this member; raises `GrpcError`."""
        timeout = within_s or self.deadlines.attempt_s
        return await endpoint.call(rpc, request, timeout, self.metadata)

    async def _call(self, rpc: Rpc, request: Message, within_s: float, *, write: bool) -> Message:
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        attempts = tokens = 0
        while True:
            endpoint = self.choose()
            left = until - loop.time()
            try:
                timeout = min(self.deadlines.attempt_s, left)
                metadata = _HAS_LEADER if rpc is Rpcs.AUTHENTICATE else self.metadata
                answer = await endpoint.call(rpc, request, timeout, metadata)
                endpoint.answered = loop.time()
                return answer
            except GrpcError as error:
                failure = error
            if self._closed and failure.unsent:
                raise Unavailable("the store is closed")
            if self._closed:
                raise as_storage_error(failure, endpoint.host, write=write)
            meaning = meaning_of(failure)
            if meaning is Meaning.TOKEN and self.address.user and tokens < 2:
                tokens += 1
                await self.sign_in()
                continue
            if meaning is Meaning.TOKEN or meaning is Meaning.REFUSED or (write and meaning is Meaning.UNKNOWN):
                if meaning is Meaning.UNKNOWN:
                    self.avoid(endpoint)
                raise as_storage_error(failure, endpoint.host, write=write)
            self.avoid(endpoint)
            attempts += 1
            if loop.time() + PAUSE_S >= until:
                raise as_storage_error(failure, endpoint.host, write=write and meaning is Meaning.UNKNOWN)
            if attempts % len(self.endpoints or [endpoint]) == 0:
                await asyncio.sleep(PAUSE_S)

    async def sign_in(self) -> None:
        """Get another token; callers at the same time share one. Raises `StorageError`."""
        if self._signing_in is None:
            self._signing_in = asyncio.get_running_loop().create_task(self._sign_in(), name="etcd: sign in")
            self._signing_in.add_done_callback(self._signed_in)
        await shared(self._signing_in)

    def _signed_in(self, task: asyncio.Task[None]) -> None:
        self._signing_in = None

    async def _sign_in(self) -> None:
        request = messages.AuthenticateRequest(name=self.address.user, password=self._password)
        answer = await self._call(Rpcs.AUTHENTICATE, request, self.deadlines.call_s, write=False)
        self.metadata = (*_HAS_LEADER, ("token", answer.token))


def _answered(endpoint: Endpoint) -> float:
    return endpoint.answered


def _content(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path} ({name} of the etcd URL): {error.strerror or error}") from None
