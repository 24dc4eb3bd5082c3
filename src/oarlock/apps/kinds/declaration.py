"""`KindDeclaration`: all there is to say about one of Kubernetes' kinds that has no class, in one file for each kind.

A file ``kinds/<group>/<kind>.py`` holds the declaration and its functions; the group's ``KINDS`` names it, and
``serving`` makes of it what a server serves. Types, fields and fixed defaults come from the data of a release.
Must not know: stores, HTTP, other kinds. See also: ``common``, for what several kinds share; ``pods``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from oarlock.apps.kinds.common.trees import Settle, StatusCheck, TreeCheck, Update
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.registry.conversions import Converter, NoConversion
from oarlock.schema.definition import Column, QueryParameter, RowCells, Scale

ALL_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")
"""What most kinds of Kubernetes let a write to ``/status`` change of the metadata."""


@dataclass(frozen=True, slots=True)
class SubresourceDeclaration:
    """A subresource. With `fields` it is a part of the object, otherwise its body is of `body_kind`, if given.

    - `body_kind` is ``group/version/Kind``. `older` are other versions that the body may have.
    - `kind` is the kind in discovery, if it is neither `body_kind` nor the object's.
    - `counts`: a change increments the object's generation.
    - `proxies`: it passes requests on. `connects`: it takes over the connection.
    - `parameters` are those of its query. `produces` is the media type of a stream.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    fields: tuple[str, ...] = ()
    body_kind: str = ""
    kind: str = ""
    counts: bool = True
    older: tuple[str, ...] = ()
    proxies: bool = False
    connects: bool = False
    produces: str = ""
    parameters: tuple[QueryParameter, ...] = ()


def proxy_declaration(kind: str) -> SubresourceDeclaration:
    """The subresource ``proxy`` of a kind, whose options are of `kind`."""
    return SubresourceDeclaration("proxy", ("create", "delete", "get", "patch", "update"), kind=kind, proxies=True)


@dataclass(frozen=True, slots=True)
class KindDeclaration:
    """A kind of Kubernetes whose type is in the data of a release: how it is served, and its code.

    The options are those of ``ResourceDefinition`` and ``VersionDefinition``. `version` is the stored version, and
    `other_versions` are served too. The functions get trees in the stored version, `default` in any version:

    - `default(tree)`: sets defaults in place, at each write and each read. Constant defaults are data
      (``released.facts``).
    - `prepare(new)`: changes a new object in place before it is validated, such as its first status.
    - `complete(new)`: sets fields that Kubernetes writes even if they are empty, in place, on create and on each
      update.
    - `update(new, old, ctx)`: changes an object in place before an update is validated, also through a subresource,
      such as fields that the server keeps or computes.
    - `validate(new, old, ctx)`: yields the errors of an object; `old` is None on create. It runs for subresources too,
      see ``ctx.target.subresource``, but not for ``/status``, which has `validate_status(new, old, ctx)`.
    - `status_metadata`: the fields of metadata that a write to ``/status`` changes.
    - `status_at_creation`: a new object may have a status.
    - `row(tree, now)`: the cells of a Table after the name; `now` is in seconds since the epoch.
    - `converter()`: makes the converter between the versions.
    - `grace_s(tree, asked)`: the seconds between deletion and removal of an object.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = False
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    parts: tuple[SubresourceDeclaration, ...] = ()
    generation: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    delete_returns: Literal["status", "object"] = "status"
    name_rule: Literal["dns-subdomain", "dns-label", "dns1035-label", "path-segment"] = "dns-subdomain"
    gc_default: Literal["background", "orphan"] = "background"
    deprecation_warning: str = ""
    other_versions: tuple[str, ...] = ()
    default: Settle | None = None
    prepare: Settle | None = None
    complete: Settle | None = None
    update: Update | None = None
    validate: TreeCheck | None = None
    validate_status: StatusCheck | None = None
    status_metadata: tuple[str, ...] = ALL_METADATA
    status_at_creation: bool = False
    row: RowCells | None = None
    converter: Callable[[], Converter] = NoConversion
    grace_s: Callable[[Tree, int | None], int] | None = None
