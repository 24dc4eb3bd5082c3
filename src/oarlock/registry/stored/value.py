"""The tree in a value of the store: JSON, or Kubernetes' protobuf, in which kube-apiserver stores its own kinds.

Nothing is written as protobuf here: an object that was gets to be JSON when it is next written.
Must not know: definitions. See also: `stored.form`; ``codec.kubernetes_messages``, the table of fields.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import kubernetes_message
from oarlock.meta.built_in import BUILT_IN_GROUPS

__all__ = ["is_protobuf", "tree_of"]

_decode = msgspec.json.Decoder().decode


def is_protobuf(value: bytes) -> bool:
    """Whether kube-apiserver wrote the value as protobuf."""
    return value.startswith(protobuf.MAGIC)


def tree_of(value: bytes) -> Any:
    """What is in a value; nothing is said of its shape. Raises ValueError."""
    if not value.startswith(protobuf.MAGIC):
        return _decode(value)
    type_meta, message = protobuf.opened(value)
    api_version, kind = str(type_meta.get("apiVersion")), str(type_meta.get("kind"))
    group, _, version = api_version.rpartition("/")
    built_in = BUILT_IN_GROUPS.get(group)
    try:
        if built_in is None:
            raise KeyError(group)
        fields = kubernetes_message(f"{built_in.package.rpartition('.')[2]}.{version}.{kind}")
    except KeyError:
        raise ValueError(
            f"stored as protobuf, and a {kind} of {api_version} isn't known here: start kube-apiserver with "
            "--storage-media-type=application/json"
        ) from None
    return {**type_meta, **fields.read(message)}
