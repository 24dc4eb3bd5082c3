"""Tables: lists and objects as rows of cells, which ``kubectl get`` requests and prints.

A row is made as bytes, so that callers may cache and join rows.
Must not know: how objects are found. Source: ``meta.k8s.io/v1`` Table. See also: `columns`, for the cells; ``respond``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

import msgspec

from oarlock.codec import json
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.lists.partial_metadata import metadata_of, partial_prefix
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree

__all__ = ["TableOptions", "row_of", "row_of_json", "table_of", "table_of_rows"]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The parameters of a Table.

    `include_object` is the part of each object in its row, `version` that of ``meta.k8s.io``, `now` in seconds since
    the epoch, for ages. Without columns, columnDefinitions is null, as in all events of a watch but the first.
    """

    include_object: str = "Metadata"
    version: str = "v1"
    now: float = 0.0
    with_columns: bool = True


class _Shown(TypedDict, total=False):
    """The fields that columns of metadata use: the decoder skips everything else."""

    name: str
    creationTimestamp: str | None


_shown = msgspec.json.Decoder(_Shown).decode
_decode = msgspec.json.Decoder().decode


def table_of(entry: CatalogEntry, trees: Iterable[Tree], list_meta: Tree, options: TableOptions) -> bytes:
    """The Table of these objects of the entry's version; `list_meta` becomes its metadata."""
    return table_of_rows(entry, [row_of(entry, tree, options) for tree in trees], list_meta, options)


def table_of_rows(entry: CatalogEntry, rows: Iterable[bytes], list_meta: Tree, options: TableOptions) -> bytes:
    """The Table of these finished rows."""
    columns = entry.columns
    joined = b",".join(rows)
    body = b"null" if columns.null_when_empty and not joined else b"[%s]" % joined
    return b'{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":%s}' % (
        options.version.encode(),
        json.encode(list_meta),
        columns.definitions if options.with_columns else b"null",
        body,
    )


def row_of(entry: CatalogEntry, tree: Tree, options: TableOptions) -> bytes:
    """The row of an object in a tree."""
    if options.include_object == "None":
        shown = b"null"
    elif options.include_object == "Object":
        shown = json.encode({"apiVersion": entry.api_version, "kind": entry.gvk.kind, **tree})
    else:
        shown = b"%s%s}" % (partial_prefix(options.version), json.encode(tree["metadata"]))
    return b'{"cells":%s,"object":%s}' % (json.encode(entry.columns.cells(tree, options.now)), shown)


def row_of_json(entry: CatalogEntry, body: bytes, options: TableOptions) -> bytes:
    """The row of an object in JSON, including kind and apiVersion.

    If the columns use metadata only, the rest isn't parsed.
    """
    columns = entry.columns
    if not columns.of_metadata:
        cells = columns.cells(_decode(body), options.now)
        metadata = metadata_of(body) if options.include_object == "Metadata" else b""
    else:
        metadata = metadata_of(body)
        cells = columns.cells({"metadata": _shown(metadata)}, options.now)
    if options.include_object == "None":
        shown = b"null"
    elif options.include_object == "Object":
        shown = body
    else:
        shown = b"%s%s}" % (partial_prefix(options.version), metadata)
    return b'{"cells":%s,"object":%s}' % (json.encode(cells), shown)
