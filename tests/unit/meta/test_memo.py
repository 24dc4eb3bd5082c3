"""What is remembered has a bound in bytes, whatever clients send."""

from __future__ import annotations

import tracemalloc

from oarlock.meta.memo import LONGEST_BYTES, Memo


def test_what_was_put_is_found_again() -> None:
    memo: Memo[str, str] = Memo(1000, entry_bytes=100)
    memo.put("a", "A", 10)
    assert memo.get("a") == "A"
    assert memo.get("b") is None
    assert memo.held_bytes == 110
    memo.put("a", "B", 10)
    assert memo.get("a") == "B"
    assert (len(memo), memo.held_bytes) == (1, 110)


def test_the_oldest_go_when_the_bytes_are_used_up() -> None:
    memo: Memo[int, int] = Memo(100, entry_bytes=10, per_byte=2)
    for n in range(50):
        memo.put(n, n, 10)
    assert [n for n in range(50) if memo.get(n) is not None] == [47, 48, 49]
    assert memo.held_bytes == 90
    memo.put(50, 50, 45)
    assert [n for n in range(51) if memo.get(n) is not None] == [50]


def test_a_long_text_is_not_kept_and_drives_nothing_out() -> None:
    memo: Memo[str, int] = Memo(100_000, entry_bytes=10)
    memo.put("short", 1, LONGEST_BYTES)
    memo.put("long", 2, LONGEST_BYTES + 1)
    assert memo.get("long") is None
    assert memo.get("short") == 1


def test_what_would_not_fit_alone_empties_it_and_is_gone_itself() -> None:
    memo: Memo[str, int] = Memo(100, entry_bytes=10)
    memo.put("a", 1, 10)
    memo.put("b", 2, 200)
    assert (len(memo), memo.held_bytes) == (0, 0)


def test_a_memo_itself_costs_no_more_than_its_entries_say() -> None:
    memo: Memo[str, str] = Memo(1_000_000, entry_bytes=256)
    tracemalloc.start()
    try:
        for n in range(20_000):
            text = f"{n:0100}"
            memo.put(text, text, 100)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_200_000
    assert len(memo) > 2_000


def test_what_is_outdated_is_dropped_and_its_bytes_are_free_again():
    memo: Memo[str, int] = Memo(100, entry_bytes=10)
    get = memo.get
    for number in range(8):
        memo.put(str(number), number, 1)
    memo.drop(lambda number: number % 2 == 0)
    assert [get(str(number)) for number in range(8)] == [None, 1, None, 3, None, 5, None, 7]
    assert (len(memo), memo.held_bytes) == (4, 44)
    for number in range(8, 14):
        memo.put(str(number), number, 1)
    assert get("1") is None, "the oldest goes first"
    assert (len(memo), memo.held_bytes) == (9, 99)
