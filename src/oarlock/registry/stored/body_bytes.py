"""Canonical JSON of objects, in two pieces that are joined into answers without parsing: a *head* and a *body*.

The head is ``{"apiVersion":…,"kind":…,``. A body begins with ``"metadata":{"resourceVersion":"…"``; its keys are sorted
and ``<>&`` are escaped. So GET is head + body, a list item is ``{`` + body, and a watch event is a frame around
head + body. A *tail* is a body without its resourceVersion, as it is stored.
"""

from __future__ import annotations

import msgspec

from oarlock.codec import json as json_codec
from oarlock.codec.ordering import encode_small_sorted, encode_sorted
from oarlock.meta.json_trees import Tree

__all__ = ["body_of", "encode_body", "encode_tail", "tail_of"]

_encode = msgspec.json.Encoder().encode

_METADATA = b'"metadata":{'
_VERSIONED = b'"metadata":{"resourceVersion":"'


def encode_body(tree: Tree) -> bytes:
    """A tree as a body: everything after apiVersion and kind, with its resourceVersion."""
    version = tree["metadata"].get("resourceVersion")
    tail = encode_tail(tree)
    if not version:
        return tail
    return b'"metadata":{"resourceVersion":%s,%s' % (_encode(version), tail[12:])


def encode_tail(tree: Tree, *, large: bool = True) -> bytes:
    """Canonical bytes of everything but apiVersion and kind, from ``"metadata":{`` to the closing brace.

    A resourceVersion in the tree's metadata is left out. `large` is False for a tree that is known to be small.
    """
    metadata, encode = tree["metadata"], encode_sorted if large else encode_small_sorted
    if "resourceVersion" in metadata:
        metadata = {k: v for k, v in metadata.items() if k != "resourceVersion"}
    tail = b'"metadata":' + encode(metadata)
    rest = {k: v for k, v in tree.items() if k not in ("apiVersion", "kind", "metadata")}
    if rest:
        fields = encode(rest)
        if json_codec.holds_whole_floats(fields):  # Go clients can't decode these as an integer
            fields = json_codec.encode_canonical(rest)
        tail = tail + b"," + fields[1:]
    else:
        tail += b"}"
    if b"<" in tail or b">" in tail or b"&" in tail:
        tail = tail.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    return tail


def body_of(tail: bytes, rev: int) -> bytes:
    """The tail with its resourceVersion; `rev` 0 (for a dry run) leaves it out."""
    if not rev:
        return tail
    if tail[12:13] == b"}":
        return b'%s%d"%s' % (_VERSIONED, rev, tail[12:])
    return b'%s%d",%s' % (_VERSIONED, rev, tail[12:])


def tail_of(body: bytes) -> bytes:
    """The tail of a body: without its resourceVersion."""
    if not body.startswith(_VERSIONED):
        return body
    end = body.index(b'"', len(_VERSIONED)) + 1
    if body[end : end + 1] == b",":
        end += 1
    return _METADATA + body[end:]
