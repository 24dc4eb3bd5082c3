"""The options of each verb as values: what a query string or an options body may say.

Parsing and validating them is `options_parse`'s job; this file only names them. Field names are the
wire names in snake_case.
Source: k8s.io/apimachinery ``meta/v1`` ListOptions, CreateOptions, UpdateOptions, PatchOptions, DeleteOptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CreateOptions",
    "DeleteOptions",
    "FieldValidation",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Preconditions",
    "UpdateOptions",
    "WatchOptions",
    "WriteOptions",
]

FieldValidation = Literal["Ignore", "Warn", "Strict"]


@dataclass(frozen=True, slots=True)
class GetOptions:
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of list, watch and deletecollection; selectors are still text here.

    A virtual collection's `list` may take them to page in its own storage: `limit` (0 for all), and `continue_token`,
    which is the one it gave out itself. Those with `watch` in their names and `send_initial_events` are for watches.
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


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a virtual collection's `watch` may take, to know where it begins.

    `resource_version` is that of a list or an object of the same collection: yield what happened after it, or raise
    `errors.Expired` when that isn't known any more. It is empty only where there is no `list` that says its version:
    then begin with what is there, as ADDED. The selectors are applied to what is yielded in any case; they are here for
    a storage that can select itself. ``("BOOKMARK", version)`` may be yielded now and then when `allow_bookmarks` says
    that the client wants to know how far it is. `timeout_s` is when the watch will be ended, in seconds, if known.
    """

    resource_version: str = ""
    label_selector: str = ""
    field_selector: str = ""
    allow_bookmarks: bool = False
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What create, update and patch have in common."""

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
