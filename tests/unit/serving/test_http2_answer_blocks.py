"""Header blocks of answers say what they should to any HPACK decoder, and refuse what can't be a header."""

from __future__ import annotations

import pytest
from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from oarlock.server.serving.http2 import heads as http2_answer_blocks
from oarlock.server.serving.http2.heads import AnswerBlocks

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
NAMES = st.sampled_from(["content-type", "audit-id", "x-new", "X-Upper", "vary", "date", "connection", "upgrade"])
VALUES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\n\r\0"), max_size=400)


@given(
    st.lists(st.tuples(st.integers(100, 599), st.lists(st.tuples(NAMES, VALUES), max_size=6), st.integers(0, 1 << 40)))
)
def test_every_block_is_decoded_to_what_was_said(answers: list[tuple[int, list[tuple[str, str]], int]]) -> None:
    blocks, decoder = AnswerBlocks(), Decoder()
    for status, headers, length in answers:
        block = blocks.encode(status, headers, DATE, length)
        kept = [(name.lower(), value) for name, value in headers if name not in ("date", "connection", "upgrade")]
        found = [(name.decode(), value.decode()) for name, value in decoder.decode(block, raw=True)]
        assert found == [(":status", str(status)), ("date", DATE), *kept, ("content-length", str(length))]
        closes = any(name == "connection" and value.lower() == "close" for name, value in headers)
        assert blocks.asked_to_close == closes


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b"])
def test_a_line_break_in_a_value_is_refused_each_time(value: str) -> None:
    blocks = AnswerBlocks()
    for _ in range(2):
        blocks.encode(200, [("x-a", "fine")], DATE, None)
        with pytest.raises(ValueError, match="line break"):
            blocks.encode(200, [("x-a", value)], DATE, None)


@pytest.mark.parametrize("name", ["a b", "a:", "", "\u00e4"])
def test_what_is_no_name_is_refused_each_time(name: str) -> None:
    blocks = AnswerBlocks()
    for _ in range(2):
        with pytest.raises(ValueError, match="name of a header"):
            blocks.encode(200, [(name, "a")], DATE, None)


def test_what_is_remembered_is_bounded() -> None:
    blocks = AnswerBlocks()
    for n in range(1000):
        blocks.encode(200, [(f"x-{n}", "v" * (n * 10))], DATE, 1)
    assert len(blocks._names) <= http2_answer_blocks.MOST_NAMES
    assert len(blocks._values) <= http2_answer_blocks.MOST_NAMES
    assert all(len(field) <= http2_answer_blocks.MOST_BYTES for _, field in blocks._values.values())
