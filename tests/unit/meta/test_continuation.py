"""Continue tokens and resource versions: made here, read with suspicion."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta import continuation
from oarlock.meta.continuation import InvalidContinue, InvalidResourceVersion
from oarlock.meta.errors import BadRequest
from oarlock.meta.options import ListOptions

Vectors = Callable[[str], Any]


def test_decoding(shared_vectors: Vectors) -> None:
    for case in shared_vectors("list_semantics.json")["groups"]["decode_continue"]:
        token, prefix = case["args"]["continueValue"], case["args"]["keyPrefix"]
        if "wantErr" in case:
            with pytest.raises(InvalidContinue) as caught:
                continuation.decode(token)
            assert str(caught.value).startswith(f"invalid continue token: {case['wantErr']['$error']}"), case["name"]
        else:
            rev, start = continuation.decode(token)
            assert (rev, prefix + start) == (case["wantRv"], case["wantFromKey"])


def test_a_token_is_the_recorded_one() -> None:
    token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTgsInN0YXJ0IjoiL2JcdTAwMDAifQ"
    assert continuation.encode(18, "b\0") == token
    assert continuation.decode(token) == (18, "b\0")


def test_where_a_list_is_read(shared_vectors: Vectors) -> None:
    for case in shared_vectors("list_semantics.json")["groups"]["storage_list_options"]:
        opts = case.get("opts", {})
        if case["name"] in ("unknown ResourceVersionMatch value", "rev resolve to 0 if not recursive"):
            continue  # refused before it comes here; every list here is recursive
        predicate = opts.get("Predicate", {})
        options = ListOptions(
            resource_version=opts.get("ResourceVersion", ""),
            resource_version_match=opts.get("ResourceVersionMatch", ""),
            limit=predicate.get("Limit", 0),
            continue_token=predicate.get("Continue", ""),
        )
        if "expectedError" in case:
            with pytest.raises(BadRequest, match=case["expectedError"]):
                continuation.list_position(options)
        else:
            expected = (case.get("expectedRev", 0), case.get("expectedContinueKey", ""))
            assert continuation.list_position(options) == expected, case["name"]


def test_resource_versions(shared_vectors: Vectors) -> None:
    for case in shared_vectors("list_semantics.json")["groups"]["parse_resource_version"]:
        if case.get("Err"):
            with pytest.raises(InvalidResourceVersion):
                continuation.parse_resource_version(case["Version"])
        else:
            assert continuation.parse_resource_version(case["Version"]) == case["ExpectVersion"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-1", "invalid syntax"),
        ("+1", "invalid syntax"),
        ("٣", "invalid syntax"),
        ("18446744073709551616", "value out of range"),
        ("9" * 10_000, "value out of range"),
    ],
)
def test_resource_versions_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(InvalidResourceVersion) as caught:
        continuation.parse_resource_version(text)
    expected = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'
    assert caught.value.detail == expected
    assert str(caught.value) == f"invalid resource version: {expected}"


def _token(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


V1 = {"v": "meta.k8s.io/v1", "rv": 5, "start": "a"}


@pytest.mark.parametrize(
    ("token", "detail"),
    [
        ("garbage", "invalid character '\\u0081' looking for beginning of value"),
        ("a", "illegal base64 data at input byte 0"),
        ("ab$c", "illegal base64 data at input byte 2"),
        ("ab==", "illegal base64 data at input byte 2"),
        (_token([]), "expected an object, got an array"),
        (_token({**V1, "v": "meta.k8s.io/v9"}), "server does not recognize this encoded version meta.k8s.io/v9"),
        (_token({**V1, "rv": "5"}), 'rv: expected an integer, got "5"'),
        (_token({**V1, "rv": 2**63}), None),
        (_token({**V1, "rv": True}), "rv: expected an integer, got true"),
        (_token({**V1, "start": "../../x"}), "../../x"),
        (_token({**V1, "start": "a//b"}), "a//b"),
        (_token({**V1, "start": "a/"}), "a/"),
        (_token(b'{"rv": NaN}'), None),
        (_token(b"[" * 5_000), None),
        (_token(b'{"v":"\xff"}'), None),
        ("A" * 100_000, None),
    ],
)
def test_tokens_made_up_by_clients(token: str, detail: str | None) -> None:
    with pytest.raises(InvalidContinue) as caught:
        continuation.decode(token)
    assert str(caught.value).startswith("invalid continue token: continue key is not valid: ")
    if detail is not None:
        assert str(caught.value) == f"invalid continue token: continue key is not valid: {detail}"


@given(st.integers(-1, 2**63 - 1).filter(bool), st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3))
def test_what_is_encoded_is_decoded(rev: int, segments: list[str]) -> None:
    segments = [s.replace("/", "_").replace(".", "_").encode(errors="replace").decode() for s in segments]
    start = "/".join(segments) + "\0"
    assert continuation.decode(continuation.encode(rev, start)) == (rev, start)


@given(st.one_of(st.text(max_size=40), st.binary(max_size=60).map(_token)))
def test_any_token_is_read_or_refused(token: str) -> None:
    try:
        _, start = continuation.decode(token)
    except InvalidContinue:
        return
    assert ".." not in start.split("/")
