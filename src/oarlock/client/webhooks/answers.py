"""What an answer of a webhook that isn't a success says: the texts of client-go, which people search for.

Must not know: what webhooks are asked. See also: `webhooks.calls`; ``net.failures``, where no answer came.
Source: client-go ``rest/request.go``, apimachinery ``api/errors``.
"""

from __future__ import annotations

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.go.gotext import quote

__all__ = ["answer_text"]

_BY_CODE = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_MOST_SHOWN = 1024


def answer_text(status: int, content_type: str, body: bytes) -> str:
    """What an answer that isn't a success says: the message of its Status, or what stands for its code."""
    message = _message_of(body)
    if message:
        return message
    if status in _BY_CODE:
        return _BY_CODE[status]
    text = body[:_MOST_SHOWN].decode(errors="replace").strip() if content_type.startswith("text/") else "unknown"
    if status in (403, 406, 415):
        return text or "unknown"
    if status >= 500:
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _message_of(body: bytes) -> str:
    try:
        tree = json.decode(body)
    except DecodeError:
        return ""
    if not isinstance(tree, dict) or tree.get("kind") != "Status" or tree.get("status") == "Success":
        return ""
    message = tree.get("message")
    return message[:_MOST_SHOWN] if isinstance(message, str) else ""
