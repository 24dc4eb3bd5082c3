"""Reads definitions as a kube-apiserver stores them: in v1beta1, which nobody serves any more.

There, what all versions have in common is said once, beside them.
Source: apiextensions-apiserver, ``pkg/apis/apiextensions`` (``v1/conversion.go``, ``v1beta1/defaults.go``).
"""

from __future__ import annotations

from oarlock.apps.kinds.apiextensions import GROUP
from oarlock.meta.json_trees import Tree

__all__ = ["STORED_BY_KUBERNETES", "from_v1beta1"]

STORED_BY_KUBERNETES = f"{GROUP}/v1beta1"


_COMMON = {
    "subresources": "subresources",
    "validation": "schema",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def from_v1beta1(tree: Tree) -> Tree:
    """The definition in v1; `tree` isn't to be used afterwards. Raises what a tree of another shape raises."""
    spec: Tree = tree.get("spec") or {}
    version = spec.pop("version", "")
    versions: list[Tree] = spec.get("versions") or []
    if not versions and version:
        versions = [{"name": version, "served": True, "storage": True}]
    for name, now in _COMMON.items():
        common = spec.pop(name, None)
        for version_tree in versions:
            if common is not None:
                version_tree[now] = common
    for version_tree in versions:
        if version_tree.get("additionalPrinterColumns"):
            version_tree["additionalPrinterColumns"] = [
                _column(column) for column in version_tree["additionalPrinterColumns"]
            ]
    if versions:
        spec["versions"] = versions
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    config = conversion.pop("webhookClientConfig", None)
    reviews = conversion.pop("conversionReviewVersions", None)
    if conversion.get("strategy") == "Webhook" and not reviews:
        reviews = ["v1beta1"]
    if config is not None or reviews is not None:
        conversion["webhook"] = {
            **({"clientConfig": config} if config is not None else {}),
            "conversionReviewVersions": reviews,
        }
    if not spec.setdefault("preserveUnknownFields", True):
        del spec["preserveUnknownFields"]
    return {**tree, "apiVersion": f"{GROUP}/v1", "spec": spec}


def _column(column: Tree) -> Tree:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}
