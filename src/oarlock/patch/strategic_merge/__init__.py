"""Strategic merge patch: like a JSON merge patch, but lists with a merge key are merged item by item.

`applying` is driven by `merge_schema`. Pure: arguments are not changed. See also: `applying`.
Source: API conventions, "Strategic Merge Patch"; k8s.io/apimachinery ``strategicpatch``.
"""

from __future__ import annotations

from typing import Any

from oarlock.patch import merge_patch
from oarlock.patch.strategic_merge.applying import apply
from oarlock.patch.strategic_merge.merge_schema import MergeSchema, compile_schema

__all__ = ["MergeSchema", "apply", "compile_schema", "parse"]


def parse(data: bytes) -> dict[str, Any]:
    """The patch in a request body, which must be an object. Raises PatchFormatError."""
    return merge_patch.parse(data)
