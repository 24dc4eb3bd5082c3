"""Trees of JSON: plain dict, list, str, int, float, bool and None."""

from __future__ import annotations

from typing import Any

__all__ = ["copy_json"]


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if type(value) is list:
        return [copy_json(item) for item in value]
    return value
