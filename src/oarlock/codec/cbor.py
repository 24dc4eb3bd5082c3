"""CBOR as Kubernetes reads and writes it.

Trees are those of `json`: byte strings become text (Go writes its strings so), times become text, and what JSON can't
express is refused: keys that are not text, integers beyond 64 bits, NaN, undefined, references. Duplicate keys
and indefinite lengths are refused too. Must not know: schemas, kinds. See also: `json`.
Source: RFC 8949, KEP-4222, k8s.io/apimachinery ``runtime/serializer/cbor``.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import cbor2
import msgspec

from oarlock.codec.errors import DecodeError
from oarlock.codec.json import MAX_DEPTH
from oarlock.meta.times import rfc3339

SELF_DESCRIBED = b"\xd9\xd9\xf7"
"""Tag 55799, which stands before everything that is written: clients know CBOR by it. Reading doesn't need it."""

_LATEST = 253_402_300_800
"""The end of the year 9999, in seconds since 1970: no later time can be written."""

_MAX_EXPLAINED_BYTES = 65_536

_decode_json = msgspec.json.Decoder().decode

# Reading ------------------------------------------------------------------------------------------


def decode(data: bytes) -> Any:
    """Decode one value. Raises DecodeError."""
    try:
        decoder = cbor2.CBORDecoder(io.BytesIO(data), max_depth=MAX_DEPTH, **_RULES)
        value = decoder.decode()
        if _has_more(decoder):
            raise ValueError("something follows the value")
    except (cbor2.CBORDecodeError, ValueError, OverflowError, MemoryError) as error:
        raise DecodeError(f"cbor: {_why(error)}{_place(data)}") from None
    except RecursionError:
        raise DecodeError("cbor: exceeded max depth") from None
    try:
        return _tree(value)
    except _NotInATree as error:
        raise DecodeError(f"cbor: {error}") from None


class _NotInATree(ValueError):
    """A value that has no place in a tree. `path` has the keys and indices that lead to it, outermost first."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.path.removeprefix('.')}: {text}" if self.path else text


def _place(data: bytes) -> str:
    """The position of the error. It takes a second, slow pass, which isn't done for large bodies."""
    if len(data) > _MAX_EXPLAINED_BYTES:
        return ""
    source = io.BytesIO(data)
    try:
        cbor2.CBORDecoder(source, read_size=1, max_depth=MAX_DEPTH, **_RULES).decode()
    except (cbor2.CBORDecodeError, ValueError, OverflowError, MemoryError):
        pass
    return f", at byte {source.tell()}"


def _has_more(decoder: cbor2.CBORDecoder) -> bool:
    try:
        decoder.read(1)
    except cbor2.CBORDecodeEOF:
        return False
    return True


def _why(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, UnicodeDecodeError):
        return "invalid UTF-8 string"
    text = (str(error) or type(error).__name__).replace("NoneType", "null")
    return f"{text}: {cause}" if cause is not None and str(cause) not in text else text


def _tree(value: Any) -> Any:
    """The decoded value as a tree. Refuses what a tree can't hold."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is dict:
        return _object(value)
    if kind is list:
        return _list(value)
    if kind is int:
        if -(2**63) <= value < 2**63:
            return value
        raise _NotInATree(f"cannot unmarshal {value} into Go value of type int64")
    if kind is bytes:
        return _text(value)
    if kind is float:
        if value - value == 0.0:
            return value
        raise _NotInATree(f"{value} is no number that an object can have")
    if kind is tuple:  # what is in a tag comes as what can't be changed
        return _list(value)
    if isinstance(value, Mapping):
        return _object(value)
    raise _NotInATree(f"an object can't have a value of type {kind.__name__}")


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, inner in value.items():
        name = key if type(key) is str else _key(key)
        try:
            read[name] = _tree(inner)
        except _NotInATree as error:
            error.path = f".{name}{error.path}"
            raise
    if len(read) != len(value):
        raise _NotInATree("found a duplicate map key, once as text and once as bytes")
    return read


def _list(value: Sequence[Any]) -> list[Any]:
    items = []
    for item in value:
        try:
            items.append(_tree(item))
        except _NotInATree as error:
            error.path = f"[{len(items)}]{error.path}"
            raise
    return items


def _key(key: Any) -> str:
    if type(key) is bytes:
        return _text(key)
    raise _NotInATree(f"a key of a map must be text, not {type(key).__name__}")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _NotInATree("invalid UTF-8 string") from None


def _content(tag: cbor2.CBORTag, immutable: bool) -> Any:
    """An unknown tag is ignored: the value is what it encloses."""
    return tag.value


def _plain(value: Any, immutable: bool) -> Any:
    return value


def _refused(what: str) -> Callable[[Any, bool], NoReturn]:
    def refuse(value: Any, immutable: bool) -> NoReturn:
        raise ValueError(f"{what} can't be in an object")

    return refuse


def _epoch(value: Any, immutable: bool) -> str:
    if type(value) not in (int, float) or value != value // 1 or not 0 <= value < _LATEST:
        raise ValueError("a time must be whole seconds since 1970, or text")
    return rfc3339(int(value))


def _later(encode: Callable[[bytes], bytes]) -> Callable[[Any, bool], Any]:
    """The decoder of a tag for bytes that are text in formats without byte strings (RFC 8949 §3.4.5.2)."""

    def text(value: Any, immutable: bool) -> Any:
        return encode(value).decode() if type(value) is bytes else value

    return text


_REFERENCE = _refused("a reference to another value")
_TAGS: dict[int, Any] = {
    # tags that the library would decode to objects are treated as content here; the rest goes through `_content`
    **dict.fromkeys((0, 4, 5, 30, 35, 36, 37, 52, 54, 100, 258, 260, 261, 1004, 43000, 55799), _plain),
    **dict.fromkeys((2, 3), _refused("a number beyond 64 bits")),
    **dict.fromkeys((25, 28, 29, 256), _REFERENCE),
    1: _epoch,
    21: _later(lambda data: base64.urlsafe_b64encode(data).rstrip(b"=")),
    22: _later(base64.b64encode),
    23: _later(lambda data: data.hex().upper().encode()),
}

_RULES: dict[str, Any] = {
    "semantic_decoders": _TAGS,
    "tag_hook": _content,
    "allow_indefinite": False,
    "allow_duplicate_keys": False,
    "strict_hashable_types": True,
}

# Writing ------------------------------------------------------------------------------------------


def encode(tree: Any) -> bytes:
    """Encode a tree in its own key order, with the self-described CBOR tag in front."""
    return SELF_DESCRIBED + cbor2.dumps(tree)


def from_json(data: bytes) -> bytes:
    """The CBOR of JSON that this server has encoded."""
    return SELF_DESCRIBED + cbor2.dumps(_decode_json(data))


def list_head(empty: bytes, count: int) -> bytes:
    """The bytes before the items of a list. `empty` is the JSON of the list without items; the array comes last."""
    whole = from_json(empty)
    if whole[-1:] != _NO_ITEMS:
        raise ValueError("the empty list must end with items")
    return whole[:-1] + _array_head(count)


_NO_ITEMS = b"\x80"


def _array_head(count: int) -> bytes:
    """The head of an array (RFC 8949 §3, major type 4)."""
    if count < 24:
        return bytes([0x80 | count])
    width, prefix = (1, 0x98) if count < 2**8 else (2, 0x99) if count < 2**16 else (4, 0x9A)
    return bytes([prefix]) + count.to_bytes(width, "big")
