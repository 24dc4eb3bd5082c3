"""Fields that are given twice in the same JSON object, with their paths.

The slow half of `json.duplicates`: run only when duplicates can't be ruled out. Next: `json`.
Source: sigs.k8s.io/json's strict errors.
"""

from __future__ import annotations

import json
from typing import Any

from oarlock.codec.errors import DecodeError

__all__ = ["MAX_FOUND", "find"]

MAX_FOUND = 100
"""How many paths are reported at most."""


class _Pairs(list[tuple[str, Any]]):
    """An object with every field it was given, also those given twice."""


def find(data: bytes) -> list[str]:
    """The paths in the order of the text, each once. Raises DecodeError when `data` can't be read."""
    try:
        tree = json.loads(data, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise DecodeError(str(error)) from None
    found: dict[str, None] = {}
    _walk(tree, "", found)
    return list(found)[:MAX_FOUND]


def _walk(value: Any, path: str, found: dict[str, None]) -> None:
    if type(value) is _Pairs:
        seen = set()
        for key, inner in value:
            inner_path = f"{path}.{key}" if path else key
            if key in seen and len(found) < MAX_FOUND:
                found[inner_path] = None
            seen.add(key)
            if type(inner) is _Pairs or type(inner) is list:
                _walk(inner, inner_path, found)
    elif type(value) is list:
        for i, inner in enumerate(value):
            if type(inner) is _Pairs or type(inner) is list:
                _walk(inner, f"{path}[{i}]", found)
