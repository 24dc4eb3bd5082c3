"""Strategic merge patch: like a JSON merge patch, but lists whose items a key tells apart merge item by item.

`applying` is driven by `merge_schema`. Pure: nothing that is handed in is changed. Next: `applying`.
Source: API conventions, "Strategic Merge Patch"; k8s.io/apimachinery ``strategicpatch``.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch import merge_patch
from oarlock.patch.strategic_merge.applying import apply
from oarlock.patch.strategic_merge.merge_schema import MergeSchema, compile_schema

__all__ = ["MergeSchema", "apply", "compile_schema", "parse", "strict_errors"]


def parse(data: bytes) -> dict[str, Any]:
    """The patch in a request body, which must be an object. Raises PatchFormatError."""
    return merge_patch.parse(data)


def strict_errors(data: bytes) -> list[str]:
    """What strict field validation says of the patch itself: ``duplicate field "spec.a"``."""
    return merge_patch.strict_errors(data)
