"""JSON merge patch: values of the patch replace, ``null`` removes, lists are replaced as a whole.

Pure: neither the tree nor the patch is changed. Parts that the patch doesn't touch are shared with the result.
See also: `json_patch`.
Source: RFC 7386. Like in the API server's library, nulls are also dropped from objects that are new.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.codec.errors import DecodeError
from oarlock.meta.fielderrors import WrongType
from oarlock.patch.errors import PatchFormatError


def parse(data: bytes, *, whole_as_int: bool = False) -> dict[str, Any]:
    """The patch in a request body, which must be an object. Raises PatchFormatError.

    With `whole_as_int`, a number such as ``2.0`` is an integer.
    """
    try:
        patch = json.decode(data, whole_as_int=whole_as_int)
    except DecodeError as error:
        raise PatchFormatError(str(error)) from None
    if not isinstance(patch, dict):
        raise PatchFormatError(WrongType("", "an object", patch).body)
    return patch


def apply(tree: Any, patch: Any) -> Any:
    """The patched tree: new along the paths in the patch, shared elsewhere."""
    if not isinstance(patch, dict):
        return _without_nulls(patch)
    if not isinstance(tree, dict):
        return _without_nulls(patch)
    result = dict(tree)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = apply(result[key], value)
        else:
            result[key] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
