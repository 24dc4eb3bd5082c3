"""Parsing and validation of query strings and options bodies into the values of `options`.

Malformed input is a BadRequest with Go's wording; a value that isn't allowed is an InvalidObject of the options'
kind. Selectors stay unparsed. See also: `options` for the values, `continuation` for paging.
Source: k8s.io/apimachinery ``meta/v1`` conversion and validation, ``meta/internalversion`` validation and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oarlock.meta.errors import BadRequest, InvalidObject, StatusError
from oarlock.meta.fielderrors import FieldError, Forbidden, Invalid, NotSupported, Required, TooLong, WrongType
from oarlock.meta.go import percent
from oarlock.meta.go.gotext import quote
from oarlock.meta.kinds import GroupKind
from oarlock.meta.options import (
    CreateOptions,
    DeleteOptions,
    FieldValidation,
    GetOptions,
    ListOptions,
    PatchOptions,
    Preconditions,
    UpdateOptions,
)

QueryPairs = Sequence[tuple[str, str]]
"""Query parameters in their order, decoded."""

UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""The option of DELETE that removes an object nobody can read, whatever its finalizers were."""

_MAX_PAIRS = 10_000
_is_integer = re.compile(r"[+-]?[0-9]+").fullmatch


def parse_query(query: str) -> list[tuple[str, str]]:
    """The decoded parameters of a query string, in order. ``+`` is a space; bytes that aren't UTF-8 are replaced.

    Raises BadRequest for an invalid escape and for ``;``. (Go silently drops such a parameter. Without its selector, a
    deletecollection would delete everything.)
    """
    if not query:
        return []
    if ";" in query:
        raise BadRequest("invalid semicolon separator in query")
    bad = percent.bad_escape(query)
    if bad is not None:
        raise BadRequest(f"invalid URL escape {quote(bad)}")
    parts = query.split("&")
    if len(parts) > _MAX_PAIRS:
        raise BadRequest(f"number of URL query parameters exceeded limit of {_MAX_PAIRS}")
    pairs = []
    for part in parts:
        if part:
            key, _, value = part.partition("=")
            pairs.append((_decoded(key), _decoded(value)))
    return pairs


