"""JSON with sorted keys, in a time that doesn't depend on the initial order of the keys.

msgspec sorts the keys of an object in quadratic time when all but the last are sorted already: 40,000 keys, which
a client may send, block for two seconds. So objects that could have that many are sorted here.
Must not know: what is encoded. See also: `json`.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["MANY_BYTES", "encode_small_sorted", "encode_sorted"]

_encode = msgspec.json.Encoder().encode
encode_small_sorted = msgspec.json.Encoder(order="sorted").encode
"""The same for a tree that is known to have less than `MANY_BYTES`."""

MANY_BYTES = 32 * 1024
"""Text with fewer bytes has too few keys for it to matter,"""

MANY_KEYS = 2000
"""and so has one with fewer keys."""


def encode_sorted(tree: Any) -> bytes:
    """Compact JSON with the keys of all objects sorted by code point."""
    data = _encode(tree)
    if len(data) > MANY_BYTES and data.count(b":") > MANY_KEYS:
        return _encode(_in_order(tree))
    return encode_small_sorted(tree)


def _in_order(tree: Any) -> Any:
    if type(tree) is dict:
        return {key: _in_order(tree[key]) for key in sorted(tree)}
    if type(tree) is list:
        return [_in_order(value) for value in tree]
    return tree
