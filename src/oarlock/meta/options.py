"""The options of each verb as values: ListOptions, DeleteOptions and so on.

`options_parse` parses and validates them. Field names are the wire names in snake_case.
Source: k8s.io/apimachinery ``meta/v1`` ListOptions, CreateOptions, UpdateOptions, PatchOptions, DeleteOptions.
"""

from __future__ import annotations

from typing import Literal

from oarlock.meta.dataclass import dataclass

FieldValidation = Literal["Ignore", "Warn", "Strict"]


@dataclass(frozen=True, slots=True)
class GetOptions:
    resource_version: str = ""
    include_uninitialized: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection. The selectors are unparsed text.

    The `list` of a virtual resource may take them for paging in its own storage: `limit` (0: all), and
    `continue_token`, a token that it returned itself. The fields with `watch` in their names and
    `send_initial_events` are for watches.
    """

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    allow_watch_bookmarks: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    timeout_seconds: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None
    include_uninitialized: bool = False


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options for the `watch` of a virtual resource.

    `resource_version` is that of a list or an object of the same resource: yield the changes after it, or raise
    `errors.Expired` when they are no longer known. It is empty only if `list` returns no version: then begin with
    the existing objects as ADDED. The server applies the selectors to the events in any case; they are here for a
    storage that can select itself. If `allow_bookmarks` is set, ``("BOOKMARK", version)`` may be yielded from time
    to time to tell the client its position. `timeout_s` is after how many seconds the watch will be ended, if known.
    """

    resource_version: str = ""
    label_selector: str = ""
    field_selector: str = ""
    allow_bookmarks: bool = False
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options common to create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = "Warn"


@dataclass(frozen=True, slots=True)
class CreateOptions(WriteOptions):
    pass


@dataclass(frozen=True, slots=True)
class UpdateOptions(WriteOptions):
    pass


@dataclass(frozen=True, slots=True)
class PatchOptions(WriteOptions):
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: bool = False
    ignore_store_read_error_with_cluster_breaking_potential: bool = False
