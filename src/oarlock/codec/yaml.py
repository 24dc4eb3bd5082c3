"""YAML as Kubernetes reads and writes it.

The tree is that of `json`. What reads and writes is imported with the first document that needs it: few requests do.
Must not know: schemas, kinds. See also: `yaml_reader`, `yaml_writer`. Source: sigs.k8s.io/yaml with go-yaml v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.dataclass import dataclass

__all__ = ["MAX_DOCUMENT_BYTES", "DecodeError", "YAMLDocument", "decode", "encode", "split_documents"]


def decode(data: bytes) -> tuple[Any, list[str]]:
    """Decode the first document, and return its duplicate keys: ``line 5: key "x" already set in map``.

    Of duplicate keys the last one counts, and at most 100 are reported. An empty text is None. Raises DecodeError, also
    when aliases expand to more than `yaml_reader` allows.
    """
    if data.lstrip()[:1] in (b"{", b"["):
        # JSON is valid YAML, common in requests, and faster to decode as JSON.
        try:
            tree = json.decode(data, whole_as_int=True)
        except DecodeError:
            pass
        else:
            if not json.duplicates(data):
                return tree, []
    from oarlock.codec import yaml_reader  # noqa: PLC0415 (see above)

    return yaml_reader.decode(data)


def encode(tree: Any) -> bytes:
    """YAML with sorted keys, sequences not indented, lines folded at 80 columns, and a newline at the end."""
    from oarlock.codec import yaml_writer  # noqa: PLC0415 (see above)

    return yaml_writer.encode(tree)


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
