"""The columns of a Table: which ones a resource has, and how their cells are read from an object.

A typed resource without declared columns gets its name and the time it was created at; any other gets its
name and what it declares (its age, if it declares nothing). Worked out once per version of a resource.
Must not know: requests, lists. Source: CustomResourceDefinition additionalPrinterColumns. Next: `tables`.
"""

from __future__ import annotations

from typing import Any

from oarlock.codec import json
from oarlock.schema.cells import compile_cell
from oarlock.schema.definition import Column, VersionDefinition

__all__ = ["NEVER", "TableColumns"]

Tree = dict[str, Any]

# Clients compare and show these two texts, so they are the API's own.
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
AGE = Column("Age", ".metadata.creationTimestamp", "date", description=CREATED_DESCRIPTION)
NEVER = "0001-01-01T00:00:00Z"
"""What stands for a creation time that isn't set, as in the bookmarks of a watch."""


class TableColumns:
    """The columns of one version. `definitions` is their JSON, `plain` says that they are name and creation time only.

    `timeless` says that a row doesn't change with time, so that callers may keep it.
    """

    __slots__ = ("_cells", "definitions", "plain", "timeless")

    def __init__(self, version: VersionDefinition, *, typed: bool) -> None:
        columns = version.columns if version.columns or typed else (AGE,)
        self.plain = typed and not columns
        self.timeless = all(column.type != "date" for column in columns)
        self._cells = [compile_cell(column) for column in columns]
        shown = [_definition(Column("Name", ".metadata.name", format="name", description=NAME_DESCRIPTION))]
        if self.plain:
            created = Column("Created At", ".metadata.creationTimestamp", "date", description=CREATED_DESCRIPTION)
            shown.append(_definition(created))
        self.definitions: bytes = json.encode(shown + [_definition(column) for column in columns])

    def cells(self, tree: Tree, now: float) -> list[Any]:
        """The cells of an object; `now` in seconds since the epoch, for ages."""
        metadata = tree["metadata"]
        name = metadata.get("name", "")
        if self.plain:
            return [name, metadata.get("creationTimestamp") or NEVER]
        return [name, *(cell(tree, now) for cell in self._cells)]


def _definition(column: Column) -> Tree:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or f"The value at {column.json_path}.",
        "priority": column.priority,
    }
