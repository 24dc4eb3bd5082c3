"""Revisions of etcd are raised epoch by epoch; what was given out before stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.storage.etcd.epochs import MOST_EPOCHS, NEVER, Raising

epochs = st.lists(st.tuples(st.integers(1, 1_000), st.integers(0, 10**10)), max_size=6)


def made(steps: list[tuple[int, int]]) -> Raising:
    """Each epoch begins some revisions later, and is raised more."""
    start = by = 0
    starts, raises = [], []
    for later, more in steps:
        start, by = start + later, by + more
        starts.append(start)
        raises.append(by)
    return Raising(tuple(starts), tuple(raises))


@given(epochs, st.integers(1, 10_000), st.integers(1, 10_000))
def test_what_is_raised_can_be_lowered_and_keeps_its_order(steps: list[tuple[int, int]], one: int, other: int) -> None:
    raising = made(steps)
    assert raising.lowered(raising.raised(one)) == one
    assert (raising.raised(one) < raising.raised(other)) == (one < other)


@given(epochs, st.integers(1, 10**11))
def test_a_revision_that_never_was_is_told(steps: list[tuple[int, int]], rev: int) -> None:
    raising = made(steps)
    lowered = raising.lowered(rev)
    assert lowered == NEVER or raising.raised(lowered) == rev


@given(epochs, st.integers(1, 1_000), st.integers(0, 10**10))
def test_the_text_of_another_epoch_is_read_with_the_revision_of_its_write(
    steps: list[tuple[int, int]], later: int, by: int
) -> None:
    before = made(steps)
    start = (before.starts[-1] if before else 0) + later
    after = Raising.parse(before.next(by), start)
    assert after.raised(start) == start + by
    assert after.raised(start - 1) == before.raised(start - 1)
    assert after.first == start + by


@pytest.mark.parametrize("text", ["", "+", "x+1", "1+x", "+-3", "1+²", ",,,", "hello"])
def test_a_text_that_is_not_understood_raises_nothing(text: str) -> None:
    assert Raising.parse(text, 7) == Raising()


def test_the_text_does_not_grow_for_ever() -> None:
    raising = Raising()
    for number in range(2 * MOST_EPOCHS):
        raising = Raising.parse(raising.next(number * 10**12), number + 1)
    assert len(raising.next(10**15)) < 16 * 1024
