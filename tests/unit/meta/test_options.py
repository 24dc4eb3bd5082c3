"""Options of every verb, from query strings and bodies: what is read, what is refused and in which words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import options_parse
from oarlock.meta.errors import BadRequest, InvalidObject, StatusError
from oarlock.meta.options import (
    CreateOptions,
    DeleteOptions,
    GetOptions,
    ListOptions,
    PatchOptions,
    Preconditions,
    UpdateOptions,
)

Vectors = Callable[[str], Any]
Pairs = list[tuple[str, str]]

GATE = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"


# Query strings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        ("", []),
        ("a=1&b=2", [("a", "1"), ("b", "2")]),
        ("a=1&a=2", [("a", "1"), ("a", "2")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("&&a=1&", [("a", "1")]),
        ("labelSelector=app+in+(x,y)", [("labelSelector", "app in (x,y)")]),
        ("labelSelector=app%3D%3Dx%2By", [("labelSelector", "app==x+y")]),
        ("a=b=c", [("a", "b=c")]),
        ("%61=%C3%A9", [("a", "é")]),
        ("a=%ff", [("a", "\ufffd")]),
    ],
)
def test_query_strings(query: str, pairs: Pairs) -> None:
    assert options_parse.parse_query(query) == pairs


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("a=%zz", 'invalid URL escape "%zz"'),
        ("a=%", 'invalid URL escape "%"'),
        ("a=%4", 'invalid URL escape "%4"'),
        ("a=1;b=2", "invalid semicolon separator in query"),
        ("&".join(["a=1"] * 20_000), "number of URL query parameters exceeded limit of 10000"),
    ],
)
def test_query_strings_that_cannot_be_read(query: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        options_parse.parse_query(query)
    assert caught.value.message == message


@given(st.text(alphabet="ab=&%+;0fé\ud800\0", max_size=30))
def test_any_query_string_is_read_or_refused(query: str) -> None:
    try:
        pairs = options_parse.parse_query(query)
    except BadRequest:
        return
    for read in (options_parse.list_options, options_parse.delete_options, options_parse.create_options):
        try:
            read(pairs)
        except (BadRequest, InvalidObject):
            pass


# Lists and watches --------------------------------------------------------------------------------


def _pairs(opts: dict[str, Any]) -> Pairs:
    return [(k[0].lower() + k[1:], json.dumps(v) if isinstance(v, bool) else str(v)) for k, v in opts.items()]


def test_the_rules_of_list_options(shared_vectors: Vectors) -> None:
    for case in shared_vectors("list_semantics.json")["groups"]["list_options_internalversion"]:
        # Streaming lists are always served here, so what is said without their feature gate is never said.
        expected = [text for text in case.get("expectErrors", ()) if GATE not in text]
        try:
            options_parse.list_options(_pairs(case.get("opts", {})))
            found = []
        except InvalidObject as error:
            found = [one.message for one in error.errors]
        assert found == expected, case["name"]


def test_list_options() -> None:
    query = "labelSelector=a&fieldSelector=b%3Dc&limit=5&continue=t&timeoutSeconds=7&allowWatchBookmarks=1&foo=bar"
    assert options_parse.list_options(options_parse.parse_query(query)) == ListOptions(
        label_selector="a",
        field_selector="b=c",
        limit=5,
        continue_token="t",
        timeout_seconds=7,
        allow_watch_bookmarks=True,
    )
    assert options_parse.list_options([]) == ListOptions()


@pytest.mark.parametrize(
    ("value", "watch"),
    [("", True), ("1", True), ("true", True), ("bogus", True), ("0", False), ("false", False), ("FALSE", False)],
)
def test_only_false_and_0_are_false(value: str, watch: bool) -> None:
    assert options_parse.list_options([("watch", value)]).watch is watch
    assert options_parse.list_options([("watch", value)], watch=False).watch is False


def test_a_watch_from_nowhere_begins_with_the_state() -> None:
    for pairs in ([], [("resourceVersion", "0")], [("resourceVersion", "")]):
        options = options_parse.list_options(pairs, watch=True)
        assert options.send_initial_events is True
        assert options.resource_version_match == "NotOlderThan"
    assert options_parse.list_options([("resourceVersion", "5")], watch=True).send_initial_events is None


def test_a_watch_has_no_continue() -> None:
    with pytest.raises(InvalidObject) as caught:
        options_parse.list_options([("watch", "1"), ("continue", "x")])
    assert caught.value.message == (
        'ListOptions.meta.k8s.io "" is invalid: '
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("limit", "abc"), 'strconv.ParseInt: parsing "abc": invalid syntax'),
        (("limit", ""), 'strconv.ParseInt: parsing "": invalid syntax'),
        (("limit", "1_0"), 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        (("limit", "٣"), 'strconv.ParseInt: parsing "٣": invalid syntax'),
        (
            ("timeoutSeconds", "9223372036854775808"),
            'strconv.ParseInt: parsing "9223372036854775808": value out of range',
        ),
        (("timeoutSeconds", "1.5"), 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    ],
)
def test_numbers_that_are_none(pair: tuple[str, str], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        options_parse.list_options([pair])
    assert caught.value.message == message


def test_the_first_of_repeated_parameters_counts() -> None:
    assert options_parse.list_options([("limit", "1"), ("limit", "x")]).limit == 1


def test_get_options() -> None:
    assert options_parse.get_options([]) == GetOptions()
    assert options_parse.get_options([("resourceVersion", "7")]) == GetOptions("7")
    assert options_parse.get_options([("export", "false"), ("pretty", "1")]) == GetOptions()
    with pytest.raises(BadRequest, match=r"the export parameter, deprecated since v1\.14, is no longer supported"):
        options_parse.get_options([("export", "true")])


# Writes -------------------------------------------------------------------------------------------


def _message(raised: Callable[[], Any]) -> str:
    with pytest.raises(InvalidObject) as caught:
        raised()
    return caught.value.message


def test_write_options() -> None:
    query = [("dryRun", "All"), ("dryRun", "All"), ("fieldManager", "me"), ("fieldValidation", "Strict")]
    assert options_parse.create_options(query) == CreateOptions(True, "me", "Strict")
    assert options_parse.update_options(query) == UpdateOptions(True, "me", "Strict")
    assert options_parse.patch_options([*query, ("force", "1")], is_apply=True) == PatchOptions(
        True, "me", "Strict", True
    )
    assert options_parse.create_options([]) == CreateOptions(False, "", "Warn")
    assert options_parse.update_options([("pretty", "1")]) == UpdateOptions()
    assert options_parse.patch_options([], is_apply=False) == PatchOptions()


def test_dry_run_has_one_value(shared_vectors: Vectors) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    for values in groups["ValidDryRun.tests"]:
        assert options_parse.create_options([("dryRun", value) for value in values]).dry_run is bool(values)
    for values in groups["InvalidDryRun.tests"]:
        shown = json.dumps(values, separators=(",", ":"))
        assert _message(lambda values=values: options_parse.create_options([("dryRun", v) for v in values])) == (
            f'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: {shown}: supported values: "All"'
        )


def test_field_validation_has_three() -> None:
    assert _message(lambda: options_parse.create_options([("fieldValidation", "Bogus")])) == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Bogus": '
        'supported values: "", "Ignore", "Strict", "Warn"'
    )


def test_field_managers(shared_vectors: Vectors) -> None:
    for manager in shared_vectors("validation_names.json")["groups"]["ValidateFieldManagerValid.tests"]:
        assert options_parse.update_options([("fieldManager", manager)]).field_manager == manager
    assert _message(lambda: options_parse.update_options([("fieldManager", "é" * 65)])) == (
        'UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes'
    )
    assert _message(lambda: options_parse.update_options([("fieldManager", "é\x01")])) == (
        'UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "é\\x01": '
        "invalid character U+0001 (at position 2)"
    )


def _patch_pairs(opts: dict[str, Any]) -> Pairs:
    return _pairs({key: value for key, value in opts.items() if key != "$type"})


def test_patch_options(shared_vectors: Vectors) -> None:
    groups = shared_vectors("validation_names.json")["groups"]
    for case in groups["validation.TestValidPatchOptions.tests"]:
        options_parse.patch_options(_patch_pairs(case.get("opts", {})), is_apply="apply" in case["patchType"])
    for case in groups["validation.TestInvalidPatchOptions.tests"]:
        with pytest.raises(InvalidObject):
            options_parse.patch_options(_patch_pairs(case.get("opts", {})), is_apply="apply" in case["patchType"])
    assert _message(lambda: options_parse.patch_options([("force", "true")], is_apply=False)) == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )
    assert _message(lambda: options_parse.patch_options([], is_apply=True)) == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


# Deletes ------------------------------------------------------------------------------------------

# `ValidateDeleteOptionsWithIgnoreStoreReadError` of the shared table is left out: deleting what can't be read is
# not served, and the option is ignored as it is by servers without the feature.


def test_delete_options_in_the_query() -> None:
    query = "gracePeriodSeconds=5&propagationPolicy=Foreground&dryRun=All&uid=u&resourceVersion=7"
    assert options_parse.delete_options(options_parse.parse_query(query)) == DeleteOptions(
        5, Preconditions("u", "7"), None, "Foreground", True
    )
    assert options_parse.delete_options([]) == DeleteOptions()
    assert options_parse.delete_options([("orphanDependents", "false")]).orphan_dependents is False


def test_a_negative_grace_period_is_one_second() -> None:
    assert options_parse.delete_options([("gracePeriodSeconds", "-1")]).grace_period_seconds == 1
    assert options_parse.delete_options_from_tree({"gracePeriodSeconds": -5}).grace_period_seconds == 1
    assert options_parse.delete_options_from_tree({"gracePeriodSeconds": 0}).grace_period_seconds == 0


def test_delete_options_in_the_body() -> None:
    tree = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 5,
        "preconditions": {"uid": "u"},
        "orphanDependents": True,
        "dryRun": ["All"],
        "unknown": 1,
    }
    assert options_parse.delete_options_from_tree(tree) == DeleteOptions(5, Preconditions("u", None), True, None, True)
    assert options_parse.delete_options_from_tree({}) == DeleteOptions()
    assert options_parse.delete_options_from_tree({"preconditions": {}}).preconditions is None


def test_delete_options_that_are_refused() -> None:
    both = {"orphanDependents": True, "propagationPolicy": "Foreground"}
    assert _message(lambda: options_parse.delete_options_from_tree(both)) == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Foreground": '
        "orphanDependents and deletionPropagation cannot be both set"
    )
    assert _message(lambda: options_parse.delete_options([("propagationPolicy", "Bogus")])) == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Bogus": '
        'supported values: "Foreground", "Background", "Orphan", "nil"'
    )
    with pytest.raises(StatusError) as caught:
        options_parse.delete_options_from_tree({"apiVersion": "v1", "kind": "Status"})
    assert (caught.value.code, caught.value.message) == (
        500,
        "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
    )


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"gracePeriodSeconds": "5"}, 'gracePeriodSeconds: expected an integer, got "5"'),
        ({"gracePeriodSeconds": True}, "gracePeriodSeconds: expected an integer, got true"),
        ({"gracePeriodSeconds": 1.5}, "gracePeriodSeconds: expected an integer, got 1.5"),
        ({"dryRun": "All"}, 'dryRun: expected an array, got "All"'),
        ({"dryRun": [1]}, "dryRun: expected a string, got 1"),
        ({"preconditions": []}, "preconditions: expected an object, got an array"),
        ({"preconditions": {"uid": 1}}, "preconditions.uid: expected a string, got 1"),
    ],
)
def test_delete_options_of_wrong_types(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        options_parse.delete_options_from_tree(tree)
    assert caught.value.message == f"DeleteOptions.{message}"


def test_the_recorded_refusals(golden: list[dict[str, Any]]) -> None:
    """What the Go server answered to bad options is what these readers raise."""
    readers: dict[str, Callable[[Pairs], Any]] = {
        "POST": options_parse.create_options,
        "PATCH": lambda pairs: options_parse.patch_options(pairs, is_apply=False),
        "GET": options_parse.list_options,
        "DELETE": options_parse.delete_options,
    }
    seen = 0
    for exchange in golden:
        response, request = exchange.get("response"), exchange["request"]
        if not response or response["status"] not in (400, 422) or request["method"] not in readers:
            continue
        status = json.loads(response["body"]) if response["body"].startswith("{") else {}
        about_options = "Options.meta.k8s.io" in status.get("message", "") or "strconv" in status.get("message", "")
        if not about_options or "apply" in exchange["desc"] or "resource version" in status["message"]:
            continue
        if request["method"] == "DELETE" and request.get("body"):
            body = json.loads(request["body"])
            with pytest.raises(StatusError) as caught:
                options_parse.delete_options_from_tree(body)
        else:
            pairs = options_parse.parse_query(request["path"].partition("?")[2])
            with pytest.raises(StatusError) as caught:
                readers[request["method"]](pairs)
        assert caught.value.status() == status, exchange["desc"]
        seen += 1
    assert seen >= 8
