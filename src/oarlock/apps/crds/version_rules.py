"""The rules of what versions have each: schema, subresources, columns, selectable fields.

Kubernetes calls a part that all versions have in common by its place in the whole (``spec.validation``), and any other
by its version (``spec.versions[1].schema``). See also: ``schema.crd_rules`` and ``schema.crd_schema_rules``, the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.schema.crd_rules import column_errors, scale_errors, selectable_errors
from oarlock.schema.crd_schema_rules import schema_errors, status_errors_of_root

__all__ = ["COMMON_PLACES", "parts_in_common", "tolerated_kinds", "version_part_errors"]


COMMON_PLACES: Mapping[str, str] = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
"""What a version may have, and where it is said to be when all versions have the same."""

_OLD_MISTAKES: tuple[Callable[[FieldError], bool], ...] = (
    lambda error: "structural" in error.detail or error.path.endswith((".type", ".items")),
    lambda error: error.detail.startswith("must not have unknown fields"),
    lambda error: "x-kubernetes-list-type=set" in error.detail,
    lambda error: "x-kubernetes-list-map-keys" in error.detail or "list-type is set" in error.detail,
    lambda error: "x-kubernetes-validations" in error.path or "x-kubernetes-validations" in error.detail,
)
"""The kinds of mistakes that later releases of Kubernetes refused, and tolerate where they are."""


def parts_in_common(versions: list[Tree]) -> frozenset[str]:
    """The parts that all versions have alike."""
    if not versions:
        return frozenset()
    first, *others = versions
    return frozenset(part for part in COMMON_PLACES if all(other.get(part) == first.get(part) for other in others))


def version_part_errors(
    version: Tree, places: Mapping[str, str], unchanged: Collection[str] = ()
) -> Iterator[FieldError]:
    """The errors of those parts of a version that have a place; `unchanged` parts are as they were."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    below = version.get("subresources") or {}
    if "schema" in places and schema is not None and not {"schema", "subresources"} <= {*unchanged}:
        where = f"{places['schema']}.openAPIV3Schema"
        if below.get("status") is not None:
            yield from status_errors_of_root(schema, where)
        if "schema" not in unchanged:
            yield from schema_errors(schema, where)
    if "subresources" in places and below.get("scale") is not None:
        yield from scale_errors(below["scale"], f"{places['subresources']}.scale")
    if "additionalPrinterColumns" in places:
        for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from column_errors(column, f"{places['additionalPrinterColumns']}[{at}]")
    fields = version.get("selectableFields") or []
    if "selectableFields" in places and fields and schema is not None:
        yield from selectable_errors(fields, schema, places["selectableFields"])


def tolerated_kinds(errors: Collection[FieldError]) -> Callable[[FieldError], bool]:
    """Says whether an error is of a kind that is among `errors`, those of the object before."""
    kinds = [is_kind for is_kind in _OLD_MISTAKES if any(map(is_kind, errors))]
    return lambda error: any(is_kind(error) for is_kind in kinds)
