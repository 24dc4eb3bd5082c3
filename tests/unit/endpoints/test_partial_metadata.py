"""Objects reduced to their metadata, cut out of bytes without parsing the rest."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.endpoints.in_protobuf import metadata_of, partial, partial_list_head

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def partial_list(items, meta, version="v1"):
    return partial_list_head(meta, version) + b",".join(items) + b"]}"


def test_lists_are_as_recorded(recorded):
    exchange = recorded(215)
    want = exchange["tree"]
    objects = [
        json.dumps({"apiVersion": "v", "kind": "K", "metadata": i["metadata"], "spec": {}}) for i in want["items"]
    ]
    items = [partial(body.encode()) for body in objects]
    assert json.loads(partial_list(items, want["metadata"])) == want


def test_the_other_version_of_the_api():
    got = json.loads(partial_list([partial(b'{"metadata":{"name":"a"}}', "v1beta1")], {}, "v1beta1"))
    assert got["apiVersion"] == got["items"][0]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_an_empty_list_has_items():
    assert json.loads(partial_list([], {"resourceVersion": "3"}))["items"] == []


def test_a_tail_without_its_opening_brace_will_do():
    assert partial(b'"metadata":{"name":"a"},"spec":{"metadata":{"name":"b"}}}') == partial(
        b'{"metadata":{"name":"a"}}'
    )


def test_bytes_are_kept_as_they_are():
    assert metadata_of(b'{"kind":"K","metadata":{"name":"\\u003ca>"}}') == b'{"name":"\\u003ca>"}'


@pytest.mark.parametrize("body", [b"", b"[]", b'{"metadata":', b'{"metadata":{}} x', b"null"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(msgspec.DecodeError):
        partial(body)


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_any_metadata_comes_out_whole(metadata, rest):
    tree = {**rest, "metadata": metadata}
    for body in (tree, {"metadata": metadata, **{k: v for k, v in rest.items() if k != "metadata"}}):
        assert json.loads(metadata_of(json.dumps(body).encode())) == metadata
        assert json.loads(metadata_of(json.dumps(body, ensure_ascii=False).encode())) == metadata
