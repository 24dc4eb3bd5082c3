"""Trees of JSON: plain dict, list, str, int, float, bool and None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A JSON object.
Tree = dict[str, Any]

#: A JSON object that its reader leaves as it is.
ReadOnlyTree = Mapping[str, Any]


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value


def same_json(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal. ``1`` and ``1.0`` are, ``1`` and ``true`` are not, at any depth."""
    pairs = [(a, b)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs.extend((a[key], b[key]) for key in a)
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) is not isinstance(b, bool) or a != b:
            return False
    return True
