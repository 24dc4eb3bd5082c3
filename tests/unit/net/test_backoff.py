"""Back-off: longer with each failure, up to the longest, and from the beginning when it worked."""

from __future__ import annotations

import pytest

from oarlock.net.backoff import Backoff


def test_waits_double_up_to_the_longest_and_begin_again() -> None:
    pauses = Backoff(1.0, 5.0).pauses()
    assert [pauses.take() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert (pauses.failures, pauses.next_s) == (5, 5.0)
    pauses.reset()
    assert (pauses.failures, pauses.next_s, pauses.take()) == (0, 1.0, 1.0)


def test_another_factor_and_many_failures() -> None:
    backoff = Backoff(1.0, 1e300, factor=1.5)
    assert [backoff.wait_s(failures) for failures in (1, 2, 3)] == [1.0, 1.5, 2.25]
    assert backoff.wait_s(10_000) == backoff.wait_s(61)


def test_jitter_adds_its_share_at_most() -> None:
    waits = {Backoff(1.0, 1.0, jitter=0.5).wait_s(1) for _ in range(50)}
    assert len(waits) > 1
    assert all(1.0 <= wait <= 1.5 for wait in waits)


@pytest.mark.parametrize(("first_s", "longest_s"), [(0.0, 1.0), (2.0, 1.0)])
def test_what_is_no_back_off(first_s: float, longest_s: float) -> None:
    with pytest.raises(ValueError, match="begins above 0"):
        Backoff(first_s, longest_s)
