"""What is remembered has a bound, whatever clients send."""

from __future__ import annotations

from oarlock.patch.apply.remembering import Remembered


def test_what_was_put_is_found_again() -> None:
    memory: Remembered[str] = Remembered()
    memory.put("a", "A", 10)
    found = memory.get("a")
    assert found is not None
    assert found[0] == "A"
    assert memory.get("b") is None


def test_the_oldest_go_when_the_bytes_are_used_up() -> None:
    memory: Remembered[int] = Remembered(most_bytes=100, one_bytes=60)
    for n in range(50):
        memory.put(n, n, 30)
    assert [n for n in range(50) if memory.get(n) is not None] == [47, 48, 49]


def test_a_long_text_is_not_kept_and_drives_nothing_out() -> None:
    memory: Remembered[int] = Remembered(most_bytes=100, one_bytes=60)
    memory.put("short", 1, 60)
    memory.put("long", 2, 61)
    assert memory.get("long") is None
    assert memory.get("short") is not None


def test_putting_the_same_again_is_counted_once() -> None:
    memory: Remembered[int] = Remembered(most_bytes=100, one_bytes=60)
    for _ in range(10):
        memory.put("a", 1, 60)
    memory.put("b", 2, 40)
    assert memory.get("a") is not None
