"""What an error of gRPC or etcd means for a caller: whether a write may have happened, and what to tell.

The texts are those of etcd's ``rpctypes``; its codes alone don't say enough.

Must not know: which call it was. See also: `client`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from oarlock.storage.backend import OutcomeUnknown, StorageError, Unavailable
from oarlock.storage.grpc.errors import GrpcCode, GrpcError
from oarlock.storage.passwords import without_password

__all__ = [
    "COMPACTED",
    "FUTURE",
    "LARGER_THAN_MAX",
    "LEASE_GONE",
    "NO_SPACE_ADVICE",
    "NO_SPACE_RETRY_S",
    "TOO_LARGE",
    "Meaning",
    "NoSpace",
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
        return StorageError(f"etcd at {host} wants a user: give user and password in the URL, or a client certificate")
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
        return "there is no such host"
    if "deadline exceeded" in lower or "settings frame" in lower:
        return "no answer in time"
    return without_password(text.removeprefix("etcdserver: ")[:300])
