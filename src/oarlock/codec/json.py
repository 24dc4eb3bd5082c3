"""JSON as Go reads and writes it.

A tree is made of plain dict, list, str, int, float, bool and None. Integers beyond 64 bits become floats, whole floats
are written without a fraction, ``<>&`` are escaped. A lone surrogate becomes U+FFFD, as in Go; invalid UTF-8 is refused
(Go replaces it silently). Must not know: schemas, kinds. See also: `duplicate_fields`, `yaml`.
Source: sigs.k8s.io/json, Go's ``encoding/json``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import msgspec

from oarlock.codec import duplicate_fields
from oarlock.codec.errors import DecodeError
from oarlock.meta.go.gotext import syntax_error

__all__ = [
    "MANY_BYTES",
    "MAX_DEPTH",
    "DecodeError",
    "decode",
    "depth_exceeds",
    "duplicates",
    "encode",
    "encode_canonical",
    "encode_small_sorted",
    "encode_sorted",
    "holds_whole_floats",
    "merged",
    "pretty",
    "strict_errors",
]

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


MAX_DEPTH = 200
"""How deep lists and objects may be nested. Go allows 10,000; everything here that walks a tree recurses."""


def _whole(text: str) -> int | float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError("number out of range")
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


_decode = msgspec.json.Decoder().decode
_decode_whole = msgspec.json.Decoder(float_hook=_whole).decode
_SIMPLIFIED = bytes(ord("0") if i in b"0123456789" else ord("{") if i in b"[" else i for i in range(256))
"""Digits become 0, and a list begins like an object."""
_NINETEEN_DIGITS = b"0" * 19
_huge_number = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").finditer
_MAX_EXPLAINED_BYTES = 65_536


def decode(data: bytes, *, whole_as_int: bool = False) -> Any:
    """Decode one JSON value; of duplicate fields the last one counts. Raises DecodeError.

    With `whole_as_int`, ``1.0`` and ``1e3`` are integers, as they are in YAML.
    """
    read = _decode_whole if whole_as_int else _decode
    try:
        tree = read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        tree = _without_lone_surrogates(data, read, error)
    except RecursionError:
        raise DecodeError("exceeded max depth") from None
    plain = data.translate(_SIMPLIFIED)
    opened = plain.count(b"{")
    # only the innermost may be empty: managed fields have hundreds that are
    if opened > MAX_DEPTH and opened - plain.count(b"{}") >= MAX_DEPTH and depth_exceeds(tree, MAX_DEPTH):
        raise DecodeError("exceeded max depth")
    # Only a number of nineteen digits can be out of range; searching for one is cheaper than a walk over the tree.
    if _NINETEEN_DIGITS in plain:
        return _within_64_bits(tree)
    return tree


_may_have_surrogates = re.compile(rb"\\u[dD][89a-fA-F]").search
_escape = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def _replaced(data: bytes) -> bytes:
    """JSON text in which the escape of every lone surrogate is replaced by U+FFFD."""
    if _may_have_surrogates(data) is None:
        return data
    return _escape.sub(lambda match: b"\\ufffd" if match["lone"] else match[0], data)


def _without_lone_surrogates(data: bytes, read: Any, error: Exception) -> Any:
    """Decode again after a failure, with lone surrogates replaced. Raises DecodeError."""
    replaced = _replaced(data)
    if replaced != data:
        try:
            return read(replaced)
        except RecursionError:
            raise DecodeError("exceeded max depth") from None
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            pass
    raise DecodeError(_complaint(data, error)) from None


def depth_exceeds(tree: Any, limit: int) -> bool:
    """Whether lists and objects are nested deeper than `limit`. Not recursive."""
    level = [tree] if isinstance(tree, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            value
            for container in level
            for value in (container.values() if type(container) is dict else container)
            if type(value) is dict or type(value) is list
        ]
    return bool(level)


def _within_64_bits(tree: Any) -> Any:
    if type(tree) is int:
        if -(2**63) <= tree < 2**63:
            return tree
        try:
            return float(tree)
        except OverflowError:
            raise DecodeError(f"json: cannot unmarshal number {tree} into Go value of type float64") from None
    if type(tree) is dict:
        return {key: _within_64_bits(value) for key, value in tree.items()}
    if type(tree) is list:
        return [_within_64_bits(value) for value in tree]
    return tree


def _complaint(data: bytes, error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "invalid UTF-8 in string literal"
    if len(data) > _MAX_EXPLAINED_BYTES:
        # Go's message needs a second, slow scan, which isn't done for large bodies (denial of service).
        return f"invalid JSON: {error}"
    problem = syntax_error(data)
    if problem:
        return problem
    for number in _huge_number(data):
        if abs(float(number[0])) == float("inf"):
            return f"json: cannot unmarshal number {number[0][:400].decode()} into Go value of type float64"
    return f"invalid JSON: {error}"


def duplicates(data: bytes, tree: Any = None) -> list[str]:
    """The paths of duplicate fields, at most 100: ``spec.replicas``, ``items[0].name``.

    `data` must be decodable. Pass its decoded `tree`, if available, to save decoding it again.
    """
    if b"\\u003a" not in data and b"\\u003A" not in data:
        if tree is None:
            tree = _decode(_replaced(data) if b"\\u" in data else data)
        # Decoding drops a duplicate and its colon. If the encoded tree has as many colons, nothing was dropped.
        encoded = _encode(tree)
        if encoded == data or encoded.count(b":") == data.count(b":"):
            return []
    return duplicate_fields.find(_replaced(data))


def strict_errors(data: bytes, unknown: Collection[str]) -> list[str]:
    """Strict decoding errors in the order of the text: duplicate fields, and those at the paths in `unknown`."""
    return duplicate_fields.in_order(_replaced(data), unknown)


def merged(data: bytes) -> Any:
    """Like `decode`, but an object that is given twice has the fields of both, as in a Go struct or map.

    For `data` in which `duplicates` finds something. Slow. Raises DecodeError.
    """
    return _within_64_bits(duplicate_fields.merged(_replaced(data)))


_whole_float = re.compile(rb"\.0[,}\]]").search
_large_float = re.compile(rb"e[1-9][0-9]{1,2}[,}\]]").search


def encode(tree: Any) -> bytes:
    """Compact JSON in the tree's own key order, without a trailing newline."""
    return _as_go(_encode(tree), tree, _encode)


