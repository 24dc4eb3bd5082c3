"""Accept and Content-Type: what is agreed on, and the words when nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.endpoints.respond import (
    JSON,
    MERGE_PATCH,
    PROTOBUF,
    YAML,
    Accepted,
    content_type,
    negotiate,
    negotiate_discovery,
    parse_accept,
    patch_type,
    wants_pretty,
    wrong_plurality,
)
from oarlock.meta.errors import NotAcceptable, UnsupportedMediaType

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
LISTED = f"only the following media types are accepted: application/json, application/yaml, {PROTOBUF}"


def test_the_shared_table(shared_vectors):
    for case in shared_vectors("http_requests.json")["groups"]["negotiate"]:
        header = (case.get("req") or {}).get("Header", {})
        query = (case.get("req") or {}).get("URL", {}).get("RawQuery", "")
        accept = case.get("accept", header.get("Accept", [""])[0])
        allowed = case["ns"].get("types", [])
        if "errFn" in case:
            if allowed == []:
                continue  # a server that can encode nothing
            with pytest.raises(NotAcceptable):
                negotiate(accept, allowed=allowed, transforms=False)
            continue
        accepted = negotiate(accept, allowed=allowed, transforms=False)
        assert accepted.media_type == case["contentType"], case
        agent = header.get("User-Agent", [""])[0]
        pretty = wants_pretty(accepted, query.partition("=")[2] or None, agent)
        assert pretty == (case.get("params", {}).get("pretty") == "1"), case


def test_the_shared_table_of_aggregated_discovery(shared_vectors):
    for case in shared_vectors("http_requests.json")["groups"]["aggregated_discovery_accept"]:
        accept = case["accept"]
        if "v2beta1" in accept:
            continue  # the beta version is gone
        aggregated = negotiate_discovery(accept, aggregated=True).as_kind is not None
        assert aggregated == (case["expected"] != "unaggregated"), case


def test_kubectl_gets_its_table():
    assert negotiate(KUBECTL, transforms=True) == Accepted(JSON, "Table", "v1")


def test_a_table_falls_through_where_there_is_none():
    assert negotiate(KUBECTL, transforms=False) == Accepted(JSON)


@pytest.mark.parametrize(
    "clause",
    [
        "application/json;as=Bogus;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=other",
        "application/json;as=Table",
        "application/json;stream=other",
        "application/json;sv=v9",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    ],
)
def test_a_clause_that_cannot_be_met(clause):
    with pytest.raises(NotAcceptable) as failure:
        negotiate(clause, transforms=True)
    assert failure.value.message == LISTED
    assert negotiate(f"{clause},application/yaml", transforms=True).media_type == YAML


def test_json_answers_a_client_that_prefers_protobuf():
    assert negotiate("application/vnd.kubernetes.protobuf,application/json", transforms=True).media_type == JSON


def test_protobuf_alone_is_told_what_there_is():
    with pytest.raises(NotAcceptable, match=r"accepted: application/json, application/yaml, application/cbor$"):
        negotiate(PROTOBUF, transforms=True)


def test_metadata_can_be_had_in_protobuf():
    asked = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    accepted = negotiate(f"{asked},application/json", transforms=True)
    assert accepted == Accepted(PROTOBUF, "PartialObjectMetadata", "v1", response_content_type=PROTOBUF)
    watched = negotiate(f"{asked},application/json", transforms=True, stream=True)
    assert watched.response_content_type == f"{PROTOBUF};stream=watch"
    assert negotiate(PROTOBUF, transforms=False, protobuf=True).media_type == PROTOBUF
    assert negotiate("*/*", transforms=True, protobuf=True).media_type == JSON
    assert negotiate_discovery(PROTOBUF, aggregated=True) == Accepted(PROTOBUF, response_content_type=PROTOBUF)


def test_a_media_type_the_api_does_not_know():
    with pytest.raises(NotAcceptable) as failure:
        negotiate("application/msgpack", transforms=True, collection=True)
    assert failure.value.details == {}
    assert failure.value.message == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )


def test_cbor_is_for_objects():
    assert negotiate("application/cbor", transforms=True).response_content_type == "application/cbor"
    assert negotiate("application/cbor;as=Table;g=meta.k8s.io;v=v1", transforms=True).as_kind == "Table"
    assert negotiate("application/*", transforms=True).media_type == JSON
    with pytest.raises(NotAcceptable):
        negotiate_discovery("application/cbor", aggregated=True)
    for accept in ("application/cbor", "application/cbor-seq", "application/cbor;stream=watch"):
        assert negotiate(accept, transforms=True, stream=True).response_content_type == "application/cbor-seq"
    with pytest.raises(NotAcceptable):
        negotiate("application/cbor-seq", transforms=True)


def test_a_watch_is_json():
    assert negotiate("", transforms=True, stream=True).media_type == JSON
    assert negotiate("application/json;stream=watch", transforms=True, stream=True).media_type == JSON
    with pytest.raises(NotAcceptable) as failure:
        negotiate("application/yaml", transforms=True, stream=True)
    assert failure.value.message == (
        "only the following media types are accepted: "
        "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    )


def test_quality_orders_clauses_and_zero_refuses():
    assert negotiate("application/json;q=0.2, application/yaml;q=0.9", transforms=False).media_type == YAML
    assert negotiate("*/*, application/yaml", transforms=False).media_type == YAML
    assert negotiate("text/html,application/xhtml+xml,*/*;q=0.8", transforms=False).media_type == JSON
    with pytest.raises(NotAcceptable):
        negotiate("application/json;q=0", transforms=False)


def test_aggregated_discovery_echoes_its_parameters():
    v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    beta = v2.replace("v=v2", "v=v2beta1")
    assert negotiate_discovery(f"{v2},{beta},application/json", aggregated=True).response_content_type == v2
    assert negotiate_discovery(f"{beta},{v2}", aggregated=True).response_content_type == v2
    assert negotiate_discovery(f"{beta},application/json", aggregated=True).as_kind is None
    assert negotiate_discovery(f"{v2};profile=nopeer", aggregated=True).as_kind == "APIGroupDiscoveryList"
    with pytest.raises(NotAcceptable) as failure:
        negotiate_discovery(beta, aggregated=True)
    assert failure.value.message == LISTED
    with pytest.raises(NotAcceptable):
        negotiate_discovery(v2, aggregated=False)


def test_metadata_of_one_and_of_many_are_told_apart():
    error = wrong_plurality("PartialObjectMetadata", listed=True, group="wardle.example.com", kind="FlunderList")
    assert error is not None
    assert (
        error.message == "you requested PartialObjectMetadata, but the requested object is a list (*wardle.FlunderList)"
    )
    error = wrong_plurality("PartialObjectMetadataList", listed=False, group="wardle.example.com", kind="Flunder")
    assert error is not None
    assert error.message == (
        "you requested PartialObjectMetadataList, but the requested object is not a list (*wardle.Flunder)"
    )
    assert wrong_plurality("Table", listed=True, group="g", kind="K") is None


def test_bodies_name_their_media_type():
    assert content_type("") == JSON
    assert content_type("Application/JSON ; charset=utf-8") == JSON
    assert content_type("json") == ""
    assert content_type("a/b/c") == ""
    assert content_type("application/yaml") == YAML


def test_patches_name_their_kind():
    assert patch_type("application/merge-patch+json; charset=utf-8", [MERGE_PATCH], typed=True) == MERGE_PATCH
    for header in ("application/json", ""):
        with pytest.raises(UnsupportedMediaType) as failure:
            patch_type(header, [MERGE_PATCH], typed=True)
        assert failure.value.message == "415: Unsupported Media Type"
        assert failure.value.details == {}
        with pytest.raises(UnsupportedMediaType) as failure:
            patch_type(header, [MERGE_PATCH], typed=False)
        assert failure.value.message.endswith("include: application/merge-patch+json")
    with pytest.raises(UnsupportedMediaType) as failure:
        patch_type("application/strategic-merge-patch+json", [MERGE_PATCH], typed=True)
    assert failure.value.message.endswith("include: application/merge-patch+json")


def test_a_long_accept_is_read_up_to_a_limit():
    assert len(parse_accept(",".join(["application/json"] * 10_000))) == 64
    assert negotiate(" , ;;, application/json", transforms=False).media_type == JSON


@given(st.text())
def test_no_header_breaks_it(header):
    try:
        negotiate(header, transforms=True)
        negotiate_discovery(header, aggregated=True)
    except NotAcceptable:
        pass
    content_type(header)


def test_of_a_clause_with_very_many_parameters_the_first_count() -> None:
    [clause] = parse_accept("application/json;as=Table" + ";a=b" * 100_000 + ";q=0")
    assert clause.params[0] == ("as", "Table")
    assert len(clause.params) < 16
