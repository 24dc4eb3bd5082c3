"""The keywords that several methods of a `Client` share, so that each is said once.

Source: k8s.io/apimachinery ``meta/v1`` CreateOptions, PatchOptions, DeleteOptions. See also: `client`, `queries`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, TypedDict

from oarlock.client.queries import pairs
from oarlock.client.retries import RetryPolicy
from oarlock.client.server_warnings import WarningLog
from oarlock.meta.context import User
from oarlock.meta.dataclass import dataclass
from oarlock.meta.options import FieldValidation
from oarlock.meta.options_parse import QueryPairs

__all__ = [
    "ClientKeywords",
    "ClientSettings",
    "DeleteKeywords",
    "PagedKeywords",
    "PatchType",
    "SelectionKeywords",
    "WriteKeywords",
    "deletion",
    "write_pairs",
]

PatchType = Literal["merge", "json", "strategic"]

Propagation = Literal["", "Background", "Foreground", "Orphan"]


class SelectionKeywords(TypedDict, total=False):
    """Which objects are meant. Without a namespace those of all.

    With `include_uninitialized` also those that wait for their initializers, for who may ``initialize`` them.
    """

    namespace: str
    label_selector: str
    field_selector: str
    include_uninitialized: bool


class PagedKeywords(SelectionKeywords, total=False):
    """`SelectionKeywords`, and how many objects come in one answer; 0: all."""

    page_size: int


class WriteKeywords(TypedDict, total=False):
    """How a write is done. With `dry_run` everything is checked and nothing kept."""

    dry_run: bool
    field_manager: str
    field_validation: FieldValidation | None


class DeleteKeywords(TypedDict, total=False):
    """How an object is deleted: what becomes of its dependents, and whether only the one that was seen."""

    propagation: Propagation
    grace_period_s: int
    uid: str
    resource_version: str
    dry_run: bool


class ClientKeywords(TypedDict, total=False):
    """The fields of `ClientSettings`."""

    field_manager: str
    field_validation: FieldValidation | None
    timeout_s: float
    retries: RetryPolicy
    user: User | None
    user_agent: str
    on_warning: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client asks.

    `field_manager` is what the server calls it in ``managedFields``. `timeout_s` is for a request; watches, logs and
    connections have it until they begin. `field_validation` is what the server does about fields that it doesn't know:
    ``Strict`` refuses them, ``Warn`` is what it does unless told. `user` is impersonated (``kubectl --as``).
    `on_warning` is called with the text of each ``Warning`` of the server; unless given, each text is logged once.
    """

    field_manager: str = "oarlock"
    field_validation: FieldValidation | None = None
    timeout_s: float = 60.0
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    user: User | None = None
    user_agent: str = ""
    on_warning: Callable[[str], object] = field(default_factory=WarningLog)


def write_pairs(
    settings: ClientSettings,
    *,
    dry_run: bool = False,
    field_manager: str = "",
    field_validation: FieldValidation | None = None,
) -> QueryPairs:
    """The query of a write. The keywords are `WriteKeywords`."""
    return pairs(
        {
            "dryRun": "All" if dry_run else "",
            "fieldManager": field_manager or settings.field_manager,
            "fieldValidation": field_validation or settings.field_validation or "",
        }
    )


def deletion(
    *,
    propagation: Propagation = "",
    grace_period_s: int | None = None,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool = False,
) -> dict[str, Any] | None:
    """The body of a delete; None when nothing is special about it. The keywords are `DeleteKeywords`."""
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    body = {
        "propagationPolicy": propagation,
        "gracePeriodSeconds": grace_period_s,
        "preconditions": {name: value for name, value in preconditions.items() if value},
        "dryRun": ["All"] if dry_run else [],
    }
    given = {name: value for name, value in body.items() if value or value == 0}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **given} if given else None
