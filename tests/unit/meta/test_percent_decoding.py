"""Percent-decoding: the same bytes as urllib's, at a cost that doesn't depend on how many escapes there are."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.meta.go import percent

PIECES = st.sampled_from(
    ["%41", "%3D", "%3d", "%25", "%0A", "%0d", "%FF", "%00", "=", "==", "=\n", "\r\n", "+", "é", "a"]
)


@given(st.lists(PIECES | st.characters(exclude_characters="%", exclude_categories=["Cs"])).map("".join))
def test_bytes_are_those_of_urllib(text: str) -> None:
    assert percent.bad_escape(text) is None
    assert percent.decoded(text) == unquote_to_bytes(text)


@pytest.mark.parametrize(("text", "bad"), [("a%", "%"), ("%4", "%4"), ("%41%zz1", "%zz"), ("%%41", "%%4"), ("é", None)])
def test_a_bad_escape_is_named(text: str, bad: str | None) -> None:
    assert percent.bad_escape(text) == bad
