"""Continue tokens of paged lists, and resource versions as text.

A token holds the revision of the first page and the key to go on at, relative to the list's prefix. A client may have
forged it, so a decoded key must never lead out of that prefix. See also: `options.ListOptions`.
Source: k8s.io/apiserver ``storage/continue.go``; the API concepts' "Retrieving large results sets in chunks".
"""

from __future__ import annotations

import base64
import binascii
import json
import re

from oarlock.meta.errors import BadRequest
from oarlock.meta.fielderrors import WrongType
from oarlock.meta.go.gotext import quote, syntax_error
from oarlock.meta.options import ListOptions

_VERSION = "meta.k8s.io/v1"
_NOT_VALID = "continue key is not valid"
_MAX_TOKEN_CHARS = 8192
_is_number = re.compile(r"[0-9]+").fullmatch
_outside_alphabet = re.compile(r"[^A-Za-z0-9_-]").search


class InvalidContinue(ValueError):
    """The continue token is malformed; the message is ``invalid continue token: …``."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid continue token: {detail}")
        self.detail = detail


class InvalidResourceVersion(ValueError):
    """The text is not a resource version. The message is ``invalid resource version: `` and `detail`."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"invalid resource version: {detail}")
        self.detail = detail


def encode(rev: int, start_key_relative: str) -> str:
    """A continue token. `start_key_relative` is the key to go on at, without the list's prefix.

    `rev` is the revision at which all pages are read, or -1 for the current one.
    """
    start = start_key_relative if start_key_relative.startswith("/") else "/" + start_key_relative
    tree = {"v": _VERSION, "rv": rev, "start": start}
    text = json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(token: str) -> tuple[int, str]:
    """The revision and the relative start key of a token. Raises InvalidContinue with Kubernetes' wording."""
    fields = _fields(token)
    version, rev, start = (fields.get(key) for key in ("v", "rv", "start"))
    if version != _VERSION:
        raise InvalidContinue(f"{_NOT_VALID}: server does not recognize this encoded version {version or ''}")
    if not rev:
        raise InvalidContinue(f"{_NOT_VALID}: incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise InvalidContinue(f"{_NOT_VALID}: encoded start key empty (version {_VERSION})")
    assert isinstance(rev, int)
    assert isinstance(start, str)
    relative = start[1:] if start.startswith("/") else start
    if relative and any(segment in ("", ".", "..") for segment in relative.split("/")):
        raise InvalidContinue(f"{_NOT_VALID}: {start}")
    return rev, relative


def _fields(token: str) -> dict[str, object]:
    if len(token) > _MAX_TOKEN_CHARS:
        raise InvalidContinue(f"{_NOT_VALID}: token too long")
    bad = _outside_alphabet(token)
    if bad is not None or len(token) % 4 == 1:
        at = len(token[: bad.start()].encode()) if bad else len(token) - 1
        raise InvalidContinue(f"{_NOT_VALID}: illegal base64 data at input byte {at}")
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        fields = json.loads(data.decode(errors="replace"), parse_constant=_refused)
    except (ValueError, RecursionError, binascii.Error) as error:
        raise InvalidContinue(f"{_NOT_VALID}: {syntax_error(_bytes_of(token)) or error}") from None
    if not isinstance(fields, dict):
        raise InvalidContinue(f"{_NOT_VALID}: {WrongType('', 'an object', fields).body}")
    for key, type_, expected in (("v", str, "a string"), ("rv", int, "an integer"), ("start", str, "a string")):
        value = fields.get(key)
        in_range = not isinstance(value, int) or -(2**63) <= value < 2**63
        if value is not None and (type(value) is not type_ or not in_range):
            raise InvalidContinue(f"{_NOT_VALID}: {WrongType(key, expected, value, shown=True).message}")
    return fields


def _bytes_of(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def _refused(constant: str) -> object:
    raise ValueError(constant)


def parse_resource_version(text: str) -> int:
    """A resource version as a number; ``""`` is 0. Raises InvalidResourceVersion."""
    if not text:
        return 0
    if not _is_number(text):
        problem = "invalid syntax"
    elif len(text) > 100 or int(text) >= 2**64:
        problem = "value out of range"
    else:
        return int(text)
    quoted = quote(text)
    raise InvalidResourceVersion(
        f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {problem}"
    )


def list_position(options: ListOptions) -> tuple[int, str]:
    """The exact revision to read a list at (0: none is required), and the relative key to start at.

    Raises BadRequest.
    """
    try:
        if options.continue_token:
            rev, start = decode(options.continue_token)
            if options.resource_version not in ("", "0"):
                raise BadRequest("specifying resource version is not allowed when using continue")
            return max(rev, 0), start
        rev = parse_resource_version(options.resource_version)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    exact = options.resource_version_match == "Exact"
    # Without resourceVersionMatch, a limited list at a revision means exactly that revision (legacy rule).
    limited = not options.resource_version_match and options.limit > 0
    return (rev if exact or limited else 0), ""
