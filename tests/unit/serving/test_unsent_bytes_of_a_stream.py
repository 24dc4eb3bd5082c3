"""What a stream holds for its client: every byte leaves once, in order, whatever the client allows at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from thoroughness import examples

from oarlock.endpoints.http import Unsent
from oarlock.server.serving.base_stream import BaseStream

CHUNKS = some.lists(some.binary(min_size=1, max_size=9), max_size=30)
SIZES = some.lists(some.integers(1, 40), min_size=1, max_size=40)


@examples(300)
@given(chunks=CHUNKS, later=CHUNKS, sizes=SIZES, counted=some.booleans())
def test_pieces_of_any_size_give_what_was_appended(
    chunks: list[bytes], later: list[bytes], sizes: list[int], counted: bool
) -> None:
    budget = Unsent()
    stream = BaseStream(budget)
    parts: list[Any] = []
    for appended in (chunks, later):
        for chunk in appended:
            stream.append(chunk)
        if counted:
            stream.charge()
        for size in sizes:
            before = stream.pending
            assert stream.shift(parts, size) == min(before, size)
            assert stream.pending == max(0, before - size)
    stream.shift(parts, stream.pending)
    sent = b"".join(parts)
    assert sent == b"".join([*chunks, *later])
    assert (stream.accepted, stream.pending, budget.size) == (len(sent), 0, 0)


@pytest.mark.parametrize("size", [1, 250, 300, 16 * 1024])
def test_what_is_left_when_a_stream_ends_is_counted_no_more(size: int) -> None:
    budget = Unsent()
    stream = BaseStream(budget)
    for n in range(2000):
        stream.append(b"%0300d" % n)
    stream.charge()
    assert budget.size == stream.pending == 600_000
    stream.shift([], size)
    assert budget.size == 600_000 - size // 300 * 300
    stream.ended()
    assert (budget.size, stream.pending) == (0, 0)
