"""Tables: lists and objects as rows of cells, which is what ``kubectl get`` asks for and prints.

A row is made as bytes, so that callers may keep it and join many. Must not know: how objects are found.
Source: ``meta.k8s.io/v1`` Table. Next: `columns` for what is in a cell, ``respond`` for where this is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec

from oarlock.codec import json
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.partial_metadata import metadata_of, partial_prefix

__all__ = ["TableOptions", "row_of", "row_of_json", "table_of", "table_of_rows"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a Table is made.

    `include_object` is what each row carries of its object, `version` that of ``meta.k8s.io``, `now` in seconds since
    the epoch, for ages. Without columns their definitions are null, as in all events of a watch but the first.
    """

    include_object: str = "Metadata"
    version: str = "v1"
    now: float = 0.0
    with_columns: bool = True


class _Shown(TypedDict, total=False):
    """What columns of metadata show: the decoder passes over everything else."""

    name: str
    creationTimestamp: str | None


_shown = msgspec.json.Decoder(_Shown).decode
_decode = msgspec.json.Decoder().decode


def table_of(entry: CatalogEntry, trees: Iterable[Tree], list_meta: Tree, options: TableOptions) -> bytes:
    """The Table of these objects, which are in the entry's version; `list_meta` becomes its metadata."""
    return table_of_rows(entry, [row_of(entry, tree, options) for tree in trees], list_meta, options)


def table_of_rows(entry: CatalogEntry, rows: Iterable[bytes], list_meta: Tree, options: TableOptions) -> bytes:
    """The Table of rows that were made before."""
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
    """The row of an object given as a tree."""
    if options.include_object == "None":
        shown = b"null"
    elif options.include_object == "Object":
        shown = json.encode({"apiVersion": entry.api_version, "kind": entry.gvk.kind, **tree})
    else:
        shown = b"%s%s}" % (partial_prefix(options.version), json.encode(tree["metadata"]))
    return b'{"cells":%s,"object":%s}' % (json.encode(entry.columns.cells(tree, options.now)), shown)


def row_of_json(entry: CatalogEntry, body: bytes, options: TableOptions) -> bytes:
    """The row of an object given as the JSON of the whole of it, kind and apiVersion included.

    Columns of metadata are read without parsing the rest.
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
