"""The interner: identity for what is equal, bounded for what never is."""

from __future__ import annotations

from oarlock.storage.cache.entry import Entry, Interner


def test_equal_sets_are_one_object() -> None:
    interner = Interner()
    one = interner.labels({"app": "a", "tier": "b"})
    assert interner.labels({"tier": "b", "app": "a"}) is one
    assert one == {"app": "a", "tier": "b"}
    assert interner.labels({}) is interner.labels({})


def test_what_is_returned_is_not_what_was_passed() -> None:
    mine = {"app": "a"}
    interned = Interner().labels(mine)
    mine["app"] = "b"
    assert interned == {"app": "a"}


def test_different_sets_are_bounded() -> None:
    interner = Interner(limit_bytes=20_000)
    sets = [interner.labels({"n": str(n)}) for n in range(1000)]
    assert [s["n"] for s in sets] == [str(n) for n in range(1000)]
    assert len(interner._labels) <= 20
    assert len(interner._texts) <= 21


def test_long_sets_are_not_kept() -> None:
    interner = Interner()
    mine = {f"key-{n}": "v" * 60 for n in range(100)}
    found = interner.labels(mine)
    assert found == mine
    assert found is not mine
    assert interner.held_bytes == 0


def test_equal_texts_are_one_object_also_those_of_labels() -> None:
    interner = Interner()
    one = interner.text("".join(["dev", "elop"]))
    assert interner.text("".join(["de", "velop"])) is one
    assert interner.labels({"namespace": "".join(["d", "evelop"])})["namespace"] is one


def test_different_texts_are_bounded_and_long_ones_not_kept() -> None:
    interner = Interner(limit_bytes=20_000)
    for n in range(1000):
        assert interner.text(f"namespace-{n}") == f"namespace-{n}"
        assert interner.held_bytes <= 20_000
        assert len(interner._texts) <= 125
    held = interner.held_bytes
    assert interner.text("x" * 100_000) == "x" * 100_000
    assert interner.held_bytes == held


def test_an_entry_carries_no_dictionary() -> None:
    entry = Entry("/k", "", "k", 2, 1, b"", broken="no")
    assert not hasattr(entry, "__dict__")
    assert repr(entry) == "<Entry /k at 2 broken>"
