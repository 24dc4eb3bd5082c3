"""The error responses of the API: one exception class for each reason of Kubernetes' ``Status``.

Each class has its HTTP code, message and details.
Any package may raise them; only `endpoints` turns them into an HTTP response. User code need not name the object:
the caller fills in what ``raise Conflict("out of date")`` is about (`StatusError.about`).

    StatusError
    ├─ 400 BadRequest            ├─ 409 AlreadyExists, Conflict,    ├─ 500 InternalError, ServerTimeout,
    │                            │      FieldConflict               │      StorageReadError
    ├─ 401 Unauthorized          ├─ 410 Expired                     │
    ├─ 403 Forbidden, Denied     ├─ 413 RequestEntityTooLarge       ├─ 503 ServiceUnavailable
    ├─ 404 NotFound, NoSuchPath  ├─ 415 UnsupportedMediaType        └─ 504 Timeout, TooLargeResourceVersion
    ├─ 405 MethodNotAllowed      ├─ 422 InvalidObject, Unprocessable
    └─ 406 NotAcceptable         └─ 429 TooManyRequests

Source: the API conventions' Status section and k8s.io/apimachinery ``api/errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self, overload

from oarlock.meta.context import Target
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.go.gotext import html_escape, quote
from oarlock.meta.kinds import GroupKind, GroupResource

__all__ = [
    "MOST_CAUSES",
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Denied",
    "Expired",
    "FieldConflict",
    "Forbidden",
    "InternalError",
    "InvalidObject",
    "MethodNotAllowed",
    "NoSuchPath",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StatusError",
    "StorageReadError",
    "Timeout",
    "TooLargeResourceVersion",
    "TooManyRequests",
    "Unauthorized",
    "Unprocessable",
    "UnsupportedMediaType",
]

OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """An error response. `details` is the ``details`` of the Status, or None to leave it out.

    `errors` are the field errors that it tells of, as far as it was made of any.
    """

    code = 500
    reason = ""
    errors: Sequence[FieldError] = ()

    def __init__(self, message: str, *, details: dict[str, Any] | None = None, retry_after_s: int = 0) -> None:
        super().__init__(message)
        self.message = message
        if retry_after_s:
            details = {**(details or {}), "retryAfterSeconds": retry_after_s}
        self.details = details
        self.retry_after_s = retry_after_s
        self.continue_token = ""

    def about(self, target: Target, name: str = "") -> StatusError:
        """A copy of this error that names its object if it doesn't yet: `target`, or the object called `name` there.

        The original is not changed, because it may be raised again for another object.
        """
        return self

    def explained(self, message: str, causes: list[dict[str, str]]) -> StatusError:
        """A copy of this error with another message and more causes."""
        error = self._again()
        error.message = message
        details = self.details or {}
        error.details = {**details, "causes": [*details.get("causes", ()), *causes][:MOST_CAUSES]}
        return error

    def _again(self) -> Self:
        error = type(self).__new__(type(self))
        error.args = self.args
        vars(error).update(vars(self))
        return error

    def status(self) -> dict[str, Any]:
        """The ``Status`` object of this error, version v1."""
        tree: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            tree["reason"] = self.reason
        if self.details is not None:
            tree["details"] = self.details
        tree["code"] = self.code
        return tree


def _of(resource: GroupResource, name: str) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.resource}
    return {k: v for k, v in details.items() if v}


class _OfObject(StatusError):
    """An error about one object. Raised with only a text, it is about the request's target."""

    words = ""
    default_why = ""

    @overload
    def __init__(self, why: str = "", /) -> None: ...

    @overload
    def __init__(self, resource: GroupResource | GroupKind, name: str, why: str = "") -> None: ...

    def __init__(self, resource: GroupResource | GroupKind | str = "", name: str = "", why: str = "") -> None:
        self._open: str | None = None
        if isinstance(resource, str):
            self._open = resource
            super().__init__(resource or self.default_why or self.reason)
            return
        if isinstance(resource, GroupKind):
            resource = GroupResource(resource.group, resource.kind)
        what = self._called(resource, name)
        super().__init__(self._worded(what, why or self.default_why), details=_of(resource, name))

    def about(self, target: Target, name: str = "") -> StatusError:
        if self._open is None or not target.resource:
            return self
        error = self._again()
        resource, name = target.group_resource, target.name or name
        what = self._called(resource, name) if name else str(resource)
        error.message = self._worded(what, self._open or self.default_why)
        error.details = _of(resource, name)
        error._open = None
        return error

    def _called(self, resource: GroupResource, name: str) -> str:
        return f"{resource} {quote(name)}"

    def _worded(self, what: str, why: str) -> str:
        return f"{what} {self.words}: {why}" if why else f"{what} {self.words}"


