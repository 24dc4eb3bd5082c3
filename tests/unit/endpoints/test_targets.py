"""Paths, methods and queries become targets, for the router and for authorization alike."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.endpoints.routing.find_route import parse_target
from oarlock.meta.context import Target
from oarlock.meta.errors import BadRequest


def target_of(method: str, url: str) -> Target:
    parts = urlsplit(url)
    return parse_target(method, parts.path, parse_qsl(parts.query, keep_blank_values=True))


def test_the_shared_table_of_requests(shared_vectors):
    for case in shared_vectors("http_requests.json")["groups"]["request.TestGetAPIRequestInfo.successCases"]:
        target = target_of(case["method"], case["url"])
        parts = case["expectedParts"]
        assert target.verb == case["expectedVerb"], case
        assert target.resource == case["expectedResource"], case
        assert target.version == case["expectedAPIVersion"], case
        assert target.group == case.get("expectedAPIGroup", ""), case
        assert target.namespace == case.get("expectedNamespace", ""), case
        assert target.name == case.get("expectedName", ""), case
        assert target.subresource == case.get("expectedSubresource", ""), case
        rest = parts[2:] if target.verb == "proxy" else parts[3:]
        assert target.path == "/".join(rest), case


def test_the_shared_table_of_paths_that_are_no_resources(shared_vectors):
    groups = shared_vectors("http_requests.json")["groups"]
    for case in groups["request.TestGetNonAPIRequestInfo.tests"]:
        assert bool(target_of("GET", case.get("url", "")).resource) == case.get("expected", False), case
    for case in groups["request.TestGetAPIRequestInfo.errorCases"]:
        target = target_of("GET", case["value"])
        assert (target.resource, target.verb, target.path) == ("", "get", case["value"]), case


def test_the_shared_table_of_selectors(shared_vectors):
    for case in shared_vectors("http_requests.json")["groups"]["request.TestSelectorParsing.tests"]:
        target = target_of(case["method"], case["url"])
        assert (target.verb, target.name) == (case["expectedVerb"], case.get("expectedName", "")), case


@pytest.mark.parametrize(
    ("query", "verb"),
    [("watch", "watch"), ("watch=", "watch"), ("watch=yes", "watch"), ("watch=False", "list"), ("watch=0", "list")],
)
def test_anything_but_false_and_0_is_a_watch(query, verb):
    assert target_of("GET", f"/apis/g/v1/things?{query}").verb == verb


def test_the_first_watch_counts():
    assert target_of("GET", "/apis/g/v1/things?watch=0&watch=1").verb == "list"


def test_the_query_is_not_asked_for_without_need():
    def query():
        raise AssertionError("asked for")

    assert parse_target("GET", "/apis/g/v1/things/a", query).verb == "get"
    assert parse_target("DELETE", "/apis/g/v1/things/a", query).verb == "delete"


@pytest.mark.parametrize(("method", "query", "verb"), [("GET", "", "list"), ("GET", "watch=1&", "watch")])
def test_selectors_are_part_of_what_is_asked_about_a_collection(method, query, verb):
    asked = target_of(method, f"/apis/g/v1/things?{query}labelSelector=a%3Db&fieldSelector=x%3D1&fieldSelector=y%3D2")
    assert (asked.verb, asked.label_selector, asked.field_selector) == (verb, "a=b", "x=1")
    of_one = target_of(method, "/apis/g/v1/things/a?labelSelector=a%3Db")
    assert (of_one.label_selector, of_one.field_selector) == ("", "")


def test_so_they_are_of_a_deleted_collection():
    asked = target_of("DELETE", "/apis/g/v1/things?labelSelector=a%3Db")
    assert (asked.verb, asked.label_selector) == ("deletecollection", "a=b")


@pytest.mark.parametrize(
    "selector", ["metadata.name=a/b", "metadata.name=..", "metadata.name=a%25", "metadata.name!=a"]
)
def test_a_selected_name_is_only_taken_when_it_could_be_a_path_segment(selector):
    assert target_of("GET", f"/apis/g/v1/things?fieldSelector={selector}").name == ""


def test_a_selected_name_beside_other_terms():
    assert target_of("GET", "/apis/g/v1/things?fieldSelector=spec.a=1,metadata.name==x").name == "x"


def test_segments_are_percent_decoded_before_they_are_split():
    assert parse_target("GET", "/apis/g/v1/things/caf%C3%A9").name == "café"
    target = parse_target("GET", "/apis/g/v1/things/a%2Fstatus")
    assert (target.name, target.subresource) == ("a", "status")


@pytest.mark.parametrize("path", ["/apis/g/v1/things/%zz", "/apis/g/v1/things/%", "/nope/%4", "/apis/g/v1/things/%ff"])
def test_bad_percent_encoding_is_a_bad_request(path):
    with pytest.raises(BadRequest):
        parse_target("GET", path)


@pytest.mark.parametrize("path", ["/apis//v1/things", "/apis/g/v1/things//status", "/apis/g/v1/things/%00"])
def test_an_empty_segment_or_a_nul_names_no_resource(path):
    assert parse_target("GET", path).resource == ""


def test_a_legacy_watch_path_that_names_nothing():
    with pytest.raises(BadRequest, match="unable to determine kind and namespace from url"):
        parse_target("GET", "/apis/g/v1/watch")


def test_unknown_methods_have_no_verb():
    assert parse_target("BREW", "/apis/g/v1/things/a").verb == ""
    assert parse_target("BREW", "/version").verb == "brew"


def test_what_follows_a_subresource_is_kept():
    assert parse_target("GET", "/apis/g/v1/namespaces/n/things/a/status/more/yet").path == "more/yet"


@given(st.sampled_from(["GET", "DELETE", "X"]), st.text(), st.lists(st.tuples(st.text(), st.text())))
def test_no_path_breaks_it(method, path, query):
    try:
        target = parse_target(method, "/apis/" + path, query)
    except BadRequest:
        return
    assert isinstance(target, Target)
