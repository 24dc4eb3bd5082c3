"""YAML as Kubernetes reads and writes it.

The tree is that of `json`. What reads and writes is imported with the first document that needs it: few requests do.
Must not know: schemas, kinds. See also: `yaml_reader`, `yaml_writer`. Source: sigs.k8s.io/yaml with go-yaml v2.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError

__all__ = ["DecodeError", "decode", "encode"]


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
