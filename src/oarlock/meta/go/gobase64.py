"""Base64 as Go's ``encoding/base64.StdEncoding`` reads it, which decodes every ``[]byte`` field of Kubernetes' kinds.

Line breaks are ignored wherever they stand. Errors name a position and never the text: it may be a secret.
Must not know: fields, wording of requests. See also: `schema.validation.typing_errors`, `schema.passes.normalizing`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

_not_in_alphabet = re.compile(rb"[^A-Za-z0-9+/\r\n]").search
_next_digit_or_other = re.compile(rb"[^\r\n]").search


class IllegalBase64(ValueError):
    """The text isn't base64: ``illegal base64 data at input byte 7``."""


def decode(text: str) -> bytes:
    """The bytes that `text` stands for. Raises IllegalBase64."""
    data = text.encode("utf-8", "surrogatepass").translate(None, b"\r\n")
    if not len(data) % 4 and data[-3:] != b"===":  # the library takes a group of padding only
        try:
            return binascii.a2b_base64(data, strict_mode=True)
        except ValueError:
            pass
    raise IllegalBase64(complaint(text))


def is_base64(text: str) -> bool:
    """Whether `decode` would take the text."""
    try:
        decode(text)
    except IllegalBase64:
        return False
    return True


def complaint(text: str) -> str:
    """What Go says of a text that isn't base64."""
    return f"illegal base64 data at input byte {_offence(text.encode('utf-8', 'surrogatepass'))}"


def canonical(text: Any) -> Any:
    """The text that the same bytes are written as. What isn't base64 is left as it is."""
    try:
        return base64.b64encode(decode(text)).decode() if type(text) is str else text
    except IllegalBase64:
        return text


def is_canonical(text: str) -> bool:
    """Whether the text is base64 without line breaks, and no other text stands for the same bytes."""
    try:
        return base64.b64encode(decode(text)) == text.encode()
    except (IllegalBase64, UnicodeEncodeError):
        return False


def _offence(data: bytes) -> int:
    """The index of the first byte that Go's decoder doesn't take; that of the incomplete group at an early end."""
    found = _not_in_alphabet(data)
    at = found.start() if found is not None else len(data)
    digits = at - data.count(b"\r", 0, at) - data.count(b"\n", 0, at)
    if found is None:
        return at - digits % 4
    if data[at] != _PADDING or digits % 4 < 2:
        return at
    if digits % 4 == 2:
        second = _next_digit_or_other(data, at + 1)
        if second is None:
            return len(data)
        if second[0] != b"=":
            return second.start() - 1
        at = second.start()
    rest = _next_digit_or_other(data, at + 1)
    return len(data) if rest is None else rest.start()


_PADDING = ord("=")
