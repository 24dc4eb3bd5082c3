"""Splits a stream of YAML into its documents, without reading them.

A line that begins with ``---`` or ``...`` ends a document, also inside of a block scalar, whose lines are indented.
Must not know: where the lines come from. See also: `yaml`, which decodes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
"""More than any object takes in YAML that fits into a store."""


@dataclass(frozen=True, slots=True)
class YAMLDocument:
    """The text of a document, the how many-th it is, and its first line; both count from 1."""

    number: int
    line: int
    data: bytes


def split_documents(lines: Iterable[bytes]) -> Iterator[YAMLDocument]:
    """The documents that aren't empty. Raises DecodeError for one of more than `MAX_DOCUMENT_BYTES`."""
    parts: list[bytes] = []
    size, first, number = 0, 1, 0
    for line_number, line in enumerate(lines, 1):
        marker = line[:3] in (b"---", b"...") and line[3:4] in (b"", b" ", b"\t", b"\r", b"\n")
        if marker:
            if _has_content(parts):
                number += 1
                yield YAMLDocument(number, first, b"".join(parts))
            parts, size, first = [], 0, line_number
            line = line[3:] if line[:3] == b"---" else b"\n"
        parts.append(line)
        size += len(line)
        if size > MAX_DOCUMENT_BYTES:
            raise DecodeError(f"the document that begins in line {first} has more than {MAX_DOCUMENT_BYTES} bytes")
    if _has_content(parts):
        yield YAMLDocument(number + 1, first, b"".join(parts))


def _has_content(parts: list[bytes]) -> bool:
    return any(part.strip() and not part.lstrip().startswith(b"#") for part in parts)
