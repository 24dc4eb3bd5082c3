"""Options of requests, by cases of our own: which go together, and which values they have."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from oarlock.meta import continuation, options_parse
from oarlock.meta.continuation import InvalidContinue, InvalidResourceVersion
from oarlock.meta.errors import BadRequest, InvalidObject
from oarlock.meta.options import ListOptions


def refusals(query: str) -> list[str]:
    try:
        options_parse.list_options(options_parse.parse_query(query))
    except InvalidObject as error:
        return [one.path for one in error.errors]
    return []


@pytest.mark.parametrize(
    "query",
    [
        "",
        "limit=5",
        "resourceVersion=0",
        "resourceVersion=7",
        "resourceVersion=7&resourceVersionMatch=Exact&limit=5",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "continue=t&limit=2",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ],
)
def test_lists_that_can_be_asked_for(query: str) -> None:
    assert refusals(query) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersionMatch=NotOlderThan", "resourceVersionMatch"),
        ("resourceVersion=7&resourceVersionMatch=Newest", "resourceVersionMatch"),
        ("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("continue=t&resourceVersion=7&resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents"),
        ("watch=1&sendInitialEvents=true", "resourceVersionMatch"),
        ("watch=1&resourceVersion=7&resourceVersionMatch=Exact", "resourceVersionMatch"),
    ],
)
def test_lists_that_cannot(query: str, field: str) -> None:
    assert field in refusals(query)


def token(**fields: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def test_a_continue_token_says_revision_and_key() -> None:
    assert continuation.decode(token(v="meta.k8s.io/v1", rv=9, start="b")) == (9, "b")
    assert continuation.decode(continuation.encode(7, "ns/x\0")) == (7, "ns/x\0")


@pytest.mark.parametrize(
    "bad",
    [
        "!",
        "bm8ganNvbg",
        token(v="meta.k8s.io/v1", rv=9),
        token(v="meta.k8s.io/v1", rv=0, start="b"),
        token(v="meta.k8s.io/v2", rv=9, start="b"),
        token(v="", rv=9, start="b"),
        token(v="meta.k8s.io/v1", rv=9, start="../b"),
    ],
)
def test_tokens_of_others_are_refused(bad: str) -> None:
    with pytest.raises(InvalidContinue):
        continuation.decode(bad)


def test_where_a_list_is_read() -> None:
    assert continuation.list_position(ListOptions()) == (0, "")
    assert continuation.list_position(ListOptions(resource_version="7", resource_version_match="Exact")) == (7, "")
    assert continuation.list_position(ListOptions(resource_version="7", limit=5)) == (7, "")
    assert continuation.list_position(ListOptions(continue_token=continuation.encode(9, "b"))) == (9, "b")
    with pytest.raises(BadRequest, match="not allowed when using continue"):
        continuation.list_position(ListOptions(continue_token=continuation.encode(9, "b"), resource_version="7"))
    with pytest.raises(BadRequest, match="invalid resource version"):
        continuation.list_position(ListOptions(resource_version="x"))


def test_resource_versions_are_whole_numbers() -> None:
    assert [continuation.parse_resource_version(text) for text in ("", "0", "12")] == [0, 0, 12]
    for text in ("a", "-1", "1.0", " 1", "1e3"):
        with pytest.raises(InvalidResourceVersion):
            continuation.parse_resource_version(text)


def test_writes_are_tried_or_done() -> None:
    assert options_parse.create_options([]).dry_run is False
    assert options_parse.create_options([("dryRun", "All")]).dry_run is True
    assert options_parse.update_options([("dryRun", "All"), ("dryRun", "All")]).dry_run is True
    for values in (["true"], ["all"], ["All", "None"]):
        with pytest.raises(InvalidObject):
            options_parse.create_options([("dryRun", value) for value in values])


def test_a_field_manager_is_printable_and_short() -> None:
    for manager in ("ctl", "名前", "m" * 128):
        assert options_parse.update_options([("fieldManager", manager)]).field_manager == manager
    for manager in ("m" * 129, "a\tb"):
        with pytest.raises(InvalidObject):
            options_parse.update_options([("fieldManager", manager)])


@pytest.mark.parametrize(
    ("query", "is_apply", "right"),
    [
        ("fieldManager=m", True, True),
        ("fieldManager=m&force=true", True, True),
        ("force=true", True, False),
        ("", True, False),
        ("", False, True),
        ("fieldManager=m", False, True),
        ("fieldManager=m&force=false", False, False),
    ],
)
def test_only_applies_are_forced_and_they_have_a_manager(query: str, is_apply: bool, right: bool) -> None:
    pairs = options_parse.parse_query(query)
    if right:
        options_parse.patch_options(pairs, is_apply=is_apply)
    else:
        with pytest.raises(InvalidObject):
            options_parse.patch_options(pairs, is_apply=is_apply)
