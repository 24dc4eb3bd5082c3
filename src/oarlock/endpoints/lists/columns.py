"""The columns of a Table: which ones a resource has, and how their cells are computed.

A resource has its name and the columns it declares; without any, its age. Computed once per version.
Must not know: requests, lists. Source: CustomResourceDefinition additionalPrinterColumns. See also: `tables`.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.meta.json_trees import Tree
from oarlock.schema.cells import compile_cell
from oarlock.schema.definition import Column, RowCells, VersionDefinition

__all__ = ["TableColumns"]


# Clients compare and show these two texts: they are Kubernetes' own.
NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow "
    "a client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED_DESCRIPTION = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
NAME, CREATED = ".metadata.name", ".metadata.creationTimestamp"
AGE = Column("Age", CREATED, "date")


class TableColumns:
    """The columns of one version. `definitions` is their JSON. `row` computes all cells but the name, if it is given.

    `of_metadata` says that they show metadata only, so that the rest of an object needn't be parsed. `null_when_empty`
    says that a Table without rows has ``rows: null``, as the Go server's default Table does.
    """

    __slots__ = ("_cells", "_row", "definitions", "null_when_empty", "of_metadata")

    def __init__(self, version: VersionDefinition, row: RowCells | None = None) -> None:
        columns = version.columns or (AGE,)
        self.of_metadata = row is None and all(column.json_path in (NAME, CREATED) for column in columns)
        self.null_when_empty = self.of_metadata and not any(column.relative for column in columns)
        if not any((column.name, column.json_path) == ("Name", NAME) for column in columns):
            columns = (Column("Name", NAME, format="name"), *columns)
        self._row = row
        self._cells = (
            [_name if column.json_path == NAME else compile_cell(column, version.schema) for column in columns]
            if row is None
            else []
        )
        self.definitions: bytes = json.encode([_definition(column) for column in columns])

    def cells(self, tree: Tree, now: float) -> list[Any]:
        """The cells of an object; only its metadata is read if they are `of_metadata`.

        `now` is in seconds since the epoch, for ages.
        """
        if self._row is not None:
            return [_name(tree, now), *self._row(tree, now)]
        return [cell(tree, now) for cell in self._cells]


def _name(tree: Tree, now: float) -> str:
    name: str = tree["metadata"].get("name", "")
    return name


def _description(column: Column) -> str:
    known = {CREATED: CREATED_DESCRIPTION, NAME: NAME_DESCRIPTION}.get(column.json_path)
    return known or (f"The value at {column.json_path}." if column.json_path else "")


def _definition(column: Column) -> Tree:
    return {
        "name": column.name,
        "type": "string" if column.type == "age" else column.type,
        "format": column.format,
        "description": column.description or _description(column),
        "priority": column.priority,
    }
