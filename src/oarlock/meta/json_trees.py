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