class BadRequest(StatusError):
    """400: the request is malformed."""

    code = 400
    reason = "BadRequest"


class Unauthorized(StatusError):
    """401: authentication failed."""

    code = 401
    reason = "Unauthorized"

    def __init__(self, message: str = "Unauthorized") -> None:
        super().__init__(message)


class Forbidden(_OfObject):
    """403: the user is authenticated but not allowed. Admission sets its own `why`."""

    code = 403
    reason = "Forbidden"
    words = "is forbidden"

    def _called(self, resource: GroupResource, name: str) -> str:
        return f"{resource} {quote(name)}" if name else str(resource)

    @classmethod
    def for_path(cls, user: str, verb: str, path: str) -> Forbidden:
        error = cls(GroupResource("", ""), "", "")
        error.message = html_escape(f"forbidden: User {quote(user)} cannot {verb} path {quote(path)}")
        error.details = {}
        return error


class Denied(Forbidden):
    """403: a refusal by admission or by a user's hook, with its own message."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotFound(_OfObject):
    """404: no such object."""

    code = 404
    reason = "NotFound"
    words = "not found"


class NoSuchPath(StatusError):
    """404: the group and version are served, but not this resource."""

    code = 404
    reason = "NotFound"

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource", details={})


class MethodNotAllowed(StatusError):
    """405: the resource doesn't support the verb, or the non-resource path doesn't support the method.

    A text given alone is the whole message.
    """

    code = 405
    reason = "MethodNotAllowed"

    def __init__(self, resource: GroupResource | str | None = None, action: str = "") -> None:
        if isinstance(resource, str):
            super().__init__(resource, details={})
        elif resource is None:
            super().__init__("the server does not allow this method on the requested resource", details={})
        else:
            text = f"{action} is not supported on resources of kind {quote(str(resource))}"
            super().__init__(text, details=_of(resource, ""))


class NotAcceptable(StatusError):
    """406: none of the media types in ``Accept`` is supported."""

    code = 406
    reason = "NotAcceptable"


class AlreadyExists(_OfObject):
    """409: an object of this name exists."""

    code = 409
    reason = "AlreadyExists"
    words = "already exists"

    def while_deleted(self) -> AlreadyExists:
        """The error for a name whose object is being deleted and still has finalizers."""
        error = self._again()
        error.message = "object is being deleted: " + self.message
        return error

    def although_generated(self) -> AlreadyExists:
        """The error for a name made from generateName; a retry may find a free one. Source: KEP-4420."""
        error = self._again()
        error.message += ", the server was not able to generate a unique name for the object"
        error.retry_after_s = 1
        error.details = {**(self.details or {}), "retryAfterSeconds": 1}
        return error


class Conflict(_OfObject):
    """409: the resourceVersion or uid given by the client doesn't match the live object."""

    code = 409
    reason = "Conflict"
    default_why = OPTIMISTIC_LOCK

    def _worded(self, what: str, why: str) -> str:
        return f"Operation cannot be fulfilled on {what}: {why}"


class FieldConflict(StatusError):
    """409: server-side apply would change fields owned by other managers.

    Source: KEP-555. `causes` lists the fields.
    """

    code = 409
    reason = "Conflict"

    def __init__(self, message: str, causes: list[dict[str, str]]) -> None:
        super().__init__(message, details={"causes": causes})