def encode_canonical(tree: Any) -> bytes:
    """Compact JSON with sorted keys: equal trees give equal bytes."""
    return _as_go(encode_sorted(tree), tree, encode_sorted, _ZERO)


_LESS, _GREATER, _AND = b"<>&"
_ZERO = msgspec.Raw(b"0")
_MINUS_ZERO = msgspec.Raw(b"-0")


def _as_go(data: bytes, tree: Any, encoder: Any, minus_zero: msgspec.Raw = _MINUS_ZERO) -> bytes:
    if type(tree) is float or _may_hold_whole_floats(data):
        data = encoder(_go_floats(tree, minus_zero))
    # JSON has none of these outside of strings, so they can be replaced anywhere.
    if _LESS in data:
        data = data.replace(b"<", b"\\u003c")
    if _GREATER in data:
        data = data.replace(b">", b"\\u003e")
    if _AND in data:
        data = data.replace(b"&", b"\\u0026")
    if not data.isascii() and b"\xe2\x80" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data


def holds_whole_floats(data: bytes) -> bool:
    """Whether JSON text may contain numbers such as ``5.0``. Text in strings can give a false positive."""
    return _whole_float(data) is not None


def _may_hold_whole_floats(data: bytes) -> bool:
    # A search of the bytes costs a hundredth of a walk; a false positive only costs the walk.
    return holds_whole_floats(data) or _large_float(data) is not None


def _go_floats(tree: Any, minus_zero: msgspec.Raw) -> Any:
    if type(tree) is float:
        return minus_zero if str(tree) == "-0.0" else _go_float(tree)
    if type(tree) is dict:
        return {key: _go_floats(value, minus_zero) for key, value in tree.items()}
    if type(tree) is list:
        return [_go_floats(value, minus_zero) for value in tree]
    return tree


def _go_float(number: float) -> Any:
    if number != number or abs(number) == float("inf"):
        return number
    if abs(number) >= 1e21:
        mantissa, _, exponent = repr(number).partition("e+")
        return msgspec.Raw(f"{mantissa.removesuffix('.0')}e+{exponent}".encode())
    if number.is_integer():
        return msgspec.Raw(format(Decimal(repr(number)), "f").removesuffix(".0").encode())
    return number


def pretty(data: bytes | Any) -> bytes:
    """Indented JSON of JSON bytes or a tree: two spaces, as Go's ``json.Indent`` writes it."""
    if not isinstance(data, bytes):
        data = encode(data)
    return msgspec.json.format(data, indent=2)
