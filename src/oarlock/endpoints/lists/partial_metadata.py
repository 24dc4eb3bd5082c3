"""PartialObjectMetadata: objects reduced to their metadata, cut out of their bytes.

Metadata informers and garbage collectors list whole resources this way, so objects aren't decoded. Items of these lists
have kind and apiVersion, unlike the items of other lists.
Must not know: storage, resources. Source: API concepts, "metadata-only fetches". See also: `tables`, whose rows contain
the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["metadata_of", "partial", "partial_list_head", "partial_prefix"]


class _Object(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Object).decode
_encode = msgspec.json.Encoder().encode


def metadata_of(body: bytes) -> bytes:
    """The JSON of ``metadata`` in the JSON of an object, which may lack its opening brace (as a stored tail does).

    Raises ``msgspec.DecodeError`` if it isn't the JSON of an object.
    """
    return bytes(_decode(b"{" + body if body[:1] == b'"' else body).metadata)


def partial_prefix(version: str = "v1") -> bytes:
    """The JSON before the value of ``metadata`` in a PartialObjectMetadata of that version of ``meta.k8s.io``."""
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":' % version.encode()


_V1 = partial_prefix()


def partial(body: bytes, version: str = "v1") -> bytes:
    """An object's JSON (or its tail from ``"metadata"`` on) as a PartialObjectMetadata."""
    return b"%s%s}" % (_V1 if version == "v1" else partial_prefix(version), metadata_of(body))


def partial_list_head(list_meta: dict[str, Any], version: str = "v1") -> bytes:
    """The JSON before the items of a PartialObjectMetadataList; `partial` makes the items."""
    head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":' % version.encode()
    return b'%s%s,"items":[' % (head, _encode(list_meta))