def _decoded(text: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    return percent.decoded(text).decode(errors="replace") if "%" in text else text


# Reading single parameters ------------------------------------------------------------------------


def _firsts(pairs: QueryPairs) -> dict[str, str]:
    """The first value of each parameter; repetitions are ignored."""
    firsts: dict[str, str] = {}
    for key, value in pairs:
        firsts.setdefault(key, value)
    return firsts


def parse_int64(text: str) -> int:
    """A parameter that is a 64-bit integer. Raises BadRequest with the wording of Go's ``strconv.ParseInt``."""
    # A number of more digits is out of range unless it has leading zeros, which nobody sends.
    if not _is_integer(text):
        raise BadRequest(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    number = int(text) if len(text) <= 100 else 2**63
    if not -(2**63) <= number < 2**63:
        raise BadRequest(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


def _optional_int64(text: str | None) -> int | None:
    return None if text is None else parse_int64(text)


def _truth(text: str) -> bool:
    return text != "0" and text.lower() != "false"


def _optional_truth(text: str | None) -> bool | None:
    return None if text is None else _truth(text)


def _refuse(kind: str, complaints: list[FieldError]) -> None:
    if complaints:
        raise InvalidObject(GroupKind("meta.k8s.io", kind), "", complaints)


# Reads --------------------------------------------------------------------------------------------

_GET = GetOptions()
_LIST = ListOptions()
_WATCH = ListOptions(watch=True, resource_version_match="NotOlderThan", send_initial_events=True)


def get_options(pairs: QueryPairs) -> GetOptions:
    """Options of GET on one object. Raises BadRequest."""
    if not pairs:
        return _GET
    firsts = _firsts(pairs)
    export = firsts.get("export")
    if export and _truth(export):
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    uninitialized = "includeUninitialized" in firsts and _truth(firsts["includeUninitialized"])
    version = firsts.get("resourceVersion", "")
    return GetOptions(version, uninitialized) if version or uninitialized else _GET


def list_options(pairs: QueryPairs, *, watch: bool | None = None) -> ListOptions:
    """Options of list, watch and deletecollection. `watch` overrides the parameter of that name.

    A watch without a resourceVersion and without sendInitialEvents gets initial events, as on servers with streaming
    lists. Raises BadRequest, InvalidObject.
    """
    if not pairs:
        return _WATCH if watch else _LIST
    firsts = _firsts(pairs)
    if watch is None:
        watch = "watch" in firsts and _truth(firsts["watch"])
    options = ListOptions(
        label_selector=firsts.get("labelSelector", ""),
        field_selector=firsts.get("fieldSelector", ""),
        watch=watch,
        allow_watch_bookmarks="allowWatchBookmarks" in firsts and _truth(firsts["allowWatchBookmarks"]),
        resource_version=firsts.get("resourceVersion", ""),
        resource_version_match=firsts.get("resourceVersionMatch", ""),
        timeout_seconds=_optional_int64(firsts.get("timeoutSeconds")),
        limit=parse_int64(firsts["limit"]) if "limit" in firsts else 0,
        continue_token=firsts.get("continue", ""),
        send_initial_events=_optional_truth(firsts.get("sendInitialEvents")),
        include_uninitialized="includeUninitialized" in firsts and _truth(firsts["includeUninitialized"]),
    )
    return _checked_watch(options) if watch else _checked_list(options)


def _checked_list(options: ListOptions) -> ListOptions:
    match = options.resource_version_match
    if not match and options.send_initial_events is None:
        return options
    complaints: list[FieldError] = []
    path = "resourceVersionMatch"
    if match:
        if not options.resource_version:
            complaints.append(Forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            complaints.append(Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            complaints.append(NotSupported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            complaints.append(Forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        complaints.append(Forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    _refuse("ListOptions", complaints)
    return options


def _checked_watch(options: ListOptions) -> ListOptions:
    options = _with_initial_events(options)
    match = options.resource_version_match
    complaints: list[FieldError] = []
    path = "resourceVersionMatch"
    if options.send_initial_events is not None and match != "NotOlderThan":
        complaints.append(Forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            complaints.append(Forbidden(path, why))
        if match != "NotOlderThan":
            complaints.append(NotSupported(path, match, ("NotOlderThan",)))
        if options.continue_token:
            complaints.append(Forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    _refuse("ListOptions", complaints)
    return options


def _with_initial_events(options: ListOptions) -> ListOptions:
    if options.send_initial_events is not None or options.resource_version_match:
        return options
    if options.resource_version not in ("", "0"):
        return options
    return replace(options, watch=True, resource_version_match="NotOlderThan", send_initial_events=True)


# Writes -------------------------------------------------------------------------------------------

_CREATE = CreateOptions()
_UPDATE = UpdateOptions()
_PATCH = PatchOptions()
_MAX_MANAGER_BYTES = 128
_VALIDATIONS: dict[str, FieldValidation] = {"": "Warn", "Ignore": "Ignore", "Warn": "Warn", "Strict": "Strict"}


def create_options(pairs: QueryPairs) -> CreateOptions:
    """Options of POST. Raises InvalidObject."""
    if not pairs:
        return _CREATE
    return CreateOptions(*_write_options("CreateOptions", pairs, _firsts(pairs), []))


def update_options(pairs: QueryPairs) -> UpdateOptions:
    """Options of PUT. Raises InvalidObject."""
    if not pairs:
        return _UPDATE
    return UpdateOptions(*_write_options("UpdateOptions", pairs, _firsts(pairs), []))


def patch_options(pairs: QueryPairs, *, is_apply: bool) -> PatchOptions:
    """Options of PATCH. Server-side apply requires a field manager; only it accepts `force`. Raises InvalidObject."""
    if not pairs and not is_apply:
        return _PATCH
    firsts = _firsts(pairs)
    force = _optional_truth(firsts.get("force"))
    complaints: list[FieldError] = []
    if is_apply and not firsts.get("fieldManager"):
        complaints.append(Required("fieldManager", "is required for apply patch"))
    elif not is_apply and force is not None:
        complaints.append(Forbidden("force", "may not be specified for non-apply patch"))
    return PatchOptions(*_write_options("PatchOptions", pairs, firsts, complaints), force=force)


def _write_options(
    kind: str, pairs: QueryPairs, firsts: Mapping[str, str], complaints: list[FieldError]
) -> tuple[bool, str, FieldValidation]:
    """The options common to all writes, in the order of the fields of `WriteOptions`."""
    manager = firsts.get("fieldManager", "")
    complaints.extend(_manager_complaints(manager))
    dry_run = [value for key, value in pairs if key == "dryRun"]
    complaints.extend(_dry_run_complaints(dry_run))
    validation = firsts.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        complaints.append(NotSupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    _refuse(kind, complaints)
    return bool(dry_run), manager, _VALIDATIONS[validation]


def _manager_complaints(manager: str) -> Iterable[FieldError]:
    if manager.isascii() and manager.isprintable() and len(manager) <= _MAX_MANAGER_BYTES:
        return
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        yield TooLong("fieldManager", _MAX_MANAGER_BYTES)
    position = 0
    for char in manager:
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {position})"
            yield Invalid("fieldManager", manager, why)
        position += len(char.encode())


def _dry_run_complaints(values: list[str]) -> list[FieldError]:
    return [NotSupported("dryRun", values, ("All",))] if any(value != "All" for value in values) else []


# Deletes ------------------------------------------------------------------------------------------

_DELETE = DeleteOptions()


def delete_options(pairs: QueryPairs) -> DeleteOptions:
    """Options of DELETE in the query string; used only when there is no body. Raises BadRequest, InvalidObject."""
    if not pairs:
        return _DELETE
    firsts = _firsts(pairs)
    return _checked_delete(
        grace=_optional_int64(firsts.get("gracePeriodSeconds")),
        preconditions=_preconditions(firsts.get("uid") or None, firsts.get("resourceVersion") or None),
        orphan=_optional_truth(firsts.get("orphanDependents")),
        policy=firsts.get("propagationPolicy"),
        dry_run=[value for key, value in pairs if key == "dryRun"],
        unsafe=bool(_optional_truth(firsts.get(UNSAFE))),
    )


def delete_options_from_tree(tree: Mapping[str, Any]) -> DeleteOptions:
    """Options of DELETE in the body. Raises BadRequest, InvalidObject; StatusError for an object of another kind."""
    kind = tree.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise StatusError(
            f"converting ({tree.get('apiVersion', 'v1')}.{kind}) to (v1.DeleteOptions): unknown conversion"
        )
    before: Mapping[str, Any] = _typed(tree, "preconditions", dict) or {}
    dry_run: list[str] = _typed(tree, "dryRun", list) or []
    for value in dry_run:
        if not isinstance(value, str):
            raise _mistyped("dryRun", str, value)
    return _checked_delete(
        grace=_typed(tree, "gracePeriodSeconds", int),
        preconditions=_preconditions(
            _typed(before, "uid", str, "preconditions."),
            _typed(before, "resourceVersion", str, "preconditions."),
        ),
        orphan=_typed(tree, "orphanDependents", bool),
        policy=_typed(tree, "propagationPolicy", str),
        dry_run=dry_run,
        unsafe=bool(_typed(tree, UNSAFE, bool)),
    )


def _checked_delete(
    *,
    grace: int | None,
    preconditions: Preconditions | None,
    orphan: bool | None,
    policy: str | None,
    dry_run: list[str],
    unsafe: bool,
) -> DeleteOptions:
    complaints: list[FieldError] = []
    if unsafe:
        others = {
            "dryRun": dry_run or None,
            "propagationPolicy": policy,
            "orphanDependents": orphan,
            "gracePeriodSeconds": grace,
            "preconditions": preconditions,
        }
        given = [name for name, value in others.items() if value is not None]
        complaints.extend(Invalid(UNSAFE, True, f"cannot be set together with .{name}") for name in given)
    if orphan is not None and policy is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        complaints.append(Invalid("propagationPolicy", policy, why))
    if policy not in (None, "Foreground", "Background", "Orphan"):
        complaints.append(NotSupported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    complaints.extend(_dry_run_complaints(dry_run))
    _refuse("DeleteOptions", complaints)
    # Kubernetes reads a negative grace period as "immediately, but not forced".
    grace = 1 if grace is not None and grace < 0 else grace
    return DeleteOptions(grace, preconditions, orphan, policy, bool(dry_run), unsafe)


def _preconditions(uid: str | None, resource_version: str | None) -> Preconditions | None:
    return None if uid is None and resource_version is None else Preconditions(uid, resource_version)


_NAMES = {bool: "true or false", int: "an integer", str: "a string", list: "an array", dict: "an object"}


def _typed(tree: Mapping[str, Any], field: str, expected: type, path: str = "") -> Any:
    value = tree.get(field)
    if value is None:
        return None
    if type(value) is not expected or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        raise _mistyped(path + field, expected, value)
    return value


def _mistyped(path: str, expected: type, value: Any) -> BadRequest:
    return BadRequest(f"DeleteOptions.{WrongType(path, _NAMES[expected], value, shown=True).message}")
