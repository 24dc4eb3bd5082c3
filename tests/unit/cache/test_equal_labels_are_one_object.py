"""The interner: identity for what is equal, bounded for what never is."""

from __future__ import annotations

from oarlock.storage.cache.entry import Entry, Interner


def test_equal_sets_are_one_object() -> None:
    interner = Interner()
    one = interner.labels({"app": "a", "tier": "b"})
    assert interner.labels({"tier": "b", "app": "a"}) is one
    assert one == {"app": "a", "tier": "b"}
    assert interner.labels({}) is interner.labels({})
    assert interner.text("".join(["x", "y"])) is interner.text("".join(["x", "y"]))


def test_what_is_returned_is_not_what_was_passed() -> None:
    mine = {"app": "a"}
    interned = Interner().labels(mine)
    mine["app"] = "b"
    assert interned == {"app": "a"}


def test_different_sets_are_bounded() -> None:
    interner = Interner(limit=10)
    sets = [interner.labels({"n": str(n)}) for n in range(1000)]
    assert [s["n"] for s in sets] == [str(n) for n in range(1000)]
    assert len(interner._labels) <= 10
    assert len(interner._texts) <= 10


def test_an_entry_carries_no_dictionary() -> None:
    entry = Entry("/k", "", "k", 2, 1, b"", broken="no")
    assert not hasattr(entry, "__dict__")
    assert repr(entry) == "<Entry /k at 2 broken>"