class Expired(StatusError):
    """410: the requested resource version has been compacted."""

    code = 410
    reason = "Expired"

    def __init__(self, message: str, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token


class RequestEntityTooLarge(StatusError):
    """413: the body is larger than the limit."""

    code = 413
    reason = "RequestEntityTooLarge"

    def __init__(self, why: str) -> None:
        super().__init__(f"Request entity too large: {why}")


class UnsupportedMediaType(StatusError):
    """415: the endpoint doesn't read the body's media type."""

    code = 415
    reason = "UnsupportedMediaType"

    def __init__(self, accepted: Iterable[str]) -> None:
        names = ", ".join(accepted)
        super().__init__(f"the body of the request was in an unknown format - accepted media types include: {names}")


MOST_CAUSES = 100
"""How many field errors a 422 names; the others are counted. A body of 1 MB can have as many as it has fields."""


class InvalidObject(StatusError):
    """422: the object is well-formed but fails validation; every field error is a cause, up to `MOST_CAUSES`.

    `kind` is the Kind of the object (its plural resource in the one case where Kubernetes does so). Given only
    errors, it is about the request's target.
    """

    code = 422
    reason = "Invalid"

    @overload
    def __init__(self, errors: Iterable[FieldError], /) -> None: ...

    @overload
    def __init__(self, kind: GroupKind, name: str, errors: Iterable[FieldError]) -> None: ...

    def __init__(
        self, kind: GroupKind | Iterable[FieldError], name: str = "", errors: Iterable[FieldError] = ()
    ) -> None:
        self._open = not isinstance(kind, GroupKind)
        self.errors = list(errors) if isinstance(kind, GroupKind) else list(kind)
        kind = kind if isinstance(kind, GroupKind) else GroupKind("", "")
        listed = self.errors[:MOST_CAUSES]
        texts = list(dict.fromkeys(error.message for error in listed))
        if len(self.errors) > MOST_CAUSES:
            texts.append(f"and {len(self.errors) - MOST_CAUSES} more errors")
        what = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        details: dict[str, Any] = {"name": name, "group": kind.group, "kind": kind.kind}
        details = {k: v for k, v in details.items() if v}
        details["causes"] = [error.cause() for error in listed]
        super().__init__(f"{kind} {quote(name)} is invalid: {what}", details=details)

    def about(self, target: Target, name: str = "") -> StatusError:
        if not self._open:
            return self
        error = self._again()
        InvalidObject.__init__(error, target.group_kind, target.name or name, self.errors)
        return error


class Unprocessable(StatusError):
    """422: the patch is well-formed but can't be applied. It has no field errors."""

    code = 422
    reason = "Invalid"

    def __init__(self, message: str = "the server rejected our request due to an error in our request") -> None:
        super().__init__(message, details={})


class TooManyRequests(StatusError):
    """429: the client should retry later."""

    code = 429
    reason = "TooManyRequests"

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message, retry_after_s=retry_after_s)


class InternalError(StatusError):
    """500: a fault of the server."""

    code = 500
    reason = "InternalError"

    def __init__(self, why: str) -> None:
        super().__init__(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


_UNKNOWN = "Its outcome is unknown: it may have been executed."


class ServerTimeout(StatusError):
    """500: the store didn't answer in time; the client should retry.

    `unknown` says that the operation may have been executed all the same, or may still be.
    """

    code = 500
    reason = "ServerTimeout"

    def __init__(
        self, resource: GroupResource, operation: str, retry_after_s: int = 2, *, unknown: bool = False
    ) -> None:
        message = f"The {operation} operation against {resource} could not be completed at this time, please try again."
        details = _of(resource, operation)
        if unknown:
            message += f" {_UNKNOWN}"
            details = {**details, "causes": [{"reason": "UnknownOutcome", "message": _UNKNOWN}]}
        super().__init__(message, details=details, retry_after_s=retry_after_s)


class StorageReadError(StatusError):
    """500: stored objects can't be decoded; `causes` names them (at most 100)."""

    code = 500
    reason = "StorageReadError"

    def __init__(self, resource: GroupResource, keys: Iterable[tuple[str, str]]) -> None:
        causes = [{"message": f"{key}: {why}"} for key, why in keys][:100]
        super().__init__(
            f"failed to read one or more {resource} from the storage: " + "; ".join(c["message"] for c in causes),
            details={**_of(resource, ""), "causes": causes},
        )


class ServiceUnavailable(StatusError):
    """503: the server can't handle the request at the moment."""

    code = 503
    reason = "ServiceUnavailable"


class Timeout(StatusError):
    """504: the request exceeded its deadline."""

    code = 504
    reason = "Timeout"

    def __init__(self, why: str, retry_after_s: int = 0) -> None:
        super().__init__(f"Timeout: {why}", details={}, retry_after_s=retry_after_s)


class TooLargeResourceVersion(Timeout):
    """504: the requested resource version is newer than the current one.

    Has the cause that client-go's reflector looks for.
    """

    def __init__(self, requested: int, current: int) -> None:
        text = f"Too large resource version: {requested}, current: {current}"
        super().__init__(text, retry_after_s=1)
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        self.details = {"causes": [cause], "retryAfterSeconds": 1}
