"""The strategic merge patch strategy of a list or object: the one module that reads or derives the merge key.

A schema gives it with ``x-kubernetes-patch-strategy`` and ``x-kubernetes-patch-merge-key``. A list of type map
with one key merges by that key by default; derived keys
are also published in OpenAPI, because clients make patches from it.
Must not know: patches. See also: ``patch.strategic_merge.merge_schema``, which compiles whole schemas.
Source: API conventions, "Strategic Merge Patch"; kube-openapi extension names.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MERGE_KEY", "STRATEGIES", "STRATEGY", "merge_keys"]

STRATEGY = "x-kubernetes-patch-strategy"
MERGE_KEY = "x-kubernetes-patch-merge-key"
STRATEGIES = frozenset({"merge", "replace", "retainKeys"})

_NOTHING: dict[str, str] = {}


def merge_keys(schema: dict[str, Any]) -> dict[str, str]:
    """The strategy and merge key of a schema, under their published names; empty for the default.

    By default objects merge field by field and lists are replaced as a whole. A strategy may be two, joined by a comma:
    ``merge,retainKeys``.
    """
    strategy, key = _text(schema.get(STRATEGY)), _text(schema.get(MERGE_KEY))
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(keys, list) and len(keys) == 1:
        key = key or keys[0]
        if not strategy:
            strategy = "merge"
        elif strategy == "retainKeys":
            strategy = "merge,retainKeys"
    if not strategy:
        return _NOTHING
    return {MERGE_KEY: key, STRATEGY: strategy} if key and "merge" in strategy else {STRATEGY: strategy}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
