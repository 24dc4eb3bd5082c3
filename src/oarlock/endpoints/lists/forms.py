"""The forms of a list that are sent item by item: the text around the items, and the conversion of each.

Tables are lists as rows of cells, which ``kubectl get`` requests and prints. A row is made as bytes, so that callers
may cache and join rows.
Must not know: where items come from, how long a list is. Source: ``meta.k8s.io/v1`` Table. See also: `answers`, which
uses them; ``catalog.TableColumns``, for the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

import msgspec

from oarlock.codec import cbor, json, yaml
from oarlock.endpoints.catalog import CatalogEntry
from oarlock.endpoints.in_protobuf import metadata_of, partial, partial_list_head, partial_prefix
from oarlock.endpoints.routing.route import ResourceRoute
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.read.recipes import Listing


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


_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ListForm:
    """`before` makes the beginning, given the number of items; `item` converts an object's body.

    `empty` is the whole list if it has no items.
    """

    before: Callable[[int], bytes]
    item: Callable[[bytes], bytes]
    empty: bytes
    between: bytes = b","
    after: bytes = b"]}\n"


def list_meta(listing: Listing, *, typed: bool = True) -> dict[str, Any]:
    """The metadata of a list; that of custom resources, which aren't `typed`, says where nothing goes on."""
    meta: dict[str, Any] = {} if typed else {"continue": ""}
    meta["resourceVersion"] = listing.resource_version
    if listing.continue_token:
        meta["continue"] = listing.continue_token
        if listing.remaining:
            meta["remainingItemCount"] = listing.remaining
    return meta


def list_head(entry: CatalogEntry, listing: Listing) -> bytes:
    """The bytes before the items of a list of objects, in JSON."""
    return b'{"kind":%s,"apiVersion":%s,"metadata":%s,"items":[' % (
        _encode(entry.list_kind),
        _encode(entry.api_version),
        _encode(list_meta(listing, typed=entry.definition.typed)),
    )


def separator(route: ResourceRoute) -> bytes:
    """The bytes before each item: in lists of typed kinds, items have no kind and apiVersion."""
    return b"{" if route.entry.definition.typed else route.head


def plain_form(route: ResourceRoute, listing: Listing) -> ListForm:
    """A list of unchanged objects."""
    head, opening = list_head(route.entry, listing), separator(route)
    return ListForm(lambda count: head, lambda body: opening + body, head + b"]}\n")


def metadata_form(version: str, listing: Listing) -> ListForm:
    """PartialObjectMetadata in a version of ``meta.k8s.io``."""
    head = partial_list_head(list_meta(listing), version)
    return ListForm(lambda count: head, lambda body: partial(body, version), head + b"]}\n")


def table_form(route: ResourceRoute, listing: Listing, options: TableOptions) -> ListForm:
    """The rows of a Table."""
    entry = route.entry
    empty = table_of_rows(entry, (), list_meta(listing), options)
    head = empty.removesuffix(b"null}").removesuffix(b"[]}") + b"["

    def row(body: bytes) -> bytes:
        return row_of_json(entry, route.head + body, options)

    return ListForm(lambda count: head, row, empty + b"\n")


def indented(form: ListForm) -> ListForm:
    """The same list with two spaces of indentation: the same bytes as `codec.json.pretty` of the whole list."""
    end, deeper = b"]\n}", b"\n    "
    return ListForm(
        lambda count: json.pretty(form.before(count) + b"]}").removesuffix(end) + deeper,
        lambda body: json.pretty(form.item(body)).replace(b"\n", deeper),
        json.pretty(form.empty),
        between=b"," + deeper,
        after=b"\n  ]\n}",
    )


def in_yaml(form: ListForm, items: Sequence[bytes]) -> bytes:
    """A list in YAML, of items in JSON. Parsed item by item, because the JSON parser holds the interpreter's lock."""
    if not items:
        return yaml.encode(_decode(form.empty))
    tree: dict[str, Any] = _decode(form.before(len(items)) + b"]}")
    tree[next(reversed(tree))] = [_decode(item) for item in items]
    return yaml.encode(tree)


def as_cbor(form: ListForm) -> ListForm:
    """The same list in CBOR, where the number of items comes first and nothing separates them.

    Encoded item by item, because the CBOR library holds the interpreter's lock.
    """
    return ListForm(
        lambda count: cbor.list_head(form.before(count) + b"]}", count),
        lambda body: cbor.from_json(form.item(body)).removeprefix(cbor.SELF_DESCRIBED),
        cbor.from_json(form.empty),
        between=b"",
        after=b"",
    )
