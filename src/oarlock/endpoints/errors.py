"""Makes a `Response` from an error: a Status in the form the client accepts.

Must not know: where errors come from. See also: `respond`, for results; ``meta.errors``.
"""

from __future__ import annotations

from oarlock.codec import json as json_codec
from oarlock.endpoints.http import BodyTooLarge, BrokenBody, Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON, Accepted, document, is_pretty, negotiated
from oarlock.meta.errors import (
    BadRequest,
    InternalError,
    InvalidObject,
    RequestEntityTooLarge,
    ServerTimeout,
    ServiceUnavailable,
    StatusError,
)
from oarlock.meta.fielderrors import FieldError
from oarlock.storage.backend import OutcomeUnknown, StorageError, TooLarge, Unavailable


def as_status_error(error: Exception, state: RequestState) -> StatusError | None:
    """An error as a `StatusError`; None for one of an unknown type, which is a bug of the server."""
    match error:
        case StatusError():
            return error.about(state.target)
        case FieldError():
            return InvalidObject(state.target.group_kind, state.target.name, [error])
        case BodyTooLarge():
            return RequestEntityTooLarge(f"limit is {error.limit}")
        case BrokenBody():
            return BadRequest(f"the body of the request could not be read: {error}")
        case TooLarge():
            return RequestEntityTooLarge(str(error))
        case OutcomeUnknown():
            return ServerTimeout(state.target.group_resource, state.target.verb, unknown=True)
        case Unavailable():
            retry = max(1, round(error.retry_after_s))
            return ServiceUnavailable(f"the store is unavailable: {error}", retry_after_s=retry)
        case StorageError():
            return InternalError(str(error))
    return None


def error_response(error: Exception, state: RequestState) -> Response:
    """The Status of an error, in the form the client accepts. Raises the error again if its type is unknown."""
    known = as_status_error(error, state)
    if known is None:
        raise error
    return _status_response(known, state)


def _status_response(error: StatusError, state: RequestState) -> Response:
    """A Status; indented JSON for a client that accepts none of its forms, as a person probably reads it."""
    try:
        accepted = negotiated(state, state.request.headers.get("accept", ""), protobuf=True)
    except StatusError:
        accepted = Accepted(JSON, pretty=True)
    if error.code in (406, 415) and error.details == {}:
        state.notes.rewind((0, 0))  # the request reached no route of the resource, so no deprecation warning
    media = accepted.media_type
    data = document(json_codec.encode(error.status()), media, is_pretty(state, state.route, accepted))
    headers = [("content-type", media)]
    if error.retry_after_s:
        headers.append(("retry-after", str(error.retry_after_s)))
    if error.code == 403:
        headers.append(("x-content-type-options", "nosniff"))
    return Response(error.code, headers, data)
