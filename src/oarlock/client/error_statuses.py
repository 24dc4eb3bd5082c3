"""Error answers as exceptions: the ``Status`` that a server sends becomes the class of `oarlock.errors` it stands for.

Source: the API conventions' Status section; client-go ``rest/request.go`` for what isn't a Status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta import errors
from oarlock.meta.errors import StatusError

__all__ = ["error_of", "error_of_tree"]

_CLASSES: Mapping[tuple[int, str], type[StatusError]] = {
    (cls.code, cls.reason): cls
    for cls in (
        errors.BadRequest,
        errors.Unauthorized,
        errors.Forbidden,
        errors.NotFound,
        errors.MethodNotAllowed,
        errors.NotAcceptable,
        errors.Conflict,
        errors.AlreadyExists,
        errors.Expired,
        errors.RequestEntityTooLarge,
        errors.UnsupportedMediaType,
        errors.InvalidObject,
        errors.TooManyRequests,
        errors.InternalError,
        errors.ServerTimeout,
        errors.StorageReadError,
        errors.ServiceUnavailable,
        errors.Timeout,
    )
}
_BY_CODE = {cls.code: cls for cls in reversed([*_CLASSES.values()])}
"""For answers without a Status: of each code the first class above."""

_SHOWN_BYTES = 2_048


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error that an answer stands for. What isn't a Status, such as a proxy's page, is quoted."""
    try:
        tree = json.decode(body)
    except DecodeError:
        tree = None
    if not isinstance(tree, dict) or tree.get("kind") != "Status":
        text = body[:_SHOWN_BYTES].decode(errors="replace").strip()
        tree = {"code": status, "message": text or f"the server answered {status} without a message"}
    error = error_of_tree({"code": status, **tree})
    retry_after = headers.get("retry-after", "")
    if not error.retry_after_s and retry_after.isascii() and retry_after.isdigit():
        error.retry_after_s = int(retry_after[:9])
    return error


def error_of_tree(tree: Mapping[str, Any]) -> StatusError:
    """The error of a ``Status`` object, as an ERROR event of a watch carries it."""
    code = tree.get("code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else 500
    reason = tree.get("reason")
    reason = reason if isinstance(reason, str) else ""
    cls = _CLASSES.get((code, reason)) or _BY_CODE.get(code, StatusError)
    if cls is errors.Conflict and _names_fields(tree):
        cls = errors.FieldConflict
    error: StatusError = cls.__new__(cls)
    vars(error)["_open"] = None  # its object is named already
    if isinstance(error, errors.InvalidObject):
        error.errors = []  # `details` has the causes
    message = tree.get("message")
    StatusError.__init__(error, message if isinstance(message, str) else "")
    error.code = code
    error.reason = reason or cls.reason
    details = tree.get("details")
    error.details = details if isinstance(details, dict) else None
    seconds = (error.details or {}).get("retryAfterSeconds")
    error.retry_after_s = seconds if isinstance(seconds, int) and seconds > 0 else 0
    metadata = tree.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else ""
    error.continue_token = token if isinstance(token, str) else ""
    return error


def _names_fields(tree: Mapping[str, Any]) -> bool:
    """Whether a Conflict is one of server-side apply: its causes are fields that others own."""
    details = tree.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    first = causes[0] if isinstance(causes, list) and causes else None
    return isinstance(first, dict) and first.get("reason") == "FieldManagerConflict"
